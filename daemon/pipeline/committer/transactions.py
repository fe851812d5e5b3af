"""Transactions: what is asked of the store for one group, again for as long as it is away."""

import math

from backends.base import BatchRejected, Store, StoreError, StoreUnavailable
from daemon.core.supervision.fail_stop import fail_stop
from daemon.pipeline.backlog import Waiting
from daemon.pipeline.closed_blocks import merge, nothing_of
from daemon.pipeline.committer.account import Account
from daemon.pipeline.committer.attempts import Attempts
from daemon.pipeline.dead_letters import Reason
from daemon.pipeline.placer import Asked
from schemas.batch import Batch, ClosedBlock, Durability, JournalPosition, Stream
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup


class Transactions:
    """Makes batches of blocks, each of which follows what the account says that the store has.

    journal: the id that numbers of blocks are of.
    """

    def __init__(
        self,
        store: Store,
        group: InstrumentGroup,
        *,
        durability: Durability,
        journal: int,
        account: Account,
        attempts: Attempts,
    ) -> None:
        self._store = store
        self._group = group
        self._durability = durability
        self._journal = journal
        self._account = account
        self._attempts = attempts

    async def commit(self, parts: list[ClosedBlock], blocks: list[Waiting], tries: float = math.inf) -> None:
        """Commit what is good of blocks.

        Raises:
            BatchRejected: a row is at fault, as far as one connection says.
            CommitsLost, OtherJournal: it is no longer at the position that these follow.
            StoreUnavailable: it did not do it so many times.
        """
        batch = self._batch(parts, blocks)
        await self._attempts.at_store(lambda: self._store.commit(batch), tries)

    async def rehearse(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> Reason | None:
        """Why the store rejects parts of blocks; None where it would take them.

        Raises CommitsLost or OtherJournal where it is no longer at the position that these follow.
        """
        batch = self._batch(parts, blocks)
        try:
            await self._attempts.at_store(lambda: self._store.rehearse(batch))
        except BatchRejected as error:
            return Reason.of(error)
        return None

    async def takes_nothing(self, blocks: list[Waiting]) -> bool:
        """True where the store takes blocks without any rows; else wait until it does: no row is at fault till then."""
        batch, waited = self._batch([nothing_of(blocks[0].block)], blocks), False

        async def rehearse() -> None:
            nonlocal waited
            try:
                await self._store.rehearse(batch)
            except BatchRejected as error:
                waited = True
                raise StoreUnavailable(f"no row is at fault: {error}") from error

        await self._attempts.at_store(rehearse)
        return not waited

    async def position(self) -> JournalPosition:
        """Where the store is; at the number 0 where it knows of none."""
        position = await self._attempts.at_store(lambda: self._store.position(self._group.name))
        return position or JournalPosition(sequence=0)

    @fail_stop(StoreError)
    async def held(self) -> int:
        """Up to which number the store has the blocks."""
        position = await self.position()
        return position.sequence if position.journal == self._journal else 0

    async def ask(self, query: Asked | LedgerTail) -> Array:
        """What the store answers."""
        return await self._attempts.at_store(lambda: self._store.ask(query))

    def _batch(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> Batch:
        return Batch(
            **merge(parts).parts,
            group=self._group,
            position=self._account.position(parts, blocks),
            durability=self._durability,
            stream=Stream.JOURNAL,
            follows=self._account.follows,
        )
