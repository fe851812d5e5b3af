"""The triggers that were closed before a daemon began, by the database's ledger and the journal's blocks."""

from collections.abc import Sequence
from itertools import count

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Runs
from daemon.pipeline.recovery.recovery import history_of
from schemas.batch import ClosedBlock
from schemas.ledger import missing_instruments
from schemas.readings import Array
from tests.support import readings
from tests.support.readings import START_NS, make_block, make_group

GROUP = make_group(3)
MOST = 64
BEFORE = readings.history_of(GROUP, 0)


def closed(*blocks: Sequence[tuple[int, int]]) -> list[ClosedBlock]:
    """What assembly closes of blocks of readings, (trigger, instrument), with a timeout after each."""
    assembly = Assembly(GROUP, timeout_ns=1, window=MOST, max_open=16, runs=Runs(1), history=BEFORE)
    out, ticks = list[ClosedBlock](), count(step=10)
    for block in blocks:
        tick = next(ticks)
        out += assembly.receive(make_block(GROUP, block), None, Instant(START_NS + tick, tick))
        out += assembly.close_due(Instant(START_NS + tick + 5, tick + 5))
    return out


def stored(blocks: Sequence[ClosedBlock]) -> Array:
    """The ledger of a database that has these blocks, ascending."""
    rows = {int(row["trigger"]): row for block in blocks for part in (block.ledger, block.revised) for row in part}
    return np.array([BEFORE[0], *(rows[trigger] for trigger in sorted(rows))], BEFORE.dtype)


def test_of_a_trigger_that_the_database_lost_and_has_again_the_readings_it_has_are_there_and_those_of_the_journal() -> (
    None
):
    (again,) = closed([(1, 0)])
    _, _, late = closed([(1, 0)], [(1, 1)], [(1, 2)])
    assert late.revised["arrived"].tolist() == [3]
    (row,) = history_of(stored([again]), [late], MOST, [])[1:]
    assert (row["arrived"], row["late"], missing_instruments(row, GROUP.size)) == (2, 1, [1])


def test_a_revised_row_is_none_where_its_trigger_is_not_there() -> None:
    _, late = closed([(1, 0)], [(1, 1)])
    assert history_of(BEFORE, [late], MOST, [])["trigger"].tolist() == [0]


def test_what_came_late_for_a_trigger_is_not_of_the_row_that_closes_it_again() -> None:
    first, late = closed([(1, 0)], [(1, 1)])
    (again,) = closed([(1, 2)])
    (row,) = history_of(BEFORE, [first, late, again], MOST, [])[1:]
    assert missing_instruments(row, GROUP.size) == [0, 1]


reading = st.tuples(st.integers(1, 6), st.integers(0, GROUP.size - 1))


@given(st.lists(st.lists(reading, min_size=1, max_size=8), min_size=1, max_size=8), st.data())
def test_where_nothing_is_lost_it_is_the_ledger_as_it_will_be(
    blocks: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    every = closed(*blocks)
    has = data.draw(st.integers(0, len(every)), "blocks that the database has")
    found = history_of(stored(every[:has]), every[has:], MOST, [])
    assert found.tobytes() == stored(every).tobytes()
