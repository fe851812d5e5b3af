"""Runs of snapshot readers of the served status."""

from typing import Any

from fastapi import APIRouter, HTTPException


def snapshot_routes(figures: dict[str, Any]) -> APIRouter:
    """What the page asks of runs, and an order that is refused."""
    app = APIRouter()

    @app.get("/api/v1/snapshots")
    async def runs() -> dict[str, Any]:
        from tests.page.snapshots import runs_told

        return runs_told(figures)

    @app.get("/api/v1/snapshots/live")
    async def live(cycles: int = 0, samples: int = 0) -> dict[str, Any]:
        from tests.page.snapshots import live

        return live(figures["snapshots"]["figures"]["cycles"], cycles, samples)

    @app.get("/api/v1/snapshots/{run}")
    async def record(run: str) -> dict[str, Any]:
        if run not in figures["past_snapshots"]:
            raise HTTPException(404, f"nothing is kept here of a run {run}")
        from tests.page.snapshots import record

        return record(run)

    @app.post("/api/v1/snapshots")
    async def start(settings: dict[str, Any]) -> None:
        raise HTTPException(409, "snapshot readers run already; stop them first, or wait for their end")

    return app
