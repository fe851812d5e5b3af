"""The route for which instruments were missing from the last triggers, and when each was last heard."""

import asyncio
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Query, Response

from daemon.api.answers import missing_answer
from daemon.api.query_limit import QueryLimit
from daemon.api.readings import REFUSALS, GroupName, group_of, json_answer, number_of
from daemon.api.service import ApiService
from daemon.core.outside import monotonic_ns
from schemas.api.readings import Missing
from schemas.queries import LedgerTail

LAST_MOST = 20_000
"""Triggers looked at: of 120 instruments 2 MB of ledger, which a database on the same machine gives within 100 ms."""


def missing_routes(service: ApiService) -> APIRouter:
    """Missing history of a group."""
    routes = APIRouter()
    limit = Depends(QueryLimit())

    @routes.get(
        "/api/v1/groups/{group}/missing",
        tags=["readings"],
        dependencies=[limit],
        responses=REFUSALS,
        response_model=Missing,
    )
    async def missing(
        group: GroupName,
        last: Annotated[
            int, Query(ge=1, le=LAST_MOST, description="How many triggers, the newest in the ledger.")
        ] = 1000,
        instrument: Annotated[str | None, Query(description="Only this one, by name or number.")] = None,
    ) -> Response:
        """Which instruments were missing how often, in up to 60 ranges of triggers."""
        asked = group_of(service, group, of_triggers=False)
        only = None if instrument is None else number_of(asked, instrument)
        rows = await service.store.ask(LedgerTail(group=asked, most=last))
        answer = await asyncio.to_thread(missing_answer, asked, rows, only)
        instruments = service.pipelines[group].instruments
        chosen = slice(None) if only is None else slice(only, only + 1)
        answer["late"] = instruments.late()[chosen]
        answer["heard_s"] = np.round(instruments.heard_s(monotonic_ns())[chosen], 2)
        return json_answer(answer)

    return routes
