"""The security headers of every answer."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),  # for browsers that do not know frame-ancestors
    # Not no-referrer: a form of ours would then be sent with no origin that could be told from another page's.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class SecurityHeaders:
    """Stamps them on every answer, with a Content-Security-Policy."""

    def __init__(self, app: ASGIApp, policy: str) -> None:
        self._app = app
        self._headers = ((b"content-security-policy", policy.encode()), *HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, and stamp."""

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._app(scope, receive, stamped if scope["type"] == "http" else send)
