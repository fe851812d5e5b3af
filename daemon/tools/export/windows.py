"""Reads a span of time in windows whose length follows the density of the readings, so that memory stays bounded."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from backends.base import AnswerTooLarge, Store
from daemon.tools.export.span import Span
from schemas.queries import WindowReadings, answer_dtype
from schemas.readings import Array, InstrumentGroup

AIM_BYTES = 32 * 2**20
"""Bytes of readings that a window should have; the buffers of the store and of the writer take as much again."""

FIRST_NS = 10_000_000_000
LEAST_NS = 1_000_000_000
"""A window as short as this is read however dense it is."""

LONGEST_NS = 366 * 86_400 * 1_000_000_000
GROWTH = 8


@dataclass(frozen=True, kw_only=True)
class Window:
    """Readings with start_ns <= time_ns < end_ns, `answer_dtype(group)`, by run, trigger and instrument.

    In the arrays layout the readings of the triggers with such a time, which need not have one themselves.
    """

    start_ns: int
    end_ns: int
    readings: Array


async def windows(
    store: Store, group: InstrumentGroup, span: Span, *, aim_bytes: int = AIM_BYTES
) -> AsyncGenerator[Window, None]:
    """Query a span window by window, in order of time."""
    itemsize = answer_dtype(group).itemsize
    aim, most = max(1, aim_bytes // itemsize), max(group.size, 2 * aim_bytes // itemsize)
    at_ns, length_ns = span.start_ns, FIRST_NS
    while at_ns < span.end_ns:
        end_ns = min(at_ns + length_ns, span.end_ns)
        limit = most if length_ns > LEAST_NS else None
        try:
            readings = await store.ask(
                WindowReadings(group=group, start_ns=at_ns, end_ns=end_ns, most=limit, by_trigger=True)
            )
        except AnswerTooLarge:
            length_ns = max(LEAST_NS, length_ns // 4)
            continue
        yield Window(start_ns=at_ns, end_ns=end_ns, readings=readings)
        length_ns = next_length_ns(end_ns - at_ns, len(readings), aim)
        at_ns = end_ns


def next_length_ns(length_ns: int, found: int, aim: int) -> int:
    """The length of the next window, after one of `length_ns` that had `found` readings."""
    factor = GROWTH if found * GROWTH <= aim else max(aim / found, 1 / GROWTH)
    return min(max(LEAST_NS, int(length_ns * factor)), LONGEST_NS)
