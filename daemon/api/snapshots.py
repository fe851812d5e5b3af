"""Routes for runs of snapshot readers."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Query, Response
from pydantic import ValidationError

from daemon.api.document import refusals
from daemon.api.service import ApiService
from daemon.api.workloads import NOT_KEPT, NOT_STARTED, Id, archived, started
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from schemas.api.snapshots import (
    SnapshotChanges,
    Snapshots,
    SnapshotSettings,
    SnapshotsLive,
    SnapshotsRun,
    SnapshotsStatus,
)
from schemas.checking.problems import problems

PATH = "/api/v1/snapshots"
EXAMPLE = {"scale": 0.02, "folders": 10, "clients": 100, "cycles": 6, "layout": "window"}


def snapshots_routes(service: ApiService) -> APIRouter:
    """List, start, stop, what was measured."""
    routes = APIRouter(prefix=PATH, tags=["snapshots"])

    @routes.get("")
    async def snapshots() -> Snapshots:
        """How the run of snapshot readers is, and which there were."""
        runner = service.workloads.snapshots
        past = await asyncio.to_thread(runner.past)
        return Snapshots(status=runner.status(), past=past, settings=SnapshotSettings())

    @routes.post("", status_code=201, dependencies=[NEEDS_TOKEN], responses=NOT_STARTED)
    async def start(
        settings: Annotated[
            SnapshotChanges | None,
            Body(description="Fields in which the run differs from the defaults.", examples=[EXAMPLE]),
        ] = None,
    ) -> SnapshotsStatus:
        """Start a run in processes of its own; folders that are loaded already are read as they are."""
        try:
            with started(service):
                return await service.workloads.snapshots.start({} if settings is None else settings.root)
        except ValidationError as error:
            found = problems(SnapshotSettings, error.errors(include_url=False))
            raise HTTPException(422, "; and ".join(map(str, found))) from None

    @routes.delete("", dependencies=[NEEDS_TOKEN], responses=refusals({404: "No snapshot readers run."}))
    async def stop() -> SnapshotsStatus:
        """Stop at once; the answer does not wait for the end. What was measured is kept, and what was loaded stays."""
        try:
            return await service.workloads.snapshots.stop()
        except KeyError:
            raise ApiError(404, "no snapshot readers run") from None

    @routes.get("/live", responses=refusals({404: "None ran since the daemon started."}))
    async def live(
        cycles: Annotated[int, Query(ge=0, description="Cycles that are known already.")] = 0,
        samples: Annotated[int, Query(ge=0, description="Samples of the time line that are known already.")] = 0,
    ) -> SnapshotsLive:
        """What the run under way, or the last one since the daemon started, has measured."""
        run = service.workloads.snapshots.run
        if run is None:
            raise ApiError(404, "no snapshot readers ran since the daemon started")
        return run.live(cycles, samples)

    @routes.get("/{name}", response_model=SnapshotsRun, responses=NOT_KEPT)
    async def record(name: Id) -> Response:
        """Everything that was measured of a run."""
        with archived(f"snapshot readers {name}", PATH):
            content = await asyncio.to_thread(service.workloads.snapshots.archive.path(name).read_bytes)
        return Response(content, media_type="application/json")

    return routes
