"""Routes for reader workloads."""

from typing import Annotated

from fastapi import APIRouter, Body, HTTPException, Path

from daemon.api.service import Told
from daemon.api.workloads import TOKEN, started
from daemon.workloads.readers.manager import Readers
from schemas.api.status import ReaderStatus
from schemas.config import Workload

EXAMPLE = {"name": "displays", "kind": "newest", "clients": 10, "period_s": 0.5, "deadline_s": 0.2}


def reader_routes(service: Told) -> APIRouter:
    """List, start and stop."""
    routes = APIRouter()

    @routes.get("/api/v1/readers", tags=["readers"])
    async def readers() -> dict[str, ReaderStatus]:
        """The reader workloads that run, by name."""
        return service.workloads.readers.statuses()

    @routes.post("/api/v1/readers", tags=["readers"], status_code=201, dependencies=[TOKEN])
    async def start(workload: Annotated[Workload, Body(examples=[EXAMPLE])]) -> ReaderStatus:
        """Start a reader workload in a process of its own."""
        if not service.pipelines:
            raise HTTPException(503, "the daemon is starting; the database is not open yet")
        with started(service):
            await service.workloads.readers.start(workload)
        return service.workloads.readers.statuses()[workload.name]

    @routes.delete("/api/v1/readers/{name}", tags=["readers"], dependencies=[TOKEN])
    async def stop(name: Annotated[str, Path(description="Name of a workload that runs.")]) -> ReaderStatus:
        """Stop a reader workload; the answer is how it was at the end."""
        try:
            return await service.workloads.readers.stop(name)
        except KeyError:
            raise HTTPException(404, f"there is no workload {name!r}; {_names(service.workloads.readers)}") from None

    return routes


def _names(readers: Readers) -> str:
    names = ", ".join(readers.workloads)
    return f"there is: {names}" if names else "none runs"
