"""Routes for runs of mock DIA visits, and for what these leave: the CSV, the Parquet file, the report."""

import asyncio
from typing import Annotated

import orjson
from fastapi import APIRouter, Body, HTTPException, Query, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import ValidationError

from daemon.api.document import refusals
from daemon.api.service import ApiService
from daemon.api.workloads import ID_PATTERN, NOT_KEPT, NOT_STARTED, Id, archived, started
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from daemon.workloads.visits.runner import VisitsRunner
from schemas.api.visits import Visits, VisitsFigures, VisitsRun, VisitsSettings, VisitsStatus
from schemas.checking.problems import problems
from schemas.config.visits import VisitsConfig
from schemas.readings import Array

PATH = "/api/v1/visits"
EXAMPLE = {"cadence": "fast", "visits": 480, "index_mode": "last_object_table", "survey": {"scale": 0.02}}
MOST_POINTS = 20_000


def visits_routes(service: ApiService) -> APIRouter:
    """List, start, stop, figures."""
    routes = APIRouter(prefix=PATH, tags=["visits"])

    @routes.get("")
    async def visits() -> Visits:
        """How the run of visits is, and which there were."""
        runner = service.workloads.visits
        past = await asyncio.to_thread(runner.past)
        return Visits(status=runner.status(), past=past, settings=runner.settings({}))

    @routes.post("", status_code=201, dependencies=[NEEDS_TOKEN], responses=NOT_STARTED)
    async def start(
        settings: Annotated[
            VisitsSettings | None,
            Body(description="Fields of `[visits]` that differ from the configuration's.", examples=[EXAMPLE]),
        ] = None,
    ) -> VisitsStatus:
        """Start a run in a process of its own; where its tables hold visits already it goes on after them."""
        try:
            with started(service):
                return await service.workloads.visits.start({} if settings is None else settings.root)
        except ValidationError as error:
            found = problems(VisitsConfig, error.errors(include_url=False))
            raise HTTPException(422, "; and ".join(map(str, found))) from None

    @routes.delete("", dependencies=[NEEDS_TOKEN], responses=refusals({404: "No visits run."}))
    async def stop() -> VisitsStatus:
        """Stop after the visit that is under way; the answer does not wait for its end."""
        try:
            return await service.workloads.visits.stop()
        except KeyError:
            raise ApiError(404, "no visits run") from None

    @routes.get("/figures", response_model=VisitsFigures, responses=NOT_KEPT)
    async def figures(
        name: Annotated[
            str | None, Query(alias="id", pattern=ID_PATTERN, description="Of a run; of this one when left out.")
        ] = None,
        points: Annotated[
            int, Query(ge=10, le=MOST_POINTS, description="Visits that are listed at most, extremes besides.")
        ] = 2000,
    ) -> Response:
        """What is drawn of a run: seconds by visit, lines, boxes, the fraction over the limit, sizes."""
        run, rows = await _run(service.workloads.visits, name)
        text = await asyncio.to_thread(_curves, run, rows, points)
        return Response(text, media_type="application/json")

    return routes


async def _run(runner: VisitsRunner, name: str | None) -> tuple[VisitsRun, Array]:
    progress, archive = runner.run, runner.archive
    if progress is not None and name in (None, progress.name):
        expected = await asyncio.to_thread(progress.expected)
        return progress.record(progress.state, progress.problem, expected=expected), progress.series.rows
    names = [name] if name is not None else (await asyncio.to_thread(archive.names))[:1]
    if not names:
        raise ApiError(404, "no visits were ever run here")
    with archived(f"visits {names[0]}", PATH):
        return await asyncio.to_thread(archive.read, names[0]), await asyncio.to_thread(archive.rows, names[0])


def _curves(run: VisitsRun, rows: Array, points: int) -> bytes:
    # Imported here: a logger that runs no visits does without it.
    from daemon.workloads.visits.figures import curves  # noqa: PLC0415

    return orjson.dumps(curves(run, rows, points))


class Csv(StreamingResponse):
    """A CSV file."""

    media_type = "text/csv"


class Parquet(Response):
    """A Parquet file."""

    media_type = "application/vnd.apache.parquet"


def visit_files_routes(service: ApiService) -> APIRouter:
    """CSV, Parquet, report."""
    routes = APIRouter(prefix=PATH, tags=["visits"], responses=NOT_KEPT)

    @routes.get("/{name}/csv", response_class=Csv)
    async def as_csv(name: Id) -> Response:
        """What was measured of each visit, as CSV."""
        with archived(f"visits {name}", PATH):
            size, chunks = await service.workloads.visits.files.csv(name)
        return Csv(chunks, headers={**_named(f"visits-{name}.csv"), "content-length": str(size)})

    @routes.get("/{name}/parquet", response_class=Parquet)
    async def as_parquet(name: Id) -> Response:
        """What was measured of each visit, as a Parquet file."""
        with archived(f"visits {name}", PATH):
            return Parquet(await service.workloads.visits.files.parquet(name), headers=_named(f"visits-{name}.parquet"))

    @routes.get("/{name}/report", response_class=HTMLResponse)
    async def report(name: Id) -> Response:
        """The report: one HTML file that loads nothing and runs no script."""
        with archived(f"visits {name}", PATH):
            return HTMLResponse(await service.workloads.visits.files.report(name))

    return routes


def _named(file: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{file}"'}
