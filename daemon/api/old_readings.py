"""Routes for old readings: what retention has dropped, and moves to other disks by hand."""

from fastapi import APIRouter, Depends

from daemon.api.document import refusals
from daemon.api.parameters import QueryLimit
from daemon.api.readings import REFUSALS
from daemon.api.service import ApiService
from daemon.tiers.limits import MoveRefused
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from schemas.api.retention import DroppedPeriod, DroppedPeriods
from schemas.api.tiers import MoveOrdered, TierMove


def retention_routes(service: ApiService) -> APIRouter:
    """The account of what was dropped."""
    routes = APIRouter()

    @routes.get("/api/v1/retention", tags=["readings"], dependencies=[Depends(QueryLimit())], responses=REFUSALS)
    async def dropped() -> DroppedPeriods:
        """Periods whose readings were dropped, or are being dropped, of all groups, in the order of that."""
        account = await service.store.dropped()
        every = [each for group in account.values() for each in group]
        return DroppedPeriods([DroppedPeriod.of(each) for each in sorted(every, key=lambda each: each.begun_ns)])

    return routes


def tiers_routes(service: ApiService) -> APIRouter:
    """Order a move; how far it is is in the status."""
    routes = APIRouter(tags=["control"], dependencies=[NEEDS_TOKEN])
    answers = refusals(
        {
            404: "There is no such group, partition or tier.",
            409: "The partition stays where it is, or lies there already.",
            503: "The database is away.",
        }
    )

    @routes.post("/api/v1/tiers/move", status_code=202, responses=answers)
    async def move(order: TierMove) -> MoveOrdered:
        """Move a partition to a tier, after what is being moved now; a restart of the daemon forgets it.

        A partition that is moved back to an earlier tier stays there until a limit of that tier asks for it.
        """
        try:
            ordered = await service.tiers.order(order.group, order.partition, order.tier)
        except MoveRefused as refused:
            fix = "see `triggerlog tiers list`, which names partitions and tiers"
            raise ApiError(409 if refused.is_there else 404, str(refused), fix, field=refused.part) from None
        return MoveOrdered(
            group=order.group, name=order.partition, source=ordered.source, target=order.tier, size_bytes=ordered.nbytes
        )

    return routes
