"""What the routes of all workloads share: the token, ids of runs, and what refusals are answered with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Path

from daemon.api.document import refusals
from daemon.api.service import ApiService
from daemon.web.errors import ApiError
from daemon.workloads.frame.archive import ID
from daemon.workloads.frame.runner import CommandEnded, WorkloadBusy, WorkloadRefused

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
