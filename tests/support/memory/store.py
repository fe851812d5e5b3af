"""A store in memory, for tests to which a database would add nothing: it keeps every promise of `Store` but to last."""

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np

from backends.base import (
    BatchRejected,
    DurabilityInForce,
    Partition,
    ServerView,
    StoreError,
    StoreFacts,
    is_committed,
)
from backends.columns.partitions import DAY_NS, partition_of
from backends.columns.reductions import newest_of_each, reducer_of
from backends.columns.windows import in_order, see_not_too_large
from schemas.batch import Batch, Durability, JournalPosition, Layout, Stream
from schemas.ledger import ledger_dtype
from schemas.marks import Mark, MarksWithin
from schemas.queries import (
    TOTALS,
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    LedgerRow,
    LedgerRows,
    LedgerTail,
    Means,
    NewestTrigger,
    Query,
    SkippedTriggers,
    Snapshot,
    Totals,
    TriggerReadings,
    TriggersReadings,
    WindowReadings,
    answer_dtype,
)
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Dropped, Period, Rule

_OfLedger = LedgerRow | LedgerTail | LedgerEnds | LedgerRows | SkippedTriggers
_OfReadings = NewestTrigger | TriggerReadings | InstrumentReadings | WindowReadings | TriggersReadings | Snapshot

NOT_DURABLE = DurabilityInForce(words="NOT durable: in the memory of this process", risk_ms=math.inf)


@dataclass(kw_only=True)
class _Group:
    group: InstrumentGroup
    positions: dict[Stream, JournalPosition] = field(default_factory=dict)
    readings: list[Array] = field(default_factory=list)
    ledger: dict[tuple[int, int], Array] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)

    def everything(self) -> Array:
        """Put all readings into one array, `answer_dtype(group)`, in the order of their writing."""
        self.readings = [np.concatenate([np.empty(0, answer_dtype(self.group)), *self.readings])]
        return self.readings[0]

    def see_new(self, batch: Batch) -> None:
        """Raise BatchRejected where a trigger of the batch is there already."""
        for run, trigger in batch.ledger[["run", "trigger"]].tolist():
            if (run, trigger) in self.ledger:
                raise BatchRejected("memory has it already: duplicate key", f"trigger {trigger} of run {run}")

    def rows(self) -> Array:
        """Put all ledger rows into one array, by run and trigger."""
        rows = np.empty(len(self.ledger), ledger_dtype(self.group.size))
        for k, key in enumerate(sorted(self.ledger)):
            rows[k] = self.ledger[key]
        return rows


