"""The route for the trigger numbers that never came."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from daemon.api.answers import gaps_answer
from daemon.api.query_limit import QueryLimit
from daemon.api.readings import REFUSALS, GroupName, group_of, json_answer, see_in_order
from daemon.api.service import ApiService
from daemon.api.times import Moment, Times
from schemas.api.readings import Gaps
from schemas.queries import LedgerRows, SkippedTriggers
from schemas.readings import Array, InstrumentGroup

LAST_MOST = 10_000


def gaps_routes(service: ApiService) -> APIRouter:
    """Gaps of a group."""
    routes = APIRouter()
    limit = Depends(QueryLimit())

    @routes.get(
        "/api/v1/groups/{group}/gaps", tags=["readings"], dependencies=[limit], responses=REFUSALS, response_model=Gaps
    )
    async def gaps(
        group: GroupName,
        last: Annotated[int, Query(ge=1, le=LAST_MOST, description="At most so many gaps, the newest.")] = 100,
        start_ns: Annotated[Moment, Query(description="Only where the trigger after the gap is from here on.")] = -(
            2**63
        ),
        end_ns: Annotated[Moment, Query(description="Only where it is before this.")] = 2**63 - 1,
        times: Times = "ns",
    ) -> Response:
        """Ranges of trigger numbers for which no trigger was closed, with the times before and after them."""
        asked = group_of(service, group)
        see_in_order(start_ns, end_ns)
        rows = await service.store.ask(SkippedTriggers(group=asked, start_ns=start_ns, end_ns=end_ns, most=last))
        before = [await _before(service, asked, rows[rows["run"] == run]) for run in sorted(set(rows["run"].tolist()))]
        return json_answer(gaps_answer(asked, rows, before, is_cut=len(rows) == last), times)

    return routes


async def _before(service: ApiService, group: InstrumentGroup, rows: Array) -> Array:
    """The ledger rows of the triggers before the gaps of one run."""
    triggers = (rows["trigger"] - rows["skipped"] - 1).tolist()
    return await service.store.ask(LedgerRows(group=group, run=int(rows["run"][0]), triggers=tuple(triggers)))
