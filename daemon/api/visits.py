"""Routes for runs of mock DIA visits."""

import asyncio
from typing import Annotated

import orjson
from fastapi import APIRouter, Body, HTTPException, Query, Response
from pydantic import ValidationError

from daemon.api.access import NEEDS_TOKEN
from daemon.api.service import ApiService
from daemon.api.visit_files import unknown
from daemon.workloads.visits.kept import ID
from daemon.workloads.visits.visiting import VisitsBusy, VisitsNotStarted
from schemas.api.visits import Visits, VisitsFigures, VisitsRun, VisitsSettings, VisitsStatus
from schemas.checking.problems import problems
from schemas.config.visits import VisitsConfig
from schemas.readings import Array

EXAMPLE = {"cadence": "fast", "visits": 480, "index_mode": "last_object_table", "survey": {"scale": 0.02}}
MOST_POINTS = 20_000


def visits_routes(service: ApiService) -> APIRouter:
    """List, start, stop, figures."""
    routes = APIRouter()

    @routes.get("/api/v1/visits", tags=["visits"])
    async def visits() -> Visits:
        """How the run of visits is, and which there were."""
        past = await asyncio.to_thread(service.visiting.past)
        return Visits(status=service.visiting.status(), past=past, settings=service.visiting.settings({}))

    @routes.post("/api/v1/visits", tags=["visits"], status_code=201, dependencies=[NEEDS_TOKEN])
    async def start(
        settings: Annotated[
            VisitsSettings | None,
            Body(description="Fields of `[visits]` that differ from the configuration's.", examples=[EXAMPLE]),
        ] = None,
    ) -> VisitsStatus:
        """Start a run in a process of its own; where its tables hold visits already it goes on after them."""
        try:
            return await service.visiting.start({} if settings is None else settings.root)
        except ValidationError as error:
            found = problems(VisitsConfig, error.errors(include_url=False))
            raise HTTPException(422, "; and ".join(map(str, found))) from None
        except VisitsBusy as error:
            raise HTTPException(409 if service.pipelines else 503, str(error)) from None
        except VisitsNotStarted as error:
            raise HTTPException(422, str(error)) from None

    @routes.delete("/api/v1/visits", tags=["visits"], dependencies=[NEEDS_TOKEN])
    async def stop() -> VisitsStatus:
        """Stop after the visit that is under way; the answer does not wait for its end."""
        try:
            return await service.visiting.stop()
        except KeyError:
            raise HTTPException(404, "no visits run") from None

    @routes.get("/api/v1/visits/figures", tags=["visits"], response_model=VisitsFigures)
    async def figures(
        name: Annotated[
            str | None, Query(alias="id", pattern=f"^{ID.pattern}$", description="Of a run; of this one when left out.")
        ] = None,
        points: Annotated[
            int, Query(ge=10, le=MOST_POINTS, description="Visits that are told of at most, extremes besides.")
        ] = 2000,
    ) -> Response:
        """What is drawn of a run: seconds by visit, lines, boxes, the fraction over the limit, sizes."""
        run, rows = await _run(service, name)
        text = await asyncio.to_thread(_curves, run, rows, points)
        return Response(text, media_type="application/json")

    return routes


async def _run(service: ApiService, name: str | None) -> tuple[VisitsRun, Array]:
    course = service.visiting.course
    if course is not None and name in (None, course.name):
        return course.run(course.problem, expected=await asyncio.to_thread(course.expected)), course.series.rows
    kept = service.visiting.kept
    try:
        if name is None:
            name = (await asyncio.to_thread(kept.names))[0]
        return await asyncio.to_thread(kept.head, name), await asyncio.to_thread(kept.rows, name)
    except IndexError:
        raise HTTPException(404, "no visits were ever run here") from None
    except FileNotFoundError:
        raise unknown(name) from None
    except ValueError as error:
        raise HTTPException(409, str(error)) from None


def _curves(run: VisitsRun, rows: Array, points: int) -> bytes:
    # Imported here: a logger that runs no visits does without it.
    from daemon.workloads.visits.curves import curves  # noqa: PLC0415

    return orjson.dumps(curves(run, rows, points))