class MemoryStore:
    """A store that forgets everything with its process.

    Clear `serving` to hold commits until it is set again, as a slow database would; `fail_with` makes them fail.
    `begun` and `commits` count the commits that were asked for and those that reached the store.
    """

    def __init__(self, groups: Mapping[str, InstrumentGroup]) -> None:
        self._groups = {name: _Group(group=group) for name, group in groups.items()}
        self._marks: dict[UUID, Mark] = {}
        self._withdrawn: set[UUID] = set()
        self._failure: Exception | None = None
        self.serving = asyncio.Event()
        self.serving.set()
        self.begun = 0
        self.commits = 0

    def fail_with(self, error: Exception | None) -> None:
        """Make every call that reaches the store raise this, until it is called with None.

        A rejection only those that write.
        """
        self._failure = error

    async def open(self) -> None:
        """There is nothing to create."""
        self._check()

    async def check(self) -> list[str]:
        """There is nothing to create."""
        self._check()
        return []

    async def commit(self, batch: Batch) -> None:
        """Keep a batch, unless it is there already."""
        self.begun += 1
        await self.serving.wait()
        self._check(rows=len(batch.ledger) + len(batch.revised))
        self.commits += 1
        kept = self._groups[batch.group.name]
        if is_committed(kept.positions.get(batch.stream, JournalPosition(sequence=0)), batch):
            return
        kept.see_new(batch)
        kept.readings += [_on_time(batch), _late(batch)]
        for row in (*batch.ledger, *batch.revised):
            kept.ledger[int(row["run"]), int(row["trigger"])] = row.copy()
        kept.positions[batch.stream] = batch.position

    async def rehearse(self, batch: Batch) -> None:
        """See whether a batch would be taken."""
        await self.serving.wait()
        self._check(rows=len(batch.ledger) + len(batch.revised))
        kept = self._groups[batch.group.name]
        if not is_committed(kept.positions.get(batch.stream, JournalPosition(sequence=0)), batch):
            kept.see_new(batch)

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        """Up to where the group is held."""
        self._check()
        found = self._groups[group].positions.get(stream)
        return found if found and found.sequence else None

    async def states(self) -> Mapping[str, bytes]:
        """What is beside the position of each group."""
        self._check()
        kept = {name: each.positions.get(Stream.JOURNAL) for name, each in self._groups.items()}
        return {name: position.state for name, position in kept.items() if position is not None}

    async def ask(self, query: Query) -> Array:
        """Answer a question by going through everything."""
        self._check()
        kept = self._groups[query.group.name]
        match query:
            case Totals():
                return _totals(kept)
            case Means() | Aggregate():
                reducer = reducer_of(query)
                reducer.add(kept.everything())
                return reducer.answer()
            case LedgerRow() | LedgerTail() | LedgerEnds() | LedgerRows() | SkippedTriggers():
                return _ledger(kept.rows(), query)
            case _:
                return _readings(kept, query)

    async def keep_mark(self, mark: Mark) -> bool:
        """Keep a mark, unless its id is there."""
        self._check()
        return self._marks.setdefault(mark.id, mark) == mark and mark.id not in self._withdrawn

    async def withdraw_mark(self, mark: UUID, at_ns: int) -> bool:
        """Withdraw a mark."""
        self._check()
        self._withdrawn |= self._marks.keys() & {mark}
        return mark in self._marks

    async def marks(self, query: MarksWithin) -> list[Mark]:
        """The marks of a span of time."""
        self._check()
        return query.of([mark for mark in self._marks.values() if mark.id not in self._withdrawn])

    async def facts(self) -> StoreFacts:
        """Say that nothing here lasts."""
        self._check()
        return StoreFacts(
            backend="memory",
            version="1",
            durability=dict.fromkeys(Durability, NOT_DURABLE),
            target="memory",
            rows={name: len(kept.everything()) for name, kept in self._groups.items()},
            size_bytes={name: kept.everything().nbytes for name, kept in self._groups.items()},
        )

    async def view(self) -> ServerView:
        """There is no server."""
        self._check()
        return ServerView()

    async def partitions(self) -> Mapping[str, tuple[Partition, ...]]:
        """One a day; nothing lies apart from it."""
        self._check()
        return {name: tuple(_partitions(kept)) for name, kept in self._groups.items()}

    async def drop(self, period: Period, rule: Rule, *, at_ns: int, patience_s: float) -> Dropped:
        """Forget the readings of a period."""
        await self.serving.wait()
        self._check(rows=1)
        kept = self._groups[period.group]
        every = kept.everything()
        goes = (every["time_ns"] >= period.start_ns) & (every["time_ns"] < period.end_ns)
        if not goes.any():
            raise StoreError(f"group {period.group!r} has no partition {period.name!r} with readings")
        runs, counts = np.unique(every["run"][goes], return_counts=True)
        kept.readings = [every[~goes]]
        ledger = kept.rows()
        ledger = ledger[(ledger["time_ns"] >= period.start_ns) & (ledger["time_ns"] < period.end_ns)]
        kept.dropped.append(
            Dropped(
                period=period,
                rule=rule,
                begun_ns=at_ns,
                dropped_ns=at_ns,
                stored=dict(zip(runs.tolist(), counts.tolist(), strict=True)),
                triggers=len(ledger),
                readings=int(counts.sum()),
                missing=int((ledger["expected"] - ledger["arrived"]).sum()),
                skipped=sum(_skipped(ledger[ledger["run"] == run]) for run in np.unique(ledger["run"]).tolist()),
                size_bytes=int(goes.sum()) * every.dtype.itemsize,
            )
        )
        return kept.dropped[-1]

    async def dropped(self) -> Mapping[str, tuple[Dropped, ...]]:
        """The account of what was dropped."""
        self._check()
        return {name: tuple(kept.dropped) for name, kept in self._groups.items()}

    async def close(self) -> None:
        """There is nothing to give back."""

    def _check(self, *, rows: int = 0) -> None:
        if self._failure is not None and (rows or not isinstance(self._failure, BatchRejected)):
            raise self._failure


