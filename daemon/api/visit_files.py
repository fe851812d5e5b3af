"""Routes for what a run of visits leaves: the CSV, the Parquet file, the report."""

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from daemon.api.service import ApiService
from daemon.api.visits import PATH
from daemon.api.workloads import NOT_KEPT, Id, archived


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
