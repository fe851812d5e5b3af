"""Routes for what runs beside the logger: readers and their governor, experiments, snapshot readers."""

import asyncio
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Path, Query, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from daemon.api.document import refusals
from daemon.api.service import ApiService, starting
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from daemon.workloads.frame.archive import ID
from daemon.workloads.frame.runner import CommandEnded, WorkloadBusy, WorkloadRefused
from daemon.workloads.interference.runner import REPORT
from daemon.workloads.readers.manager import Readers
from schemas.api.control import ReadersByName
from schemas.api.interference import Experiment, ExperimentId, Experiments, Record
from schemas.api.snapshots import (
    SnapshotChanges,
    Snapshots,
    SnapshotSettings,
    SnapshotsLive,
    SnapshotsRun,
    SnapshotsStatus,
)
from schemas.api.status import GovernorStatus, ReaderStatus
from schemas.checking.problems import problems
from schemas.config import Workload
from schemas.config.workloads import GovernorConfig

NOT_STARTED = refusals({409: "What is in the way goes away by itself.", 503: "The daemon is starting."})
"""Of a route that starts a workload."""
NOT_KEPT = refusals(
    {
        404: "There is no such run.",
        409: "The record of the run is damaged.",
        503: "The file cannot be made now.",
    }
)
"""Of a route that answers with what a run left."""
ID_PATTERN = f"^{ID.pattern}$"
Id = Annotated[str, Path(description="Id of a run.", pattern=ID_PATTERN, examples=["20260101T000000Z"])]


@contextmanager
def started(service: ApiService) -> Iterator[None]:
    """Answer 409 where what is in the way of a start goes away, 503 while the daemon starts, else 422."""
    try:
        yield
    except WorkloadBusy as error:
        raise _error(409 if service.pipelines else 503, error) from None
    except WorkloadRefused as error:
        raise _error(422, error) from None


@contextmanager
def archived(what: str, listed_by: str) -> Iterator[None]:
    """Answer 404 where the archive has no such run, 409 where its record is damaged, 503 where a file cannot be made.

    Args:
        what: names the run.
        listed_by: path of the route that lists the runs.
    """
    try:
        yield
    except FileNotFoundError:
        raise ApiError(404, f"nothing is kept here of {what}", f"see GET {listed_by}") from None
    except ValueError as error:
        raise ApiError(409, str(error)) from None
    except CommandEnded as error:
        raise ApiError(503, str(error)) from None


def _error(status: int, refused: WorkloadRefused) -> ApiError:
    return ApiError(status, refused.problem, refused.fix or None, field=refused.field or None)


A_READER = {"name": "displays", "kind": "newest", "clients": 10, "period_s": 0.5, "deadline_s": 0.2}


def reader_routes(service: ApiService) -> APIRouter:
    """List, start and stop."""
    routes = APIRouter()
    unknown = refusals({404: "No workload of that name runs."})

    @routes.get("/api/v1/readers", tags=["readers"])
    async def readers() -> ReadersByName:
        """The reader workloads that run, by name."""
        return ReadersByName(service.workloads.readers.statuses())

    @routes.post(
        "/api/v1/readers", tags=["readers"], status_code=201, dependencies=[NEEDS_TOKEN], responses=NOT_STARTED
    )
    async def start(workload: Annotated[Workload, Body(examples=[A_READER])]) -> ReaderStatus:
        """Start a reader workload in a process of its own."""
        if not service.pipelines:
            raise starting()
        with started(service):
            await service.workloads.readers.start(workload)
        return service.workloads.readers.statuses()[workload.name]

    @routes.delete("/api/v1/readers/{name}", tags=["readers"], dependencies=[NEEDS_TOKEN], responses=unknown)
    async def stop(name: Annotated[str, Path(description="Name of a workload that runs.")]) -> ReaderStatus:
        """Stop a reader workload; the answer is how it was at the end."""
        try:
            return await service.workloads.readers.stop(name)
        except KeyError:
            raise ApiError(404, f"there is no workload {name!r}", _names(service.workloads.readers)) from None

    return routes


def _names(readers: Readers) -> str:
    names = ", ".join(readers.workloads)
    return f"there is: {names}" if names else "none runs"


def governor_routes(service: ApiService) -> APIRouter:
    """Set its ceilings; what it does is in the status."""
    routes = APIRouter(dependencies=[NEEDS_TOKEN])

    @routes.post("/api/v1/governor", tags=["control"])
    async def govern(ceilings: GovernorConfig) -> GovernorStatus:
        """Hold readers back as long as a ceiling is broken; without one, let every reader ask.

        What is left out is no ceiling. It holds until it is set again, `[readers.governor]` is changed in the
        configuration and read again, or the daemon ends.
        """
        service.workloads.governor.set(ceilings)
        return service.workloads.governor.status()

    return routes


INTERFERENCE = "/api/v1/interference"
AN_EXPERIMENT = {
    "workloads": [{"name": "scan", "kind": "scan", "clients": 4, "period_s": 0}],
    "pairs": 6,
    "block_s": 20,
}


def interference_routes(service: ApiService) -> APIRouter:
    """List, start, stop, records and reports."""
    routes = APIRouter(prefix=INTERFERENCE, tags=["interference"])

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
    async def start(settings: Annotated[Experiment, Body(examples=[AN_EXPERIMENT])]) -> ExperimentId:
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


async def _content(name: str, path: pathlib.Path) -> bytes:
    """All of it at once: it may be replaced by another while it is sent."""
    with archived(f"an experiment {name}", INTERFERENCE):
        return await asyncio.to_thread(path.read_bytes)


SNAPSHOTS = "/api/v1/snapshots"
A_RUN = {"scale": 0.02, "folders": 10, "clients": 100, "cycles": 6, "layout": "window"}


def snapshots_routes(service: ApiService) -> APIRouter:
    """List, start, stop, what was measured."""
    routes = APIRouter(prefix=SNAPSHOTS, tags=["snapshots"])

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
            Body(description="Fields in which the run differs from the defaults.", examples=[A_RUN]),
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
        with archived(f"snapshot readers {name}", SNAPSHOTS):
            content = await asyncio.to_thread(service.workloads.snapshots.archive.path(name).read_bytes)
        return Response(content, media_type="application/json")

    return routes
