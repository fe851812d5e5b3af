"""Who may ask: the API by its token, and no page of another origin."""

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.web.errors import Denial, client_of, header
from daemon.web.rates import Rates
from daemon.web.secrets import same
from schemas.checking.addresses import is_ip

OPEN = frozenset({"/health"})
"""Says that the process lives, and nothing else."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
REQUESTS = {"burst": 400.0, "per_s": 200.0}
"""Of one address, for the daemon's API: the page and a monitor together ask a few a second."""
GUESSES = {"burst": 10.0, "per_s": 1 / 6}
"""Wrong tokens of one address that are answered as such; the right one never waits."""

WHERE = "it is in `api-token` in the daemon's state_dir, or where token_file or token_env in [api] says"
SEND_TOKEN = f"send `Authorization: Bearer TOKEN`; {WHERE}"
CHALLENGE = 'Bearer realm="triggerlog"'

NEEDS_TOKEN = Security(HTTPBearer(auto_error=False, description="The API's token."))
"""For the API's description, and so that `/docs` asks for the token; what checks it is AccessControl."""

log = logging.getLogger(__name__)


class AccessControl:
    """Passes on what may be asked, and answers the rest itself.

    Args:
        token: what opens everything.
        reads_freely: whether reading needs no token, because only this machine reaches the API, or everybody may read.
        any_name: whether it may then be asked by any name: what everybody may read, a page of another name may, too.
        requests: how many one address may send, as `Rates` takes it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        reads_freely: bool,
        any_name: bool = False,
        requests: Mapping[str, float] = REQUESTS,
    ) -> None:
        self._app = app
        self._token = token
        self._reads_freely = reads_freely
        self._any_name = any_name
        self._requests = Rates(**requests)
        self._guesses = Rates(**GUESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in place of the application what may not pass."""
        denial = self._denial(scope, time.monotonic())
        if denial is not None:
            await denial.answer(scope, send)
            return
        try:
            await self._app(scope, receive, send)
        except ClientDisconnect:
            return  # the client closed the connection in the middle of its request: there is nobody to answer

    def _denial(self, scope: Scope, now_s: float) -> Denial | None:
        wait = self._requests.take(client_of(scope), now_s)
        if wait:
            return Denial(status=429, detail="too many requests from this address", fix="ask less often", wait_s=wait)
        if (denial := malformed(scope)) is not None:
            return denial
        is_reading = scope["type"] == "http" and scope["method"] in READING
        if not is_reading and not is_own_page(scope):
            detail = "pages of other origins may neither listen nor give orders"
            return Denial(status=403, detail=detail, fix="ask from a page of this host and port, or from a program")
        if scope["path"] in OPEN:
            return None
        return self._without_token(scope, is_reading or scope["type"] == "websocket", now_s)

    def _without_token(self, scope: Scope, is_reading: bool, now_s: float) -> Denial | None:
        kind, _, given = (header(scope, b"authorization") or "").partition(" ")
        if kind.lower() == "bearer" and same(given.strip(), self._token):
            return None
        if given:
            return self._wrong(client_of(scope), now_s)
        if not (is_reading and self._reads_freely):
            return Denial(status=401, detail="this needs the API's token", fix=SEND_TOKEN, challenge=CHALLENGE)
        if not (self._any_name or is_local_name(header(scope, b"host"))):
            fix = "ask by the address 127.0.0.1, or send the API's token"
            return Denial(status=403, detail="this was asked by a name, which another page may have chosen", fix=fix)
        return None

    def _wrong(self, client: str, now_s: float) -> Denial:
        wait = self._guesses.take(client, now_s)
        if wait:
            detail, fix = "too many wrong tokens from this address", "wait, or send the right one"
            return Denial(status=429, detail=detail, fix=fix, challenge=CHALLENGE, wait_s=wait)
        if self._guesses.wait_s(client, now_s):
            # Once for each time that the patience runs out, which happens seldom: nobody fills the log by guessing.
            log.warning("%s sends wrong API tokens, and is now answered seldom", client)
        challenge = f'{CHALLENGE}, error="invalid_token"'
        return Denial(status=401, detail="this is not the API's token", fix=SEND_TOKEN, challenge=challenge)


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
