"""What a server says of its own work, and the periods of a group.

https://www.mongodb.com/docs/manual/reference/command/serverStatus/

Periods are stretches of time that a group has triggers of, as partitions are of SQL databases. They are found without
reading what is in them. By the index of time the first and the last document of each is looked up, two queries a
period, and remembered: later calls look at the newest two, and at what comes after them. How many documents a period
has is not counted, but estimated: each has its part of all by how long it is from its first document to its last. A
server that uses no index reads all times instead.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from bson import Int64

from backends.base import Partition, ServerView
from backends.columns.partitions import FUTURE_NS, PAST_NS, UNITS, PartitionUnit, partition_of
from backends.columns.partitions import Partition as Stretch
from backends.mongodb.protocol.documents import DocumentFormat, number
from backends.mongodb.reading import documents
from backends.mongodb.reading.documents import LEAST
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.server.facts import Database, may_say
from schemas.batch import Layout
from schemas.readings import Array
from schemas.retention import Dropped, Span, are_within, spans_of

COUNTERS: dict[str, tuple[str, ...]] = {
    "wal_bytes": ("wiredTiger", "log", "log bytes written"),
    "fsyncs": ("wiredTiger", "log", "log sync operations"),
    "commits": ("wiredTiger", "transaction", "transactions committed"),
    "rollbacks": ("wiredTiger", "transaction", "transactions rolled back"),
    "cache_misses": ("wiredTiger", "cache", "pages read into cache"),
}
"""What WiredTiger counts, and what we call it."""
LOOKED_UP = ("wiredTiger", "cache", "pages requested from the cache")
WAITING = {"Queue:read": "readers", "Queue:write": "writers"}


async def ask_view(database: Database) -> ServerView:
    """Ask what the server counts; nothing without the right to `serverStatus`, of FerretDB, or without WiredTiger."""
    return view_of(await may_say(database.client.get_database("admin"), {"serverStatus": 1}))


def view_of(status: Mapping[str, Any]) -> ServerView:
    """Read the answer to `serverStatus`."""
    counters = {ours: value for ours, path in COUNTERS.items() if (value := _counter(status, path)) is not None}
    looked_up = _counter(status, LOOKED_UP)
    if looked_up is not None and "cache_misses" in counters:
        counters["cache_hits"] = max(0.0, looked_up - counters["cache_misses"])
    if "locks" in status:
        counters["lock_waits"] = float(sum(_lock_waits(status["locks"])))
    queue = status.get("globalLock", {}).get("currentQueue", {})
    waits = {ours: int(queue[theirs]) for ours, theirs in WAITING.items() if queue.get(theirs)}
    return ServerView(counters=counters, waits=waits)


def _counter(status: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = status
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def _lock_waits(locks: Mapping[str, Any]) -> Iterator[int]:
    """How often each kind of lock was waited for, by its modes."""
    return (int(count) for lock in locks.values() for count in lock.get("acquireWaitCount", {}).values())


AT_ONCE = 1_000
"""So many periods are looked up by one call at most; the next goes on."""
REMEMBERED_S = 3600.0
"""After this all of them are looked up again: a period may lie before what is known."""
AGAIN = 2
"""So many of the newest ones are looked up by each call."""
TRIED = 20
"""So many documents at the beginning of a period are looked at: some of them may be there by a wrong clock."""
FIELDS = {"_id": 0, "time_ns": 1, "closed_ns": 1}
TIMES = DocumentFormat([number("time_ns", "<i8"), number("closed_ns", "<i8")])


class Extent(NamedTuple):
    """A period, and the times of its first and its last document."""

    stretch: Stretch
    first_ns: int
    last_ns: int


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Number of triggers, rows that each counts as, and its bytes: of readings, and of the rest."""

    triggers: int
    rows: int
    reading_bytes: int
    trigger_bytes: int


