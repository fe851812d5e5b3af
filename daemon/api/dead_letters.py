"""Routes for what the database rejected."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Security
from fastapi.security import HTTPBearer

from backends.base import StoreError
from daemon.api.service import Told
from daemon.pipeline.pipeline import Pipeline

Group = Annotated[str | None, Query(description="Name of an instrument group; all of them if absent.")]


def dead_letter_routes(service: Told) -> APIRouter:
    """Retry and discard."""
    # Checked by the guard; this says so in the API's description, and lets `/docs` ask for the token.
    routes = APIRouter(dependencies=[Security(HTTPBearer(auto_error=False, description="The API's token."))])

    @routes.post("/api/v1/dead-letters/retry", tags=["control"])
    async def retry(group: Group = None) -> dict[str, dict[str, Any]]:
        """Offer the dead letters to the database again, in order, and tell what became of them when that is done."""
        with _told_in_words():
            return {name: asdict(await pipeline.retry()) for name, pipeline in _asked(service, group).items()}

    @routes.post("/api/v1/dead-letters/discard", tags=["control"])
    async def discard(group: Group = None) -> dict[str, dict[str, int]]:
        """Throw the dead letters away for good, and tell how much that was."""
        with _told_in_words():
            return {name: asdict(await pipeline.discard()) for name, pipeline in _asked(service, group).items()}

    return routes


@contextlib.contextmanager
def _told_in_words() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise HTTPException(503, f"{error}; what was not committed lies where it was, try again later") from None
    except OSError as error:
        raise HTTPException(500, f"the dead letters cannot be used: {error}") from None


def _asked(service: Told, group: str | None) -> dict[str, Pipeline]:
    if not service.pipelines:
        raise HTTPException(503, "the daemon is starting; the database is not open yet")
    if group is None:
        return dict(service.pipelines)
    if group not in service.pipelines:
        raise HTTPException(404, f"there is no group {group!r}; there is: {', '.join(service.pipelines)}")
    return {group: service.pipelines[group]}
