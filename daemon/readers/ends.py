"""Between which triggers what is asked for at random is drawn."""

import asyncio
import time

import numpy as np

from backends.base import Store
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerEnds
from schemas.readings import Array, InstrumentGroup

OLD_S = 1.0
"""When the ends are asked for anew: what was written within the last second need not be hit."""


class Ends:
    """The first and the newest ledger row of the newest run, as they were about a second ago.

    Looking for them is no part of a client's question, so it goes on beside these, once for all clients; nobody waits
    for it but the first, and who asks while nothing is stored.
    """

    def __init__(self, store: Store, group: InstrumentGroup) -> None:
        self._store = store
        self._group = group
        self._rows: Array = np.empty(0, ledger_dtype(group.size))
        self._found_s = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def now(self) -> Array:
        """One or two ledger rows, none where nothing is stored.

        Raises:
            StoreError: as `Store.ask`.
        """
        is_old = time.monotonic() - self._found_s > OLD_S
        if self._looking is None and (is_old or not len(self._rows)):
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._looked)
        if self._looking is not None and not len(self._rows):
            await asyncio.shield(self._looking)
        return self._rows

    async def _look(self) -> None:
        self._rows, self._found_s = await self._store.ask(LedgerEnds(group=self._group)), time.monotonic()

    def _looked(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled():
            # Whoever waited has been told; who did not wait finds out by the own question.
            looking.exception()