class Periods:
    """The periods of one group, as far as they are known."""

    def __init__(self, unit: PartitionUnit) -> None:
        self._unit = unit
        self._known: dict[int, Extent] = {}
        self._reached_ns = LEAST
        self._since_s: float | None = None

    async def partitions(self, group: GroupReader, account: Sequence[Dropped]) -> tuple[Partition, ...]:
        """Return those with readings, and those that were dropped, in order of time."""
        spans = spans_of(each.period for each in account)
        if group.server.uses_indexes:
            known = await self._by_index(group, spans)
        else:
            known = await _by_reading(group, self._unit, spans)
        amounts = amounts_of(group, int((await group.database.command("collStats", group.of.data))["count"]))
        found = [*shared(known, account, amounts), *(_of_dropped(each, amounts) for each in account)]
        return tuple(sorted(found, key=lambda each: each.start_ns))

    async def _by_index(self, group: GroupReader, spans: Sequence[Span]) -> list[Extent]:
        now_s = asyncio.get_running_loop().time()
        if self._since_s is None or now_s - self._since_s > REMEMBERED_S:
            self._known, self._reached_ns, self._since_s = {}, LEAST, now_s
        # A period that was dropped since is known no more.
        self._known = {start: each for start, each in self._known.items() if not _is_gone(each.stretch, spans)}
        at_ns: int | None = min([self._reached_ns, *sorted(self._known)[-AGAIN:][:1]])
        for _ in range(AT_ONCE):
            if at_ns is None:
                break
            self._reached_ns = at_ns
            at_ns = await self._look_up(group, at_ns, spans)
        return [self._known[start] for start in sorted(self._known)]

    async def _look_up(self, group: GroupReader, at_ns: int, spans: Sequence[Span]) -> int | None:
        """Look at the first document from a time on, and note its period; from where to go on, None at the end."""
        found = await _ends(group, {"$gte": Int64(at_ns)}, 1, TRIED)
        if not found:
            return None
        first_ns = int(found[0]["time_ns"])
        for span in spans:
            if span.start_ns <= first_ns < span.end_ns:
                return span.end_ns
        stretch = partition_of(first_ns, self._unit)
        last = await _ends(group, {"$gte": Int64(first_ns), "$lt": Int64(stretch.end_ns)}, -1, 1)
        there = [*(each for each in found if each["time_ns"] < stretch.end_ns), *last]
        times, closed = np.array([[each["time_ns"], each["closed_ns"]] for each in there], np.int64).T
        if _are_near(times, closed).any():
            self._known[stretch.start_ns] = Extent(stretch, first_ns, int(there[-1]["time_ns"]))
        # The last one that there is may end beyond what int64 holds.
        return stretch.end_ns if stretch.end_ns > at_ns else None


def amounts_of(group: GroupReader, triggers: int) -> Amounts:
    """Return the amounts of so many documents."""
    is_arrays = group.of.layout is Layout.ARRAYS
    return Amounts(
        triggers=triggers,
        rows=1 if is_arrays else group.group.size,
        reading_bytes=group.width - group.header_width,
        trigger_bytes=group.header_width,
    )


async def _ends(group: GroupReader, times: Mapping[str, Int64], direction: int, most: int) -> list[dict[str, Any]]:
    """Return the first (direction 1) or the last (-1) documents of some times, `most` at most, in that order."""
    return await group.collection.find({"time_ns": times}, FIELDS, sort=[("time_ns", direction)], limit=most).to_list()


def _are_near(times: Array, closed: Array) -> Array:
    """Tell which triggers' times (int64, shape (n,)) have partitions in SQL, by when they were closed: bool, (n,)."""
    return (times >= closed - PAST_NS) & (times <= closed + FUTURE_NS)


async def _by_reading(group: GroupReader, unit: PartitionUnit, spans: Sequence[Span]) -> list[Extent]:
    """Find the periods with readings by the times of all documents."""
    ends: dict[int, tuple[int, int]] = {}
    async with aclosing(documents.batches(group.collection, {}, TIMES.width, fields=FIELDS)) as found:
        async for batch in found:
            columns = TIMES.columns(TIMES.parse(batch))
            times = columns["time_ns"]
            times = times[_are_near(times, columns["closed_ns"]) & ~are_within(spans, times)]
            numbers = times.astype("datetime64[ns]").astype(f"datetime64[{UNITS[unit]}]").astype(np.int64)
            for each in np.unique(numbers).tolist():
                mine = times[numbers == each]
                low, high = ends.get(each, (int(mine[0]), int(mine[0])))
                ends[each] = min(low, int(mine.min())), max(high, int(mine.max()))
    return [Extent(partition_of(ends[each][0], unit), *ends[each]) for each in sorted(ends)]


def _is_gone(stretch: Stretch, spans: Sequence[Span]) -> bool:
    return any(span.start_ns <= stretch.start_ns and stretch.end_ns <= span.end_ns for span in spans)


def shared(known: Sequence[Extent], account: Sequence[Dropped], amounts: Amounts) -> Iterator[Partition]:
    """Divide all documents among the periods with readings, by how long each is."""
    lasts = [each.last_ns - each.first_ns + 1 for each in known]
    triggers = max(0, amounts.triggers - sum(each.triggers for each in account))
    for each, last in zip(known, lasts, strict=True):
        part = max(1, round(last / sum(lasts) * triggers))
        yield Partition(
            name=each.stretch.label,
            start_ns=each.stretch.start_ns,
            end_ns=each.stretch.end_ns,
            rows=part * amounts.rows,
            size_bytes=part * (amounts.reading_bytes + amounts.trigger_bytes),
            readings_bytes=part * amounts.reading_bytes,
        )


def _of_dropped(account: Dropped, amounts: Amounts) -> Partition:
    period = account.period
    return Partition(
        name=period.name,
        start_ns=period.start_ns,
        end_ns=period.end_ns,
        rows=0,
        size_bytes=account.triggers * amounts.trigger_bytes,
        readings_bytes=None,
    )
