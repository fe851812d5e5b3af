"""Runs of visits of the served status."""

from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import PlainTextResponse

LIMIT_S = 0.5


def visit_routes(figures: dict[str, Any], asked: dict[str, int]) -> APIRouter:
    """What the page asks of runs, and an order that is refused; `GET /ordered` tells what was ordered."""
    app = APIRouter()
    ordered: dict[str, Any] = {}

    @app.get("/api/v1/visits")
    async def runs() -> dict[str, Any]:
        from tests.page.visits import runs_told

        return runs_told(figures)

    @app.get("/api/v1/visits/figures")
    async def drawn(id: str, points: int) -> dict[str, Any]:  # noqa: A002
        asked["visits"] += 1
        if id not in ((figures["visits"] or {}).get("id"), *figures["past_visits"]):
            raise HTTPException(404, f"nothing is kept here of visits {id}; see GET /api/v1/visits")
        from tests.page.visits import figures_of

        return figures_of(figures["shown_visits"], points, LIMIT_S)

    @app.post("/api/v1/visits")
    async def start(settings: dict[str, Any]) -> None:
        ordered.update(settings)
        raise HTTPException(409, "visits run already; stop them first, or wait for their end")

    @app.get("/ordered")
    async def last() -> dict[str, Any]:
        return ordered

    @app.get("/api/v1/visits/{name}/csv")
    async def as_csv(name: str) -> PlainTextResponse:
        return PlainTextResponse(f"visit,visit_s\n0,0.1\n# {name}\n")

    return app
