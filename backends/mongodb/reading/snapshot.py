"""Every instrument's value valid at a moment."""

from collections.abc import Iterable, Iterator
from contextlib import aclosing

from backends.columns.reductions import Newest
from backends.columns.stored import SLACK_NS
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from schemas.batch import Layout
from schemas.queries import Snapshot, WindowReadings
from schemas.readings import Array

LEAST_NS, MOST_NS = -(2**63), 2**63 - 1
TOGETHER = 100
"""So many instruments' times are looked up with one question."""


async def snapshot(group: GroupReader, query: Snapshot) -> Array:
    """Answer Snapshot; `answer_dtype(group)`, by instrument."""
    newest = _Newest(query)
    if query.within_ns < 1:
        return newest.found
    if not group.server.uses_indexes:
        # Whatever is asked, all there is is gone through: once is enough.
        await newest.add_all(group, documents.readings_in_window(newest.window, group.of.layout, group.server))
    elif group.of.layout is Layout.ROWS:
        await _by_instrument(group, newest)
    else:
        await _by_trigger(group, newest)
    return newest.found


class _Newest(Newest):
    def __init__(self, query: Snapshot) -> None:
        super().__init__(query)
        low_ns = max(query.at_ns - query.within_ns, LEAST_NS - 1)
        self.window = WindowReadings(group=query.group, start_ns=low_ns + 1, end_ns=min(query.at_ns + 1, MOST_NS))
        self.at_ns = query.at_ns

    async def add_all(self, group: GroupReader, wanted: documents.Filter) -> None:
        async with aclosing(group.chunks(wanted)) as chunks:
            async for readings in chunks:
                self.add(readings)

    def unsettled(self, reached_ns: int) -> list[int]:
        """Instruments of which a trigger before this time may still have a newer reading."""
        return self.missing(reached_ns + SLACK_NS)


async def _by_instrument(group: GroupReader, newest: _Newest) -> None:
    """By the index, which is by instrument and time: an end of it for each."""
    times: dict[int, int] = {}
    for instrument in range(newest.window.group.size):
        filter_ = documents.valid_of_instrument(instrument, newest.window.start_ns, newest.at_ns)
        last = await group.readings(filter_, documents.LATEST_FIRST, 1)
        if len(last):
            times[instrument] = int(last["time_ns"][0])
    # Of one time there may be several: of two runs, or where a clock stands still.
    for some in _chunks(times.items(), TOGETHER):
        await newest.add_all(group, {"$or": [documents.at_time(instrument, time_ns) for instrument, time_ns in some]})


async def _by_trigger(group: GroupReader, newest: _Newest) -> None:
    """By the index, which is by the triggers' time: back in time until no earlier trigger can have a newer reading."""
    start_ns, end_ns = newest.window.start_ns, newest.window.end_ns
    around = documents.triggers_around(start_ns, end_ns)
    reached_ns = await _back(group, newest, around, newest.at_ns - 2 * SLACK_NS)
    unsettled = newest.unsettled(reached_ns)
    if unsettled and reached_ns > LEAST_NS:
        # What is still to be found may be dead for long: from here on only triggers that have it are read.
        earlier = documents.triggers_with(unsettled, start_ns, reached_ns)
        await _back(group, newest, earlier, LEAST_NS)


async def _back(group: GroupReader, newest: _Newest, wanted: documents.Filter, enough_ns: int) -> int:
    """Take readings until all are settled or from before `enough_ns`; up to which time, the least where that is all."""
    async with aclosing(group.triggers(wanted, documents.LATEST_FIRST)) as chunks:
        async for earliest_ns, readings in chunks:
            newest.add(readings)
            if earliest_ns < enough_ns or not newest.unsettled(earliest_ns):
                return earliest_ns
    return LEAST_NS


def _chunks(times: Iterable[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    every = list(times)
    return (every[start : start + size] for start in range(0, len(every), size))
