"""How a request is refused before the application sees it, over HTTP and before a WebSocket opens."""

import math
from dataclasses import dataclass

from starlette.types import Scope, Send

from schemas.api.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Denial:
    """Why a request is refused.

    status: of HTTP.
    detail: what is wrong, in one line.
    fix: what to do, in one line.
    challenge: what may be sent to get in (WWW-Authenticate).
    wait_s: after which it may be tried again.
    """

    status: int
    detail: str
    fix: str
    challenge: str | None = None
    wait_s: float | None = None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Of the answer."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]
        if self.challenge is not None:
            headers.append((b"www-authenticate", self.challenge.encode()))
        if self.wait_s is not None:
            headers.append((b"retry-after", b"%d" % math.ceil(self.wait_s)))
        return headers

    @property
    def body(self) -> bytes:
        """Of the answer."""
        return Problem(detail=self.detail, fix=self.fix).encoded()

    async def answer(self, scope: Scope, send: Send) -> None:
        """Send it: as an answer, or in place of the WebSocket that was asked for."""
        kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
        await send({"type": f"{kind}.start", "status": self.status, "headers": self.headers})
        await send({"type": f"{kind}.body", "body": self.body})


def header(scope: Scope, name: bytes) -> str | None:
    """A header of a request; None when it is not there."""
    for found, value in scope["headers"]:
        if found == name:
            return bytes(value).decode("latin-1")
    return None


def client_of(scope: Scope) -> str:
    """The address that a request came from."""
    return str(scope["client"][0]) if scope.get("client") else ""
