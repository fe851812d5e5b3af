"""Receipts under senders that mean no good: memory is bounded, and what they are told stays right."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Origin, Runs
from daemon.pipeline.assembly.receipts import OWED_MOST, Receipts
from tests.support.readings import START_NS, make_block, make_group, whole

GROUP = make_group()
SECOND_NS = 1_000_000_000


def at(ms: float) -> Instant:
    return Instant(START_NS + int(ms * 1e6), int(ms * 1e6))


def an_assembly() -> Assembly:
    return Assembly(GROUP, timeout_ns=SECOND_NS // 2, window=1024, max_open=64, runs=Runs(1))


def refuse_one(receipts: Receipts, column: int, sequence: int) -> None:
    origin = Origin.of(column, sequence, 1)
    receipts.received(origin)
    receipts.refuse(origin)


def test_refusals_that_nobody_is_told_leave_nothing_behind() -> None:
    receipts = Receipts()
    for sequence in range(10):
        refuse_one(receipts, -1, sequence)
    assert not receipts.owes_refusals


def test_a_flood_of_refused_readings_behind_one_that_waits_is_remembered_in_bounded_memory() -> None:
    receipts = Receipts()
    column = receipts.connect()
    receipts.received(Origin.of(column, 0, 1))
    receipts.wait_in_slots(np.array([0]), Origin.of(column, 0, 1))
    flood = 3 * OWED_MOST
    for sequence in range(1, flood + 1):
        refuse_one(receipts, column, sequence)
    assert [int(told[column]) for told in receipts.acknowledged()] == [0, 0]
    assert len(receipts._owed[column]) == OWED_MOST
    receipts.close(np.array([0]))
    receipts.end_step()
    receipts.committed(1)
    assert [int(told[column]) for told in receipts.acknowledged()] == [flood + 1, flood]
    assert not receipts.owes_refusals


def test_refusals_out_of_order_are_told_once_all_before_them_is_dealt_with() -> None:
    receipts = Receipts()
    column = receipts.connect()
    receipts.received(Origin.of(column, 0, 10))
    receipts.refuse(Origin.of(column, 8, 2))
    receipts.refuse(Origin.of(column, 0, 8))
    assert [int(told[column]) for told in receipts.acknowledged()] == [10, 10]


def test_connections_that_come_and_go_while_strays_are_held_use_the_same_columns() -> None:
    assembly = an_assembly()
    keeper = assembly.sessions.connect(None, first=0, now=at(0)).column
    assembly.receive(whole(GROUP, 1), Origin.of(keeper, 0, GROUP.size), at(0))
    far = 1 << 30
    columns = set()
    for number in range(200):
        # The keeper's strays are always there, each time with some of a connection that leaves at once.
        assembly.receive(make_block(GROUP, [(far, 0)]), Origin.of(keeper, GROUP.size + number, 1), at(number))
        column = assembly.sessions.connect(None, first=0, now=at(number)).column
        columns.add(column)
        if number % 10 == 0:
            assembly.receive(make_block(GROUP, [(far, 1)]), Origin.of(column, 0, 1), at(number))
        assembly.sessions.disconnect(column)
    assert len(columns) <= 22  # one for each that left strays behind, and one for the others
    assembly.close_due(at(750))
    assert len(assembly.receipts._free) == len(assembly.receipts._received) - 1
    assembly.receipts.committed(2)
    assert [int(told[keeper]) for told in assembly.receipts.acknowledged()] == [GROUP.size + 200, 0]


def closed_with(receipts: Receipts, sequences: dict[int, tuple[int, int]]) -> None:
    """Close a block with the readings [start, stop) of each column."""
    for column, (start, stop) in sequences.items():
        origin = Origin.of(column, start, stop - start)
        receipts.received(origin)
        receipts.wait_in_next_block(origin)
    receipts.close(np.empty(0, np.intp))
    receipts.end_step()


class Both:
    """The same happening to receipts that remember much together and to some that never do."""

    def __init__(self) -> None:
        self.each = (Receipts(fine=4), Receipts(fine=10**9))
        self.columns = [(receipts.connect(), receipts.connect()) for receipts in self.each][-1]
        self.sent = dict.fromkeys(self.columns, 0)
        self.blocks = 0

    def close(self, counts: dict[int, int]) -> None:
        stretch = {column: (self.sent[column], self.sent[column] + count) for column, count in counts.items() if count}
        self.sent |= {column: stop for column, (_, stop) in stretch.items()}
        for receipts in self.each:
            closed_with(receipts, stretch)
        self.blocks += 1

    def commit(self, count: int) -> None:
        self.blocks -= count
        for receipts in self.each:
            receipts.committed(count)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_remembered_together_is_never_told_too_early_and_all_is_told_in_the_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    both = Both()
    for _ in range(400):
        if rng.random() < 0.9:
            both.close({column: int(rng.integers(0, 3)) for column in both.columns})
        else:
            both.commit(int(rng.integers(0, min(both.blocks, 20) + 1)))
        told, true = (receipts.acknowledged()[0].copy() for receipts in both.each)
        assert (told <= true).all()
    both.commit(both.blocks)
    for receipts in both.each:
        assert [int(receipts.acknowledged()[0][column]) for column in both.columns] == list(both.sent.values())


def test_a_day_without_the_database_is_remembered_in_little_memory() -> None:
    receipts = Receipts()
    column = receipts.connect()
    for number in range(100_000):
        closed_with(receipts, {column: (number, number + 1)})
    assert len(receipts._blocks) < 4_000
    receipts.committed(300)
    assert receipts.acknowledged()[0][column] == 300
    receipts.committed(99_700)
    assert receipts.acknowledged()[0][column] == 100_000
    assert len(receipts._blocks) == 0
