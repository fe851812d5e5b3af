"""What changes something, or makes Dash call back, may come from this page alone, and from programs."""

from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.web.access import is_own_page
from daemon.web.errors import Denial

READING = frozenset({"GET", "HEAD", "OPTIONS"})


class OwnPages:
    """Refuses requests of pages of other origins, but those that only read.

    Args:
        origins: further origins whose pages may ask (see `dashboard.app.build_app`).
    """

    def __init__(self, app: ASGIApp, *, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may be asked."""
        is_order = scope["type"] == "http" and scope["method"] not in READING
        if not is_order or is_own_page(scope, self._origins):
            await self._app(scope, receive, send)
            return
        detail, fix = "a page of another origin may not give orders", "open the page itself"
        await Denial(status=403, detail=detail, fix=fix).answer(scope, send)
