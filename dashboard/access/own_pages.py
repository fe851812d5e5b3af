"""What a callback of Dash does is for pages of this host and port alone, and of origins that are named."""

from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.web.errors import problem_answer
from daemon.web.origin import is_own_page
from schemas.api.problem import Problem


class OwnPages:
    """Refuses what other pages have a browser send to a path: to give an order is not for them.

    path: the start of the paths that are guarded. origins: further origins, see `is_own_page`.
    """

    def __init__(self, app: ASGIApp, *, path: str, origins: frozenset[str]) -> None:
        self._app = app
        self._path = path
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what is not refused."""
        if scope["type"] == "http" and scope["path"].startswith(self._path) and not is_own_page(scope, self._origins):
            answer = problem_answer(403, Problem(detail="a page of another origin may not use this page"))
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)
