"""Access control: which requests the API answers, by address, origin and token; every request passes it."""

import logging
import time
from collections.abc import Mapping

from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.web.denial import Denial, client_of, header
from daemon.web.origin import is_local_name, is_own_page, malformed
from daemon.web.rates import Rates
from daemon.web.secrets import same

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
