"""Routes for what a run of visits leaves: the CSV, the Parquet file, the report."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Response
from fastapi.responses import StreamingResponse

from daemon.api.service import ApiService, file_of
from daemon.workloads.visits.files import Files, NotMade
from daemon.workloads.visits.kept import ID

Id = Annotated[str, Path(description="Id of a run.", pattern=f"^{ID.pattern}$", examples=["20260101T000000Z"])]


def visit_files_routes(service: ApiService) -> APIRouter:
    """CSV, Parquet, report."""
    routes = APIRouter()
    files = Files(lambda: service.visiting.kept, lambda: service.visiting.running_id)

    @routes.get("/api/v1/visits/{name}/csv", tags=["visits"], response_class=Response, responses=file_of("text/csv"))
    async def as_csv(name: Id) -> Response:
        """What was measured of each visit, as CSV."""
        try:
            size, pieces = await files.csv(name)
        except FileNotFoundError:
            raise unknown(name) from None
        headers = {**_named(f"visits-{name}.csv"), "content-length": str(size)}
        return StreamingResponse(pieces, media_type="text/csv", headers=headers)

    @routes.get(
        "/api/v1/visits/{name}/parquet",
        tags=["visits"],
        response_class=Response,
        responses=file_of("application/vnd.apache.parquet"),
    )
    async def as_parquet(name: Id) -> Response:
        """The same as Parquet."""
        try:
            content = await files.parquet(name)
        except FileNotFoundError:
            raise unknown(name) from None
        except NotMade as error:
            raise HTTPException(503, str(error)) from None
        headers = _named(f"visits-{name}.parquet")
        return Response(content, media_type="application/vnd.apache.parquet", headers=headers)

    @routes.get(
        "/api/v1/visits/{name}/report", tags=["visits"], response_class=Response, responses=file_of("text/html")
    )
    async def report(name: Id) -> Response:
        """The report: one HTML file that loads nothing and runs no script."""
        try:
            return Response(await files.report(name), media_type="text/html")
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
