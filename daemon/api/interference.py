"""Routes for interference experiments."""

import asyncio
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Path, Query, Response
from fastapi.responses import HTMLResponse

from daemon.api.access import NEEDS_TOKEN
from daemon.api.service import ApiService
from daemon.workloads.interference.experiments import Busy, ExperimentRefused
from daemon.workloads.interference.keeper import ID
from schemas.api.interference import Experiment, ExperimentId, Experiments, Record

EXAMPLE = {"workloads": [{"name": "scan", "kind": "scan", "clients": 4, "period_s": 0}], "pairs": 6, "block_s": 20}

Id = Annotated[str, Path(description="Id of an experiment.", pattern=f"^{ID.pattern}$", examples=["20260101T000000Z"])]


def interference_routes(service: ApiService) -> APIRouter:
    """List, start, stop, records and reports."""
    routes = APIRouter()

    @routes.get("/api/v1/interference", tags=["interference"])
    async def experiments(
        after: Annotated[int, Query(ge=0, description="Samples of the timeline that are known already.")] = 0,
        blocks: Annotated[int, Query(ge=0, description="Blocks that are known already.")] = 0,
        past: Annotated[bool, Query(description="Whether those that were are wanted, too.")] = True,
    ) -> Experiments:
        """The experiment that runs, as far as it came, and those that were."""
        found = service.experiments
        return Experiments(running=found.status(), live=found.live(after, blocks), past=found.past() if past else [])

    @routes.post("/api/v1/interference", tags=["interference"], status_code=201, dependencies=[NEEDS_TOKEN])
    async def start(settings: Annotated[Experiment, Body(examples=[EXAMPLE])]) -> ExperimentId:
        """Start an experiment: blocks of A (write only) and B (write and read) by turns."""
        try:
            return ExperimentId(id=await service.experiments.start(settings))
        except Busy as error:
            raise HTTPException(409 if service.pipelines else 503, str(error)) from None
        except ExperimentRefused as error:
            raise HTTPException(422, str(error)) from None

    @routes.delete("/api/v1/interference", tags=["interference"], dependencies=[NEEDS_TOKEN])
    async def stop() -> ExperimentId:
        """Stop the experiment that runs; what it measured is kept, and reported before this answers."""
        try:
            return ExperimentId(id=await service.experiments.stop())
        except KeyError:
            raise HTTPException(404, "no experiment runs") from None

    @routes.get("/api/v1/interference/{name}", tags=["interference"], response_model=Record)
    async def record(name: Id) -> Response:
        """Everything that was measured, and what follows from it (`schemas.api.interference.Record`), as JSON."""
        return await _file(service.experiments.keeper.record_path(name), "application/json", name)

    @routes.get("/api/v1/interference/{name}/report", tags=["interference"], response_class=HTMLResponse)
    async def report(name: Id) -> Response:
        """The report: one HTML file that loads nothing and runs no script."""
        return await _file(service.experiments.keeper.report_path(name), "text/html", name)

    return routes


async def _file(path: FilePath, media_type: str, name: str) -> Response:
    """All of it at once: it may be replaced by another while it is sent."""
    try:
        return Response(await asyncio.to_thread(path.read_bytes), media_type=media_type)
    except FileNotFoundError:
        detail = f"nothing is kept here of an experiment {name}; see GET /api/v1/interference"
        raise HTTPException(404, detail) from None
