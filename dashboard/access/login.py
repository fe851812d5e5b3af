"""The log-in: a page that asks for the password, and the middleware that sends everybody there who is not logged in."""

import hmac
import html
import secrets
import time
from collections.abc import Callable
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from daemon.web.access import is_local_name, is_own_page, malformed
from daemon.web.errors import Denial, client_of, header
from daemon.web.rates import Rates
from daemon.web.secrets import same

LASTS_S = 12 * 3600
"""A shift and its handover."""


class Sessions:
    """Issues sessions and knows its own again; a restart of the page ends them all."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._ended: dict[str, float] = {}
        """Those logged out, until they would have ended by themselves."""

    def begin(self, now_s: float | None = None) -> str:
        """A new session, as text for a cookie."""
        until = int((time.time() if now_s is None else now_s) + LASTS_S)
        payload = f"{until}.{secrets.token_urlsafe(12)}"
        return f"{payload}.{self._signed(payload)}"

    def is_valid(self, session: str | None, now_s: float | None = None) -> bool:
        """Whether it is ours, not over and not ended."""
        payload, _, signature = (session or "").rpartition(".")
        if not payload or not hmac.compare_digest(signature.encode(), self._signed(payload).encode()):
            return False
        return _until(payload) > (time.time() if now_s is None else now_s) and payload not in self._ended

    def end(self, session: str) -> None:
        """End it before its time; one that is not ours is none of our business."""
        now_s = time.time()
        if self.is_valid(session, now_s):
            payload = session.rpartition(".")[0]
            self._ended = {ended: until for ended, until in self._ended.items() if until > now_s} | {
                payload: _until(payload)
            }

    def _signed(self, payload: str) -> str:
        return hmac.digest(self._key, payload.encode(), "sha256").hex()


def _until(payload: str) -> float:
    return float(payload.partition(".")[0])


OPEN = frozenset({"/assets/icon.svg"})
REQUESTS = {"burst": 600.0, "per_s": 200.0}
"""Of one address: a proxy may have a whole control room behind it."""
GUESSES = {"burst": 5.0, "per_s": 0.5}
"""Wrong passwords of one address."""
ENDED = 4401
"""Code that closes the stream of a session that is over."""
LARGEST_FORM = 8 * 1024
LOGGED_OUT = Denial(status=401, detail="nobody is logged in", fix="log in at /login first")

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in · triggerlog</title>
<link rel="icon" type="image/svg+xml" href="/assets/icon.svg">
<style>
:root {{ color-scheme: dark; }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; background: #0b0f14; color: #dbe3ec;
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }}
main {{ width: min(22rem, calc(100vw - 4rem)); padding: 1.5rem; background: #121820; border: 1px solid #232c37;
  border-radius: 5px; }}
h1 {{ margin: 0 0 1rem; font-size: 1.25rem; }}
label {{ display: block; margin-bottom: .25rem; color: #a3b0bf; }}
input, button {{ box-sizing: border-box; width: 100%; padding: .6rem .7rem; border: 1px solid #8793a3;
  border-radius: 5px; font: inherit; color: #dbe3ec; background: #0b0f14; }}
button {{ margin-top: 1rem; background: #1b232d; cursor: pointer; }}
:focus-visible {{ outline: 2px solid #ffd479; outline-offset: 2px; }}
[role=alert] {{ margin: 0 0 1rem; padding: .5rem .75rem; border: 1px solid #ff8178; border-left-width: 6px;
  border-radius: 5px; background: #3c1516; color: #ffe3e0; }}
</style>
</head>
<body>
<main>
<h1>triggerlog</h1>
{problem}<form method="post" action="/login">
<input type="hidden" name="next" value="{next}">
<label for="password">Password of this page</label>
<input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
</form>
</main>
</body>
</html>
"""


