"""Which browser pages may talk to the daemon."""

from urllib.parse import urlsplit


def is_own_page(origin: str | None, host: str | None) -> bool:
    """Tell whether a browser's request comes from a page of this host; a program's request has no origin at all."""
    return origin is None or (host is not None and urlsplit(origin).hostname == urlsplit(f"//{host}").hostname)
