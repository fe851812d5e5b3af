"""What a store has besides that answers questions about what was reduced."""

from typing import Protocol, runtime_checkable

from schemas.queries import Figures
from schemas.readings import Array


@runtime_checkable
class Figuring(Protocol):
    """A store that can tell what readings were that it reduced."""

    async def figures(self, query: Figures) -> Array:
        """Answer `Figures`, of one moment.

        Raises:
            StoreUnavailable: also when the answer took longer than it may.
        """