def _partitions(kept: _Group) -> Iterator[Partition]:
    every, ledger = kept.everything(), kept.rows()
    days = np.unique(np.concatenate([every["time_ns"], ledger["time_ns"]]) // DAY_NS)
    for day in days.tolist():
        of = partition_of(day * DAY_NS, "day")
        rows = int(np.count_nonzero((every["time_ns"] >= of.start_ns) & (every["time_ns"] < of.end_ns)))
        its_ledger = int(np.count_nonzero((ledger["time_ns"] >= of.start_ns) & (ledger["time_ns"] < of.end_ns)))
        size = rows * every.dtype.itemsize
        yield Partition(
            name=of.label,
            start_ns=of.start_ns,
            end_ns=of.end_ns,
            rows=rows,
            size_bytes=size + its_ledger * ledger.dtype.itemsize,
            readings_bytes=size if rows else None,
        )


def _answer(readings: Array, run: Array, trigger: Array, group: InstrumentGroup) -> Array:
    answer = np.empty(len(readings), answer_dtype(group))
    answer["run"], answer["trigger"] = run, trigger
    for name in ("instrument", "time_ns", *(channel.name for channel in group.channels)):
        answer[name] = readings[name]
    return answer


def _on_time(batch: Batch) -> Array:
    counts = batch.present.sum(axis=1)
    run, trigger = np.repeat(batch.ledger["run"], counts), np.repeat(batch.ledger["trigger"], counts)
    return _answer(batch.readings[batch.present], run, trigger, batch.group)


def _late(batch: Batch) -> Array:
    of = batch.revised[batch.late_of]
    return _answer(batch.late, of["run"], of["trigger"], batch.group)


def _of_trigger(every: Array, row: Array) -> Array:
    if not len(row):
        return every[:0]
    found = every[(every["run"] == row["run"][0]) & (every["trigger"] == row["trigger"][0])]
    return np.sort(found, order="instrument")


def _ledger(rows: Array, query: _OfLedger) -> Array:
    newest = rows[rows["run"] == rows["run"].max(initial=0)]
    match query:
        case LedgerRow():
            found = rows[rows["trigger"] == query.trigger]
            return np.asarray(found[-1:] if query.run is None else found[found["run"] == query.run])
        case LedgerRows():
            return np.asarray(rows[(rows["run"] == query.run) & np.isin(rows["trigger"], query.triggers)])
        case SkippedTriggers():
            found = rows.copy()
            found["skipped"] = np.diff(rows["trigger"], prepend=rows["trigger"][:1] - 1) - 1
            found["skipped"][np.diff(rows["run"], prepend=0) != 0] = 0
            found = found[(rows["skipped"] > 0) & (found["skipped"] > 0) & _within(rows, query)]
            return np.asarray(found[np.argsort(-found["time_ns"], kind="stable")][: query.most])
        case LedgerTail():
            of_run = newest if query.run is None else rows[rows["run"] == query.run]
            return np.asarray(of_run[-query.most :])
        case LedgerEnds():
            return np.asarray(newest[[0, -1]] if len(newest) > 1 else newest)


def _readings(kept: _Group, query: _OfReadings) -> Array:
    every, rows = kept.everything(), kept.rows()
    match query:
        case NewestTrigger():
            return _of_trigger(every, rows[rows["arrived"] == rows["expected"]][-1:])
        case TriggerReadings():
            return _of_trigger(every, rows[(rows["run"] == query.run) & (rows["trigger"] == query.trigger)])
        case InstrumentReadings():
            found = every[(every["instrument"] == query.instrument) & _within(every, query)]
            return np.asarray(found[np.argsort(found["time_ns"], kind="stable")][-query.most :])
        case WindowReadings():
            found = in_order(every[_within(every, query)])
            see_not_too_large(found, query, Layout.ROWS)
            return found
        case TriggersReadings():
            wanted = (every["run"] == query.run) & np.isin(every["trigger"], query.triggers)
            return np.sort(every[wanted], order=("trigger", "instrument"))
        case Snapshot():
            times = every["time_ns"]
            return newest_of_each(every[(times <= query.at_ns) & (times > query.at_ns - query.within_ns)])


def _totals(kept: _Group) -> Array:
    every, ledger = kept.everything(), kept.rows()
    dropped = [(run, stored) for each in kept.dropped for run, stored in each.stored.items()]
    runs = np.union1d(np.union1d(every["run"], ledger["run"]), [run for run, _ in dropped])
    answer = np.zeros(max(1, len(runs)), TOTALS)
    for row, run in zip(answer, runs, strict=False):
        mine = ledger[ledger["run"] == run]
        row["run"], row["stored"], row["triggers"] = run, np.count_nonzero(every["run"] == run), len(mine)
        row["dropped"] = sum(stored for of, stored in dropped if of == run)
        row["expected"], row["arrived"] = mine["expected"].sum(), mine["arrived"].sum()
        if len(mine):
            row["skipped"] = _skipped(mine)
            row["first_ns"], row["last_ns"] = mine["first_ns"].min(), mine["last_ns"].max()
    if Stream.JOURNAL in kept.positions:
        journal = kept.positions[Stream.JOURNAL]
        answer["sequence"], answer["journal_readings"] = journal.sequence, journal.readings
    answer["account_triggers"] = sum(position.triggers for position in kept.positions.values())
    answer["account_readings"] = sum(position.readings for position in kept.positions.values())
    return answer


def _skipped(rows: Array) -> int:
    return int(rows["trigger"][-1] - rows["trigger"][0]) + 1 - len(rows)


def _within(readings: Array, query: InstrumentReadings | WindowReadings | SkippedTriggers) -> Array:
    return np.asarray((readings["time_ns"] >= query.start_ns) & (readings["time_ns"] < query.end_ns))
