"""Routes for interference experiments."""

import asyncio
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Body, Query, Response
from fastapi.responses import HTMLResponse

from daemon.api.document import refusals
from daemon.api.service import ApiService
from daemon.api.workloads import NOT_KEPT, NOT_STARTED, Id, archived, started
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from daemon.workloads.interference.runner import REPORT
from schemas.api.interference import Experiment, ExperimentId, Experiments, Record

PATH = "/api/v1/interference"
EXAMPLE = {"workloads": [{"name": "scan", "kind": "scan", "clients": 4, "period_s": 0}], "pairs": 6, "block_s": 20}


def interference_routes(service: ApiService) -> APIRouter:
    """List, start, stop, records and reports."""
    routes = APIRouter(prefix=PATH, tags=["interference"])

    @routes.get("")
    async def experiments(
        after: Annotated[int, Query(ge=0, description="Samples of the timeline that are known already.")] = 0,
        blocks: Annotated[int, Query(ge=0, description="Blocks that are known already.")] = 0,
        past: Annotated[bool, Query(description="Whether those that were are wanted, too.")] = True,
    ) -> Experiments:
        """The experiment that runs, as far as it is, and those that were."""
        found = service.workloads.experiments
        those_before = await asyncio.to_thread(found.past) if past else []
        return Experiments(running=found.status(), live=found.live(after, blocks), past=those_before)

    @routes.post("", status_code=201, dependencies=[NEEDS_TOKEN], responses=NOT_STARTED)
    async def start(settings: Annotated[Experiment, Body(examples=[EXAMPLE])]) -> ExperimentId:
        """Start an experiment: blocks of A (write only) and B (write and read) by turns."""
        with started(service):
            return ExperimentId(id=await service.workloads.experiments.start(settings))

    @routes.delete("", dependencies=[NEEDS_TOKEN], responses=refusals({404: "No experiment runs."}))
    async def stop() -> ExperimentId:
        """Stop the experiment that runs; what it measured is kept, and reported before this answers."""
        try:
            return ExperimentId(id=await service.workloads.experiments.stop())
        except KeyError:
            raise ApiError(404, "no experiment runs") from None

    @routes.get("/{name}", response_model=Record, responses=NOT_KEPT)
    async def record(name: Id) -> Response:
        """Everything that was measured, and what follows from it."""
        content = await _content(name, service.workloads.experiments.archive.path(name))
        return Response(content, media_type="application/json")

    @routes.get("/{name}/report", response_class=HTMLResponse, responses=NOT_KEPT)
    async def report(name: Id) -> Response:
        """The report: one HTML file that loads nothing and runs no script."""
        return HTMLResponse(await _content(name, service.workloads.experiments.archive.path(name, REPORT)))

    return routes


async def _content(name: str, path: Path) -> bytes:
    """All of it at once: it may be replaced by another while it is sent."""
    with archived(f"an experiment {name}", PATH):
        return await asyncio.to_thread(path.read_bytes)
