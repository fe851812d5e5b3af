"""The interface every store implements, and how it fails.

A store only writes and reads: no retry, sleep or batching.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from schemas.api.status import Shortfall
from schemas.batch import Batch, Durability, JournalPosition, Stream
from schemas.decimation import Decimated, How
from schemas.marks import Mark, MarksWithin
from schemas.queries import Query
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Dropped, Period, Rule


class StoreError(Exception):
    """Something went wrong between the daemon and the database; the message is one line for an operator.

    is_away: the database does not answer, or not now, whatever it is asked.
    """

    is_away = False


class StoreUnavailable(StoreError):
    """The database does not answer, or not now: try the same again later."""

    is_away = True


class StoreBusy(StoreUnavailable):
    """The database answers, but others are at what was asked: try the same again soon."""


class StoreLacks(StoreUnavailable):
    """The database answers, and lacks a table, a column or a right: an operator has to give it back."""

    is_away = False


class GroupLocked(StoreUnavailable):
    """Another daemon writes this group now."""


class BatchRejected(StoreError):
    """A row of the batch is at fault: the database will never take it. Everything else that it refuses may pass.

    reason: what refused it, in one line without the values of a row, so that it is the same for all that one cause
    refuses. detail: of the row that was refused, in one line; may be empty.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}; {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class CommitsLost(StoreError):
    """The database is behind what it acknowledged: it crashed and kept less than was asked, or is another copy now.

    position: where it is; at 0 it may be the position alone that was lost, and made again. Nothing of the batch was
    committed.
    """

    def __init__(self, position: JournalPosition) -> None:
        super().__init__(f"the database is back at position {position.sequence}, behind what it acknowledged")
        self.position = position


class OtherJournal(StoreError):
    """The database is at the position of a journal that the batch's does not follow.

    Another daemon has written under this logger's name, or this one's state folder is that of another time.

    position: where it is. Nothing of the batch was committed.
    """

    def __init__(self, position: JournalPosition) -> None:
        super().__init__(
            f"the database is at position {position.sequence} of journal {position.journal:016x}, which this logger's"
            " journal does not follow"
        )
        self.position = position


class AnswerTooLarge(StoreError):
    """There is more than the question allows an answer to have; a shorter interval may do."""

    def __init__(self, most: int) -> None:
        super().__init__(f"there are more than {most:,} readings, or the triggers that may have them")


class PeriodTouched(StoreUnavailable):
    """Readings of a period changed while it was copied: the copy was thrown away, and they are where they were."""


class ConfigurationRefused(StoreError):
    """The configuration cannot be used with this database; the message names the problem and the fix."""


class PlaceRefused(ConfigurationRefused):
    """A place cannot be used for readings; the message names the problem and the fix. place: its name."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(problem)
        self.place = place


class SchemaMismatch(ConfigurationRefused):
    """The schema in the database does not fit the configuration; the message names the difference and the fix.

    groups: those whose readings, as they are configured, the database can never have.
    """

    def __init__(self, problem: str, *, groups: Collection[str] = ()) -> None:
        super().__init__(problem)
        self.groups = tuple(groups)


@dataclass(frozen=True, kw_only=True)
class DurabilityInForce:
    """What a server really gives to a commit at one durability, by its own settings.

    words: one line, begins with `sync`, `async` or `NOT durable`.
    risk_ms: what a crash of the server can lose: acknowledged readings younger than this, in milliseconds; 0 is
    nothing, infinity has no limit.
    shortfall: where that is less than the durability promises; else None.
    """

    words: str
    risk_ms: float
    shortfall: Shortfall | None = None


@dataclass(frozen=True, kw_only=True)
class StoreFacts:
    """What a store says of itself, asked of the server and not of the configuration.

    backend: the product that answers, e.g. `postgresql`, `mariadb`, `mysql`, `mongodb`, `ferretdb`.
    durability: what holds for each durability that a group may ask for.
    settings: the server's settings that this follows from, by their names there.
    rows, size_bytes: by group; rows is the server's estimate where counting would be expensive.
    """

    backend: str
    version: str
    durability: Mapping[Durability, DurabilityInForce]
    target: str
    embedded: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    size_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReadOnly:
    """What makes a store one that is only asked: `ask`, `view`, `partitions`, `facts`, `close`.

    It takes no lock, is neither opened nor written with, and names itself to the server as `triggerlog LOGGER reader`.

    connections: so many questions are under way at most; others wait for their turn.
    give_up_s: a question that takes longer is given up, by the server too, even where its asker is gone, in seconds.
    """

    connections: int
    give_up_s: float


@dataclass(frozen=True, kw_only=True)
class ServerView:
    """What a server says of its own work; both are empty where it gives none.

    counters: what it counts, ever growing until it is restarted, by name. The same names mean the same everywhere:
        `wal_bytes` (redo log, journal), `cache_hits` and `cache_misses` (pages), `fsyncs`, `lock_waits`, `temp_bytes`,
        `commits`, `rollbacks`, `deadlocks`.
    waits: sessions of clients that wait now, by what for, e.g. `IO:WALSync`, `Lock:relation`; without the asker's own.
    """

    counters: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[str, int] = field(default_factory=dict)


class ReadCounters(NamedTuple):
    """What a server has counted of the reading of one table, ever growing until it counts anew.

    counted_by: whose counters these are: where it is another, they began at 0, with how the table was made.
    rows, pages: how many the table has now.
    scans, scanned_rows: scans that were begun, by each process of one, and rows that came in the order of the pages.
    lookups, fetched_rows: looks into indexes, and rows that came by them.
    pages_asked, pages_missed: pages that were asked for, for whatever reason, and those that the server had not cached.
    maintained: how often the server has looked after the table, which asks for pages, too, but for no rows.
    """

    counted_by: int
    rows: int
    pages: int
    scans: int
    scanned_rows: int
    lookups: int
    fetched_rows: int
    pages_asked: int
    pages_missed: int
    maintained: int


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One partition of a group: readings and ledger together.

    start_ns, end_ns: start_ns <= time_ns < end_ns, ns since 1970-01-01 UTC; the one that takes what fits no other has
        the ends of int64, and comes first.
    rows: readings (`arrays` layout: triggers), the server's estimate where counting would be expensive.
    size_bytes: on the server's disk, with indexes; of MongoDB its documents, before they are compressed.
    readings_bytes: what of it the readings take, without the ledger; None where there are none: they were dropped.
    place: where the readings lie, by the name that the server has for it; None where that is the database's own.
    index_bytes: what of readings_bytes their indexes take, which stay where new readings are written.
    may_move: whether the readings can be moved to another place. may_reduce: whether they can be reduced.
    counted: what the server has counted of each table that has readings of it, that of the rows before that of what
        lies out of line; none where it does not count so.
    """

    name: str
    start_ns: int
    end_ns: int
    rows: int
    size_bytes: int
    readings_bytes: int | None
    place: str | None = None
    index_bytes: int = 0
    may_move: bool = False
    may_reduce: bool = False
    counted: tuple[ReadCounters, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Move:
    """A move of a period that was begun and has not ended: of which group and partition, and where to."""

    group: str
    name: str
    place: str | None


Pace = Callable[[float], Awaitable[None]]
"""Is awaited before each step of a move, and returns when it may be done; gets how much is copied, 0 to 1."""


class Store(Protocol):
    """A database. One store serves all the groups of a logger; calls for different groups may overlap.

    Every method raises StoreUnavailable when the database does not answer in time. After that the store is still
    usable: the next call connects again.
    """

    async def open(self) -> None:
        """Create the schema, or check the one that is there.

        Raises:
            SchemaMismatch: it does not fit the configuration, or another logger owns it. Nothing was changed.
        """

    async def check(self) -> list[str]:
        """Look whether `open` would do, and change nothing; return what it would create, in words, a line each.

        Raises:
            SchemaMismatch: as `open`.
            StoreError: the login is refused, the server is too old or lacks a right that is needed.
        """

    async def commit(self, batch: Batch) -> None:
        """Commit all of the batch or none; return when the server has acknowledged it at `batch.durability`.

        Committing the same batch again changes nothing: the position tells that it is there already.

        Raises:
            BatchRejected: the server will never take it.
            CommitsLost: the server is behind `batch.follows`.
            OtherJournal: the server is at the position of a journal that the batch's does not follow.
        """

    async def rehearse(self, batch: Batch) -> None:
        """Do all of a commit but its end, to find out whether the batch would be taken; the position stays.

        Nothing of the batch is there afterwards, or (without transactions) nothing that committing it changes.

        Raises:
            BatchRejected, CommitsLost, OtherJournal: as `commit`.
        """

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where this store holds what this logger closed for the group; None before the first batch."""

    async def states(self) -> Mapping[str, bytes]:
        """What is beside this logger's position in each group, by its name; of groups that are not configured, too."""

    async def ask(self, query: Query) -> Array:
        """Answer one of `schemas.queries` as a structured array; an empty one when there is nothing.

        Raises:
            StoreUnavailable: also when the answer took longer than it may.
            AnswerTooLarge: there are more readings than `WindowReadings.most`.
        """

    async def keep_mark(self, mark: Mark) -> bool:
        """Keep a mark of this logger as durably as the server can; whether it is there, and as given.

        A mark with its id that is there already stays as it is, also one that was withdrawn.
        """

    async def withdraw_mark(self, mark: UUID, at_ns: int) -> bool:
        """Withdraw a mark of this logger (at_ns: ns since 1970-01-01 UTC), for good; whether there is one of this id.

        To withdraw it again changes nothing.
        """

    async def marks(self, query: MarksWithin) -> list[Mark]:
        """The marks of this logger that are not withdrawn, of a span of time."""

    async def facts(self) -> StoreFacts:
        """Version, durability really in force, row counts and sizes."""

    async def view(self) -> ServerView:
        """What the server counts of its own work, and what its sessions wait for now."""

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """The partitions of every group, in order of time; none where the server has none."""

    async def drop(self, period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        """Drop the readings of a period as a whole, and keep the account of it; their ledger stays.

        Where that was begun and did not end, it goes on from there, whatever the rule was then. Nothing is lost of the
        account, or counted twice, whenever the daemon or the server ends. Whoever calls it does so for one period of a
        group at a time.

        at_ns: now, by the daemon's clock. patience_s: readers and the writing wait behind this no longer.

        Raises:
            StoreBusy: the group's table was in use for all of that time; nothing was changed.
            StoreError: a right is lacking, or there is no such partition.
        """

    async def dropped(self) -> Mapping[str, tuple[Dropped, ...]]:
        """The account of all that was dropped of every group, and of what is being dropped, in the order of that."""

    async def close(self) -> None:
        """Give back connections; an embedded server stops when its last user closes."""


@runtime_checkable
class Tiered(Protocol):
    """What a store has besides that can keep the readings of each period in one of several places."""

    async def move(self, period: Period, place: str | None, *, pace: Pace, patience_s: float) -> None:
        """Move the readings of a period to a place, or go on where that was begun; nothing happens if they lie there.

        Readers find all of them at every moment. Nothing is lost or doubled, and no table is left over that `moves`
        does not name, whenever the daemon or the server ends. The period should not be one that is being written.

        place: None is the database's own. patience_s: readers and the writing wait behind this no longer.

        Raises:
            PeriodTouched: readings of it came meanwhile.
            StoreBusy: what has to be locked was in use for all of that time; the next call goes on from there.
            StoreError: a right or the room is lacking, or there is no such partition.
        """

    async def moves(self) -> tuple[Move, ...]:
        """The moves that were begun and have not ended."""

    async def give_up_move(self, move: Move, *, patience_s: float) -> None:
        """Remove what a move has made so far; the readings stay where they are.

        Raises:
            StoreBusy: what has to be locked was in use for all of that time.
        """


@runtime_checkable
class Decimating(Protocol):
    """What a store has besides that can reduce the readings of a period."""

    async def decimate(
        self, period: Period, how: How, *, window_ns: int, at_ns: int, pace: Pace, patience_s: float
    ) -> Decimated:
        """Reduce the readings of a period, or go on where that was begun, or with what came since it ended.

        Each reading is found at every moment as it was stored, or in the figures of its bucket (`Every`: in the count
        of the account), never in both, and never in neither; and so is the account, whenever the daemon or the server
        ends. What lies within window_ns before or after a mark stays. The ledger stays. A period that was begun is
        reduced as its account says, and its room given back at its end. Whoever calls it does so for one period of a
        group at a time.

        at_ns: now, by the daemon's clock. patience_s: readers and the writing wait behind this no longer.

        Raises:
            PeriodTouched: readings of it came while its room was given back: the next call does that again.
            StoreBusy: what has to be locked was in use for all of that time; the next call goes on from there.
            StoreError: a right or the room is lacking, or there is no such partition.
        """

    async def decimated(self) -> Mapping[str, tuple[Decimated, ...]]:
        """The account of all that was reduced of every group, and of what is being reduced, by time."""

    async def reduced(self, group: InstrumentGroup, start_ns: int, end_ns: int) -> Array:
        """Figures of all that was reduced with start_ns <= start of the bucket < end_ns.

        `schemas.decimation.reduced_dtype(group)`, by time and instrument.
        """

    def late(self, group: str) -> Collection[str]:
        """Names of periods that were reduced and that this store has put readings into since, as far as it knows."""


class Positioned(Protocol):
    """What moves a position: a batch, or another unit that a store commits exactly once."""

    @property
    def position(self) -> JournalPosition:
        """Where it moves the position to."""

    @property
    def follows(self) -> JournalPosition | None:
        """Where the position was acknowledged to be; None where nobody knows."""


def is_committed(found: JournalPosition, batch: Positioned) -> bool:
    """Whether a store that is at `found` (at 0 without a position) has a batch already; else the batch is its next.

    Raises:
        CommitsLost: it is behind `batch.follows`.
        OtherJournal: `found` is of another journal than the batch, and the batch does not follow it.
    """
    to, follows = batch.position, batch.follows
    is_ours = found.journal == to.journal
    if is_ours and found.sequence >= to.sequence:
        return True
    if follows is None:
        return False
    if found.sequence < follows.sequence and (not found.sequence or found.journal == follows.journal):
        raise CommitsLost(found)
    # Where our journal took over from `follows`, and the answer was lost, the store is at an earlier position of ours.
    if found.sequence and not is_ours and (found.journal, found.sequence) != (follows.journal, follows.sequence):
        raise OtherJournal(found)
    return False
