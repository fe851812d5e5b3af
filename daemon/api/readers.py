"""Routes for reader workloads."""

from typing import Annotated

from fastapi import APIRouter, Body, Path

from daemon.api.document import refusals
from daemon.api.service import ApiService, starting
from daemon.api.workloads import NOT_STARTED, started
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from daemon.workloads.readers.manager import Readers
from schemas.api.readers import ReadersByName
from schemas.api.status import ReaderStatus
from schemas.config import Workload

EXAMPLE = {"name": "displays", "kind": "newest", "clients": 10, "period_s": 0.5, "deadline_s": 0.2}


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
    async def start(workload: Annotated[Workload, Body(examples=[EXAMPLE])]) -> ReaderStatus:
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
