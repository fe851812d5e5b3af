"""The route for what retention has dropped."""

from fastapi import APIRouter, Depends

from daemon.api.query_limit import QueryLimit
from daemon.api.readings import REFUSALS
from daemon.api.service import ApiService
from schemas.api.retention import DroppedPeriod, DroppedPeriods


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
