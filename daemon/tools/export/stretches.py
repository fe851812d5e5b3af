"""Goes through a span of time in stretches whose length follows what is found, so that memory stays bounded."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from backends.base import AnswerTooLarge, Store
from daemon.tools.export.span import Span
from schemas.queries import WindowReadings, answer_dtype
from schemas.readings import Array, InstrumentGroup

AIM_BYTES = 32 * 2**20
"""Readings that a stretch should bring; the store's own buffers and the writer's take as much again."""

FIRST_NS = 10_000_000_000
LEAST_NS = 1_000_000_000
"""A stretch as short as this is taken whatever is in it: in the arrays layout, triggers of 5 s before and after are
looked at, too, and a shorter one would hardly bring less."""
LONGEST_NS = 366 * 86_400 * 1_000_000_000
GROWTH = 8


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Readings with start_ns <= time_ns < end_ns, `answer_dtype(group)`, by run, trigger and instrument."""

    start_ns: int
    end_ns: int
    readings: Array


async def stretches(
    store: Store, group: InstrumentGroup, span: Span, *, aim_bytes: int = AIM_BYTES
) -> AsyncGenerator[Stretch, None]:
    """Ask for a span stretch by stretch, in order of time."""
    itemsize = answer_dtype(group).itemsize
    aim, most = max(1, aim_bytes // itemsize), max(group.size, 2 * aim_bytes // itemsize)
    at_ns, length_ns = span.start_ns, FIRST_NS
    while at_ns < span.end_ns:
        end_ns = min(at_ns + length_ns, span.end_ns)
        limit = most if length_ns > LEAST_NS else None
        try:
            readings = await store.ask(WindowReadings(group=group, start_ns=at_ns, end_ns=end_ns, most=limit))
        except AnswerTooLarge:
            length_ns = max(LEAST_NS, length_ns // 4)
            continue
        yield Stretch(start_ns=at_ns, end_ns=end_ns, readings=readings)
        length_ns = next_length_ns(end_ns - at_ns, len(readings), aim)
        at_ns = end_ns


def next_length_ns(length_ns: int, found: int, aim: int) -> int:
    """How long the next stretch is, after one of a length that brought so many readings."""
    factor = GROWTH if found * GROWTH <= aim else max(aim / found, 1 / GROWTH)
    return min(max(LEAST_NS, int(length_ns * factor)), LONGEST_NS)