class LoginGuard:
    """Asks for the password, and lets those in who have given it.

    Args:
        app: the page.
        password: what opens it; None where only this machine reaches it, and everybody there may look.
        is_secure: whether it is reached over TLS: the cookie then travels over nothing else.
        origins: further origins whose pages may ask (see `dashboard.app.build_app`).
    """

    def __init__(
        self, app: ASGIApp, *, password: str | None, is_secure: bool, origins: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._password = password
        self._is_secure = is_secure
        self._origins = origins
        self._hosts = frozenset(urlsplit(origin).netloc for origin in origins)
        self._sessions = Sessions()
        self._requests = Rates(**REQUESTS)
        self._guesses = Rates(**GUESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the page, or what leads to it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        wait = self._requests.take(client_of(scope), time.monotonic())
        if wait:
            denial = Denial(status=429, detail="too many requests from this address", fix="ask less often", wait_s=wait)
            await denial.answer(scope, send)
            return
        if (denied := malformed(scope)) is not None:
            await denied.answer(scope, send)
            return
        try:
            await self._answer(scope, receive, send)
        except ClientDisconnect:
            return  # the client closed the connection in the middle of its request: there is nobody to answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._password is None:
            await self._let_local(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._stream(scope, receive, send)
        elif scope["path"] in ("/login", "/logout"):
            await (await self._log(scope, receive, self._password))(scope, receive, send)
        elif scope["path"] == "/healthz" and not self._is_in(scope):
            await Response('{"page":"ok"}', media_type="application/json")(scope, receive, send)
        elif scope["path"] in OPEN or self._is_in(scope):
            await self._app(scope, receive, send)
        elif scope["method"] == "GET" and "text/html" in (header(scope, b"accept") or ""):
            # The path as it came, so that a link into the page is followed once the reader is in.
            await RedirectResponse(f"/login?next={quote(_asked(scope), safe='')}", 303)(scope, receive, send)
        else:
            await LOGGED_OUT.answer(scope, send)

    async def _let_local(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = header(scope, b"host")
        if is_local_name(host) or host in self._hosts:
            await self._app(scope, receive, send)
            return
        fix = "open the page by the address 127.0.0.1, or name the proxy's address with --origin"
        await Denial(status=403, detail="the page is not served under this name", fix=fix).answer(scope, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._session(scope)
        if not self._sessions.is_valid(session):
            await LOGGED_OUT.answer(scope, send)
            return
        await self._app(scope, receive, _while(lambda: self._sessions.is_valid(session), send))

    async def _log(self, scope: Scope, receive: Receive, password: str) -> Response:
        request = Request(scope, receive)
        if request.method == "GET" and request.url.path == "/login":
            return _page(_local(request.query_params.get("next")))
        if request.method != "POST":
            return Response("use POST", 405, {"Allow": "POST"})
        if not is_own_page(scope, self._origins):
            return Response("a page of another origin may not do this", 403)
        return self._out(scope) if request.url.path == "/logout" else await self._in(request, password)

    def _out(self, scope: Scope) -> Response:
        self._sessions.end(self._session(scope) or "")
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(_cookie(scope), httponly=True, samesite="strict", secure=self._is_secure)
        return answer

    async def _in(self, request: Request, password: str) -> Response:
        body = await request.body()
        form = parse_qs(body[:LARGEST_FORM].decode("utf-8", "replace"), keep_blank_values=True)
        following = _local(form.get("next", ["/"])[0])
        now_s = time.monotonic()
        wait = self._guesses.wait_s(client_of(request.scope), now_s)
        if wait:
            return _page(
                following, "Too many wrong passwords from this address. Wait a few seconds, then try again.", 429
            )
        if not same(form.get("password", [""])[0], password):
            self._guesses.take(client_of(request.scope), now_s)
            return _page(following, "This is not the password. Try again.", 401)
        answer = RedirectResponse(following, 303)
        answer.set_cookie(
            _cookie(request.scope),
            self._sessions.begin(),
            max_age=LASTS_S,
            httponly=True,
            samesite="strict",
            secure=self._is_secure,
        )
        return answer

    def _is_in(self, scope: Scope) -> bool:
        return self._sessions.is_valid(self._session(scope))

    def _session(self, scope: Scope) -> str | None:
        # The one of the standard library finds nothing where another service of the host has set an odd cookie.
        return cookie_parser(header(scope, b"cookie") or "").get(_cookie(scope))


def _cookie(scope: Scope) -> str:
    # Cookies know no ports: two pages on one machine would log each other's readers out.
    return f"triggerlog_{(scope.get('server') or ('', 0))[1]}"


def _asked(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def _local(path: str | None) -> str:
    """A path on this page; anything that could lead elsewhere becomes its start."""
    if not path or not path.startswith("/") or path[1:2] in ("/", "\\") or any(ord(letter) < 33 for letter in path):
        return "/"
    return path


def _page(following: str, problem: str = "", status: int = 200) -> Response:
    alert = f'<p role="alert">{html.escape(problem)}</p>\n' if problem else ""
    text = PAGE.format(problem=alert, next=html.escape(following, quote=True))
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})


def _while(is_valid: Callable[[], bool], send: Send) -> Send:
    """Send for as long as the session lasts; then close."""

    async def sent(message: Message) -> None:
        if message["type"] == "websocket.send" and not is_valid():
            await send({"type": "websocket.close", "code": ENDED, "reason": "log in again"})
            raise WebSocketDisconnect(ENDED)
        await send(message)

    return sent
