"""Which browser pages may ask, and under which names."""

from urllib.parse import urlsplit

from schemas.checking.addresses import is_ip


def is_own_page(origin: str | None, host: str | None) -> bool:
    """Tell whether a browser's request comes from a page of this host; a program's request has no origin at all."""
    return origin is None or (host is not None and urlsplit(origin).hostname == urlsplit(f"//{host}").hostname)


def is_local_name(host: str | None) -> bool:
    """Tell whether a Host header names something on loopback as its own machine does: an address, or no full name.

    A page on the web can let its own name lead to 127.0.0.1 (DNS rebinding) and then asks as if it were ours; the name
    that its visitor's browser sends is what gives it away. A program that sends none is no browser.
    """
    if host is None:
        return True
    name = urlsplit(f"//{host}").hostname or ""
    return is_ip(name) or "." not in name.removesuffix(".localhost")


def is_from(origin: str | None, host: str | None, further: frozenset[str]) -> bool:
    """Tell whether a page of this host and port, or of a further origin, asks; no origin is no browser.

    What has no origin misuses nobody's session.
    """
    return origin is None or urlsplit(origin).netloc == host or origin in further
