"""Routes for what a run of visits leaves: the CSV, the Parquet file, the report."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from daemon.api.service import ApiService
from daemon.workloads.visits.files import Files, NotMade
from daemon.workloads.visits.kept import ID

Id = Annotated[str, Path(description="Id of a run.", pattern=f"^{ID.pattern}$", examples=["20260101T000000Z"])]


class Csv(StreamingResponse):
    """A CSV file."""

    media_type = "text/csv"


class Parquet(Response):
    """A Parquet file."""

    media_type = "application/vnd.apache.parquet"


def visit_files_routes(service: ApiService) -> APIRouter:
    """CSV, Parquet, report."""
    routes = APIRouter()
    files = Files(lambda: service.visiting.kept, lambda: service.visiting.running_id)

    @routes.get("/api/v1/visits/{name}/csv", tags=["visits"], response_class=Csv)
    async def as_csv(name: Id) -> Response:
        """What was measured of each visit, as CSV."""
        try:
            size, pieces = await files.csv(name)
        except FileNotFoundError:
            raise unknown(name) from None
        headers = {**_named(f"visits-{name}.csv"), "content-length": str(size)}
        return Csv(pieces, headers=headers)

    @routes.get("/api/v1/visits/{name}/parquet", tags=["visits"], response_class=Parquet)
    async def as_parquet(name: Id) -> Response:
        """The same as Parquet."""
        try:
            content = await files.parquet(name)
        except FileNotFoundError:
            raise unknown(name) from None
        except NotMade as error:
            raise HTTPException(503, str(error)) from None
        return Parquet(content, headers=_named(f"visits-{name}.parquet"))

    @routes.get("/api/v1/visits/{name}/report", tags=["visits"], response_class=HTMLResponse)
    async def report(name: Id) -> Response:
        """The report: one HTML file that loads nothing and runs no script."""
        try:
            return HTMLResponse(await files.report(name))
        except FileNotFoundError:
            raise unknown(name) from None
        except NotMade as error:
            raise HTTPException(503, str(error)) from None

    return routes


def unknown(name: str | None) -> HTTPException:
    """Nothing is kept of a run."""
    return HTTPException(404, f"nothing is kept here of visits {name}; see GET /api/v1/visits")


def _named(file: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{file}"'}
