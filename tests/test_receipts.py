"""Receipts under senders that mean no good: memory is bounded, and what they are told stays right."""

import numpy as np

from daemon.assembly import Assembly, Origin
from daemon.assembly.origin import Instant
from daemon.assembly.receipts import OWED_MOST, Receipts
from tests.readings import START_NS, make_block, make_group, whole

GROUP = make_group()
SECOND_NS = 1_000_000_000


def at(ms: float) -> Instant:
    return Instant(START_NS + int(ms * 1e6), int(ms * 1e6))


def an_assembly() -> Assembly:
    return Assembly(GROUP, timeout_ns=SECOND_NS // 2, window=1024, max_open=64, run=1, next_run=lambda run: run + 1)


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
    keeper = assembly.receipts.connect()
    assembly.receive(whole(GROUP, 1), Origin.of(keeper, 0, GROUP.size), at(0))
    far = 1 << 30
    columns = set()
    for number in range(200):
        # The keeper's strays are always there, each time with some of a connection that leaves at once.
        assembly.receive(make_block(GROUP, [(far, 0)]), Origin.of(keeper, GROUP.size + number, 1), at(number))
        column = assembly.receipts.connect()
        columns.add(column)
        if number % 10 == 0:
            assembly.receive(make_block(GROUP, [(far, 1)]), Origin.of(column, 0, 1), at(number))
        assembly.receipts.disconnect(column)
    assert len(columns) <= 22  # one for each that left strays behind, and one for the others
    assembly.close_due(at(750))
    assert len(assembly.receipts._free) == len(assembly.receipts._received) - 1
    assembly.receipts.committed(1)
    assert [int(told[keeper]) for told in assembly.receipts.acknowledged()] == [GROUP.size + 200, 200]
