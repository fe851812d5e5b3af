"""What the routes of all workloads share: the token, ids of runs, and what refusals are answered with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import HTTPException, Path, Security
from fastapi.security import HTTPBearer

from daemon.api.service import Told
from daemon.workloads.frame.archive import ID
from daemon.workloads.frame.runner import WorkloadBusy, WorkloadRefused
from daemon.workloads.frame.supervised import CommandEnded

TOKEN = Security(HTTPBearer(auto_error=False, description="The API's token."))
"""For the API's description, and so that `/docs` asks for the token; the guard checks it."""

ID_PATTERN = f"^{ID.pattern}$"
Id = Annotated[str, Path(description="Id of a run.", pattern=ID_PATTERN, examples=["20260101T000000Z"])]


@contextmanager
def started(service: Told) -> Iterator[None]:
    """Answer 409 where what is in the way of a start goes away, 503 while the daemon starts, else 422."""
    try:
        yield
    except WorkloadBusy as error:
        raise HTTPException(409 if service.pipelines else 503, str(error)) from None
    except WorkloadRefused as error:
        raise HTTPException(422, str(error)) from None


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
        raise HTTPException(404, f"nothing is kept here of {what}; see GET {listed_by}") from None
    except ValueError as error:
        raise HTTPException(409, str(error)) from None
    except CommandEnded as error:
        raise HTTPException(503, str(error)) from None
