"""The route that moves one partition to a tier by hand."""

from fastapi import APIRouter

from daemon.api.document import refusals
from daemon.api.service import ApiService
from daemon.tiers.limits import MoveRefused
from daemon.web.access import NEEDS_TOKEN
from daemon.web.errors import ApiError
from schemas.api.tiers import MoveOrdered, TierMove


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
