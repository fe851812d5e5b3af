"""A store whose groups that report on change go into folders, and all others into tables.

Whoever commits needs to know no difference: a batch of such a group is one insertion, of which this logger is the
source, and its position is that of the batch.
"""

from collections.abc import Collection, Mapping
from uuid import UUID

import numpy as np

from backends.base import (
    BatchRejected,
    Decimating,
    Move,
    Pace,
    Partition,
    SchemaMismatch,
    ServerView,
    Store,
    StoreError,
    StoreFacts,
    StoreUnavailable,
    Tiered,
)
from backends.columns.figuring import Figuring
from backends.counting import Counting, HourRead
from backends.folders.base import FoldersStore
from schemas.batch import Batch, JournalPosition, Stream, position_owner
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.decimation import Decimated, How
from schemas.folders.blocks import Insertion
from schemas.folders.reports import difference, folder_of, intervals_of
from schemas.ledger import ledger_dtype
from schemas.marks import Mark, MarksWithin
from schemas.queries import Figures, LedgerRows, LedgerTail, Query, figures_dtype
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Dropped, Period, Rule

OTHER_VALUE = "another value of that instrument and time is there"


class ReportingStore:
    """The store of readings, and that of folders for the groups that report on change; a `Store`.

    tables: for the other groups; it knows none of these. folders: is opened and closed with it. groups: those that
    report, by name.
    """

    def __init__(
        self, tables: Store, folders: FoldersStore, groups: Mapping[str, InstrumentGroup], *, logger: str
    ) -> None:
        self._tables = tables
        self._folders = folders
        self._groups = groups
        self._logger = logger

    async def open(self) -> None:
        """Create the schemas, and the folders that are missing, or check those that are there."""
        await self._tables.open()
        try:
            await self._folders.create()
            for group in self._groups.values():
                await self._open_folder(group)
        except StoreError:
            await self._tables.close()  # it is opened once more
            raise

    async def _open_folder(self, group: InstrumentGroup) -> None:
        new = folder_of(group)
        try:
            if not await self._is_there(group):
                await self._folders.add_folder(new)
                return
            known = await self._folders.channels(new.path)
            missing = {number: name for number, name in new.channels.items() if number not in known}
            if missing:
                await self._folders.add_channels(new.path, missing)
        except ConditionsRefused as refused:
            raise _mismatch(group, f"{refused.problem}; {refused.fix}") from None

    async def _is_there(self, group: InstrumentGroup) -> bool:
        """Whether the folder of a group is there.

        Raises:
            SchemaMismatch: another one is there.
        """
        new = folder_of(group)
        there = next((each for each in await self._folders.folders() if each.path == new.path), None)
        if there is None:
            return False
        problem = difference(group, there, await self._folders.channels(new.path))
        if problem is not None:
            raise _mismatch(group, problem)
        return True

    async def check(self) -> list[str]:
        """Look whether `open` would do, and change nothing; return what it would create."""
        creates = list(await self._tables.check())
        for group in self._groups.values():
            try:
                is_there = await self._is_there(group)
            except SchemaMismatch:
                raise
            except StoreError:
                is_there = False  # not even their schema is
            creates += [] if is_there else [f"folder {group.folder} of group `{group.name}`"]
        return creates

    async def commit(self, batch: Batch) -> None:
        """Commit all of the batch or none."""
        group = self._groups.get(batch.group.name)
        if group is None:
            await self._tables.commit(batch)
            return
        await self._report(batch, group)

    async def rehearse(self, batch: Batch) -> None:
        """Find out whether the batch would be taken."""
        group = self._groups.get(batch.group.name)
        if group is None:
            await self._tables.rehearse(batch)
            return
        await self._report(batch, group, rehearse=True)

    async def _report(self, batch: Batch, group: InstrumentGroup, *, rehearse: bool = False) -> None:
        insertion = Insertion(
            block=intervals_of(batch.late, group),
            source=position_owner(self._logger, batch.stream),
            position=batch.position,
            follows=batch.follows,
        )
        try:
            reported = await self._folders.report(folder_of(group).path, insertion, whole=True, rehearse=rehearse)
        except ConditionsRefused as refused:
            raise _refusal(refused) from None
        if reported.conflicts:
            raise _refusal(next(iter(reported.conflicts.values())))

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where this store holds what this logger closed for the group."""
        there = self._groups.get(group)
        if there is None or there.folder is None:
            return await self._tables.position(group, stream)
        try:
            return await self._folders.position(there.folder, position_owner(self._logger, stream))
        except ConditionsRefused as refused:
            raise _refusal(refused) from None

    async def states(self) -> Mapping[str, bytes]:
        """What is beside this logger's position in each group that has a table; reports know no runs."""
        return await self._tables.states()

    async def ask(self, query: Query) -> Array:
        """Answer a question; the ledger of a group that reports is empty."""
        group = self._groups.get(query.group.name)
        if group is None:
            return await self._tables.ask(query)
        if isinstance(query, LedgerTail | LedgerRows):
            return np.empty(0, ledger_dtype(group.size))
        raise StoreError(f"group {group.name} reports on change, into folder {group.folder}; ask for that")

    def take_read(self) -> tuple[HourRead, ...] | None:
        """What answers about groups that have tables have read; None where the server counts."""
        return self._tables.take_read() if isinstance(self._tables, Counting) else None

    async def keep_mark(self, mark: Mark) -> bool:
        """Keep a mark of this logger."""
        return await self._tables.keep_mark(mark)

    async def withdraw_mark(self, mark: UUID, at_ns: int) -> bool:
        """Withdraw a mark of this logger."""
        return await self._tables.withdraw_mark(mark, at_ns)

    async def marks(self, query: MarksWithin) -> list[Mark]:
        """The marks of this logger, of a span of time."""
        return await self._tables.marks(query)

    async def facts(self) -> StoreFacts:
        """What the server says of itself; rows and sizes are those of tables."""
        return await self._tables.facts()

    async def view(self) -> ServerView:
        """What the server counts of its own work."""
        return await self._tables.view()

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """The partitions of the groups that have tables."""
        return await self._tables.partitions()

    async def drop(self, period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        """Drop readings of a group that has a table."""
        return await self._tables.drop(period, rule, at_ns=at_ns, patience_s=patience_s)

    async def move(self, period: Period, place: str | None, *, pace: Pace, patience_s: float) -> None:
        """Move readings of a group that has a table."""
        assert isinstance(self._tables, Tiered)
        await self._tables.move(period, place, pace=pace, patience_s=patience_s)

    async def moves(self) -> tuple[Move, ...]:
        """The moves of groups that have tables."""
        return await self._tables.moves() if isinstance(self._tables, Tiered) else ()

    async def give_up_move(self, move: Move, *, patience_s: float) -> None:
        """Remove what a move has made so far."""
        assert isinstance(self._tables, Tiered)
        await self._tables.give_up_move(move, patience_s=patience_s)

    async def decimate(
        self, period: Period, how: How, *, window_ns: int, at_ns: int, pace: Pace, patience_s: float
    ) -> Decimated:
        """Reduce readings of a group that has a table."""
        assert isinstance(self._tables, Decimating)
        return await self._tables.decimate(
            period, how, window_ns=window_ns, at_ns=at_ns, pace=pace, patience_s=patience_s
        )

    async def decimated(self) -> Mapping[str, tuple[Decimated, ...]]:
        """The account of the groups that have tables."""
        return await self._tables.decimated() if isinstance(self._tables, Decimating) else {}

    async def reduced(self, group: InstrumentGroup, start_ns: int, end_ns: int) -> Array:
        """Figures of a group that has a table."""
        assert isinstance(self._tables, Decimating)
        return await self._tables.reduced(group, start_ns, end_ns)

    async def figures(self, query: Figures) -> Array:
        """Figures of a group that has a table; none where the database cannot reduce."""
        if not isinstance(self._tables, Figuring):
            return np.empty(0, figures_dtype(query.group))
        return await self._tables.figures(query)

    def late(self, group: str) -> Collection[str]:
        """Periods of a group that has a table."""
        return self._tables.late(group) if isinstance(self._tables, Decimating) else ()

    async def dropped(self) -> Mapping[str, tuple[Dropped, ...]]:
        """The account of the groups that have tables."""
        return await self._tables.dropped()

    async def close(self) -> None:
        """Give back connections."""
        await self._folders.close()
        await self._tables.close()


def _mismatch(group: InstrumentGroup, problem: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"group {group.name} cannot report into folder {group.folder}: {problem}. Give the group another `folder`, or"
        " the instruments and channels that this one has",
        groups=(group.name,),
    )


def _refusal(refused: ConditionsRefused) -> StoreError:
    """What a refusal of the folder is to who commits: the value is wrong, or the folder is, and may be put right."""
    if refused.kind is RefusalKind.CONFLICT and refused.field != "path":
        return BatchRejected(OTHER_VALUE, refused.problem)
    if refused.kind is RefusalKind.INVALID:
        return BatchRejected(f"{refused.problem}; {refused.fix}", refused.field)
    return StoreUnavailable(f"the folder cannot be reported into: {refused}")
