"""The route for where the readings lie, and how much room there is."""

from fastapi import APIRouter

from daemon.api.service import ApiService
from schemas.api.storage import Storage


def storage_routes(service: ApiService) -> APIRouter:
    """Sizes, growth, partitions and journals."""
    routes = APIRouter()

    @routes.get("/api/v1/storage", tags=["status"])
    async def storage() -> Storage:
        """Sizes, growth, partitions and journals; light: the server is asked for its partitions every 30 s at most."""
        return await service.storage.storage()

    return routes
