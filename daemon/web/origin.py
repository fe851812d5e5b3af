"""Which browser pages may ask, and under which names."""

import re
from dataclasses import dataclass
from typing import Self

from starlette.types import Scope

from daemon.web.denial import Denial
from schemas.checking.addresses import is_ip

AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=-]+)(?::([0-9]{1,5}))?")
"""host[:port] of RFC 3986 as browsers write it: no user, nothing percent-encoded, no comma (two headers in one)."""
ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
OPAQUE = "null"
"""Origin of a page that has none of its own: of a sandbox, or of a file."""
PORTS = {"http": 80, "https": 443}
LARGEST_PORT = 65_535


@dataclass(frozen=True)
class _Authority:
    """host: in lower case, an IPv6 address without brackets. port: None where none is written."""

    host: str
    port: int | None

    @classmethod
    def read(cls, text: str) -> Self | None:
        """What a text says; None if it is malformed."""
        found = AUTHORITY.fullmatch(text)
        if found is None:
            return None
        host, port = found[1].lower(), None if found[2] is None else int(found[2])
        in_brackets = host.startswith("[")
        if (in_brackets and not (":" in host and is_ip(host[1:-1]))) or (port or 0) > LARGEST_PORT:
            return None
        return cls(host.strip("[]"), port)


def malformed(scope: Scope) -> Denial | None:
    """The refusal of a request whose Host or Origin is malformed, or is there twice."""
    hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
    if len(hosts) > 1 or any(_Authority.read(host) is None for host in hosts):
        return Denial(status=400, detail="the Host header is malformed", fix="send one, as host or host:port")
    if len(origins) > 1 or any(not is_origin(origin) for origin in origins):
        return Denial(status=400, detail="the Origin header is malformed", fix="send one, as scheme://host[:port]")
    return None


def is_own_page(scope: Scope, further: frozenset[str] = frozenset()) -> bool:
    """Tell whether a request comes from a page of this scheme, host and port, or of a further origin.

    A program's request has no origin at all, and misuses nobody's session. The request is not `malformed`.
    """
    origins, hosts = _values(scope, b"origin"), _values(scope, b"host")
    if not origins or origins[0] in further:
        return True
    found = ORIGIN.fullmatch(origins[0])
    if found is None or not hosts:
        return False
    scheme = found[1].lower()
    is_secure = scope["scheme"] in ("https", "wss")
    # A proxy that ends TLS asks over plain HTTP for a page of https; the other way around it is another service.
    if scheme not in PORTS or (is_secure and scheme != "https"):
        return False
    return _with_port(found[2], scheme) == _with_port(hosts[0], scheme)


def is_local_name(host: str | None) -> bool:
    """Tell whether a Host header names something on loopback as its own machine does: an address, or no full name.

    A page on the web can let its own name lead to 127.0.0.1 (DNS rebinding) and then asks as if it were ours; the name
    that its visitor's browser sends is what gives it away. A program that sends none is no browser.
    """
    if host is None:
        return True
    found = _Authority.read(host)
    return found is not None and (is_ip(found.host) or "." not in found.host.removesuffix(".localhost"))


def is_origin(text: str) -> bool:
    """Tell whether a text is the value of an Origin header."""
    found = ORIGIN.fullmatch(text)
    return text == OPAQUE or (found is not None and _Authority.read(found[2]) is not None)


def _with_port(authority: str, scheme: str) -> tuple[str, int] | None:
    found = _Authority.read(authority)
    return None if found is None else (found.host, PORTS[scheme] if found.port is None else found.port)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [bytes(value).decode("latin-1") for found, value in scope["headers"] if found == name]
