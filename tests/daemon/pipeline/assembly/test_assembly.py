"""Assembly of triggers, against examples and against a model that goes reading by reading."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Origin, Runs
from schemas.batch import ClosedBlock
from schemas.ledger import missing_instruments
from schemas.readings import Array, InstrumentGroup, join
from tests.support.readings import START_NS, history_of, make_block, make_group, time_of, whole

TIMEOUT = 1000


def make(group: InstrumentGroup, *, history: Array | None = None, **changes: int) -> Assembly:
    options = {"timeout_ns": TIMEOUT, "window": 64, "max_open": 16} | changes
    known = history_of(group, 0) if history is None else history
    return Assembly(group, runs=Runs(1), history=known, **options)


def at(tick: int) -> Instant:
    return Instant(START_NS + tick, tick)


GROUP = make_group()


def test_complete_trigger_closes_at_once() -> None:
    assembly = make(GROUP)
    (closed_block,) = assembly.receive(whole(GROUP, 1), None, at(5))
    (row,) = closed_block.ledger
    assert (row["run"], row["trigger"], row["arrived"], row["expected"]) == (1, 1, 5, 5)
    assert row["time_ns"] == row["first_ns"] == row["last_ns"] == time_of(1)
    assert row["first_received_ns"] == row["last_received_ns"] == row["closed_ns"] == START_NS + 5
    assert not row["missing"].any()
    assert closed_block.present.all()
    assert closed_block.readings["top_in"][0].tolist() == [1 + i / 1000 for i in range(5)]
    assert (assembly.counts.complete, assembly.counts.incomplete, assembly.open) == (1, 0, 0)


def test_duplicate_never_completes_a_trigger() -> None:
    assembly = make(GROUP)
    four = [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert assembly.receive(make_block(GROUP, [*four, (1, 0), (1, 3), (1, 3)]), None, at(0)) == []
    assert assembly.counts.duplicate == 3
    (closed_block,) = assembly.receive(make_block(GROUP, [(1, 4)]), None, at(1))
    assert closed_block.ledger["duplicates"].tolist() == [3]


def test_first_of_doubles_within_a_block_is_kept() -> None:
    assembly = make(GROUP)
    block = make_block(GROUP, [(1, 0), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4)])
    block["top_in"][1] = 77.0
    (closed_block,) = assembly.receive(block, None, at(0))
    assert closed_block.readings["top_in"][0, 0] == 1.0


def test_incomplete_trigger_closes_by_timeout() -> None:
    assembly = make(GROUP)
    assembly.receive(make_block(GROUP, [(1, 0), (1, 2)]), None, at(10))
    assert assembly.deadline_ns == 10 + TIMEOUT
    assert assembly.close_due(at(9 + TIMEOUT)) == []
    (closed_block,) = assembly.close_due(at(10 + TIMEOUT))
    (row,) = closed_block.ledger
    assert row["arrived"] == 2
    assert missing_instruments(row, GROUP.size) == [1, 3, 4]
    assert closed_block.present.tolist() == [[True, False, True, False, False]]
    assert (assembly.counts.incomplete, assembly.counts.missing, assembly.deadline_ns) == (1, 3, None)


def test_late_reading_is_merged_into_its_ledger_row() -> None:
    assembly = make(GROUP)
    assembly.receive(make_block(GROUP, [(1, 0), (1, 2)]), None, at(0))
    assembly.close_due(at(TIMEOUT))
    (closed_block,) = assembly.receive(make_block(GROUP, [(1, 4), (1, 0), (1, 4)]), None, at(TIMEOUT + 1))
    assert closed_block.triggers == 0
    assert closed_block.late["instrument"].tolist() == [4]
    (row,) = closed_block.revised[closed_block.late_of]
    assert (row["arrived"], row["late"], row["duplicates"]) == (3, 1, 2)
    assert row["last_received_ns"] == START_NS + TIMEOUT + 1 > row["closed_ns"]
    assert missing_instruments(row, GROUP.size) == [1, 3]
    assert (assembly.counts.late, assembly.counts.duplicate) == (1, 2)


def test_many_triggers_are_open_at_once_and_close_in_order() -> None:
    assembly = make(GROUP, window=1024)
    block = whole(GROUP, *range(1, 13))
    shuffled = block[np.random.default_rng(1).permutation(len(block))]
    assert assembly.receive(shuffled[:12], None, at(0)) == []
    (closed_block,) = assembly.receive(shuffled[12:], None, at(1))
    assert closed_block.ledger["trigger"].tolist() == list(range(1, 13))


def test_one_wrong_clock_does_not_decide_when_the_trigger_was() -> None:
    assembly = make(GROUP)
    block = whole(GROUP, 1)
    block["time_ns"][2] = 5
    (closed_block,) = assembly.receive(block, None, at(0))
    assert closed_block.ledger["time_ns"] == time_of(1)
    assert (closed_block.ledger["first_ns"], closed_block.ledger["last_ns"]) == (5, time_of(1))


def test_timestamp_of_zero_is_the_time_of_receipt() -> None:
    assembly = make(GROUP)
    block = whole(GROUP, 1)
    block["time_ns"] = 0
    (closed_block,) = assembly.receive(block, None, at(7))
    assert (closed_block.readings["time_ns"] == START_NS + 7).all()


def test_unknown_instruments_and_far_triggers_are_refused_and_cost_nobody_else_anything() -> None:
    assembly = make(GROUP)
    bad = make_block(
        GROUP, [(1, 5), (1, 4_000_000), (40_000, 0), (-3, 1), (2**62, 2), (2**63 - 1, 3)], when=lambda _: START_NS
    )
    closed_blocks = assembly.receive(join([bad, whole(GROUP, 1)]), None, at(0))
    assert [row["trigger"] for closed_block in closed_blocks for row in closed_block.ledger] == [1]
    refused = {"unknown_instrument": 2, "impossible_trigger": 3}
    assert assembly.counts.refused == refused
    assembly.receive(whole(GROUP, 2), None, at(TIMEOUT))  # the others go on, so the strays have no majority
    assembly.close_due(at(TIMEOUT))
    assert assembly.counts.refused == refused
    assert assembly.counts.aside == {"ahead": 1}
    assert assembly.held == 0


def test_more_open_triggers_than_allowed_closes_the_oldest_and_loses_nothing() -> None:
    assembly = make(GROUP, max_open=16)
    out = []
    for trigger in range(1, 31):
        out += assembly.receive(make_block(GROUP, [(trigger, 0)]), None, at(0))
    assert [row["trigger"] for closed_block in out for row in closed_block.ledger] == list(range(1, 15))
    (late,) = assembly.receive(make_block(GROUP, [(3, 1)]), None, at(1))
    assert late.late["trigger"].tolist() == [3]


def test_more_new_triggers_in_one_block_than_may_be_open() -> None:
    assembly = make(GROUP, max_open=16, window=1024)
    out = assembly.receive(make_block(GROUP, [(t, 0) for t in range(1, 200)]), None, at(0))
    out += assembly.flush(at(1))
    assert sorted(row["trigger"] for closed_block in out for row in closed_block.ledger) == list(range(1, 200))
    assert all(closed_block.ledger["arrived"].tolist() == [1] * closed_block.triggers for closed_block in out)


def test_timeouts_may_start_anew() -> None:
    assembly = make(GROUP)
    assembly.receive(make_block(GROUP, [(1, 0), (90_000, 1)]), None, at(0))
    assembly.restart_timeouts(at(TIMEOUT - 1))
    assert assembly.close_due(at(2 * TIMEOUT - 2)) == []
    assert (assembly.open, assembly.held) == (1, 2)
    assert assembly.deadline_ns == 2 * TIMEOUT - 1


def test_flush_closes_everything() -> None:
    assembly = make(GROUP)
    assembly.receive(make_block(GROUP, [(1, 0), (2, 1)]), None, at(0))
    (closed_block,) = assembly.flush(at(1))
    assert closed_block.ledger["trigger"].tolist() == [1, 2]
    assert (assembly.open, assembly.held) == (0, 0)


def test_wanted_tells_what_can_complete_a_trigger() -> None:
    assembly = make(GROUP)
    assert assembly.wanted == 5
    assembly.receive(make_block(GROUP, [(1, 0), (1, 1), (2, 0)]), None, at(0))
    assert assembly.wanted == 3


def test_restarted_daemon_recognises_what_the_store_has() -> None:
    history = history_of(GROUP, 8, 9, 10)
    history["arrived"][-1] = 4
    history["missing"][-1] = 0b01000
    assembly = make(GROUP, history=history)
    closed_block, counted = assembly.receive(whole(GROUP, 9, 10), None, at(0))
    assert closed_block.late["instrument"].tolist() == [3]
    assert (counted.revised["trigger"].tolist(), counted.revised["duplicates"].tolist()) == ([9], [5])
    assert assembly.counts.duplicate == 9
    (closed_block,) = assembly.receive(whole(GROUP, 11), None, at(0))
    assert closed_block.ledger["trigger"].tolist() == [11]


def test_doubles_of_closed_triggers_are_counted_in_the_ledger_a_few_rows_a_second() -> None:
    assembly = make(GROUP, window=16_384, max_open=1024)
    for first in range(1, 6001, 500):
        assembly.receive(whole(GROUP, *range(first, first + 500)), None, at(0))
    second = 1_000_000_000
    told: dict[int, int] = {}
    closed_blocks = 0
    for step in range(40):  # round and round, a tenth of a second each time
        new = assembly.receive(whole(GROUP, *range(1, 6001)), None, at(1 + step * second // 10))
        closed_blocks += len(new)
        told |= {int(row["trigger"]): int(row["duplicates"]) for closed_block in new for row in closed_block.revised}
    assert closed_blocks == 4
    assert set(told) == set(range(1, 6001))
    assert assembly.deadline_ns == 1 + 4 * second
    for closed_block in assembly.flush(at(5 * second)):
        told |= {int(row["trigger"]): int(row["duplicates"]) for row in closed_block.revised}
    assert told == dict.fromkeys(range(1, 6001), 40 * GROUP.size)
    assert assembly.deadline_ns is None


def test_a_count_of_doubles_is_not_forgotten_when_its_place_is_taken() -> None:
    assembly = make(GROUP)
    assembly.receive(whole(GROUP, 1), None, at(0))
    assert len(assembly.receive(make_block(GROUP, [(1, 0)]), None, at(1))) == 1
    assert assembly.receive(make_block(GROUP, [(1, 1)]), None, at(2)) == []
    told = [
        int(row["duplicates"])
        for trigger in range(2, 66)
        for closed_block in assembly.receive(whole(GROUP, trigger), None, at(3))
        for row in closed_block.revised
    ]
    assert told == [2]


def test_a_run_that_ends_gives_out_its_counts_of_doubles() -> None:
    assembly = make(GROUP)
    assembly.receive(whole(GROUP, 1, 2), None, at(0))
    assembly.receive(make_block(GROUP, [(1, 0)]), None, at(1))
    assembly.receive(make_block(GROUP, [(1, 1)]), None, at(2))
    (closed_block, _) = assembly.receive(whole(GROUP, 1, when=lambda _: time_of(3)), None, at(3))
    assert assembly.run == 2
    assert (closed_block.revised["run"].tolist(), closed_block.revised["duplicates"].tolist()) == ([1], [2])


# --- the model ----------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """The same rules, one reading at a time."""

    size: int
    opened: dict[int, int] = field(default_factory=dict)
    present: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    duplicates: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    late: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    closed: set[int] = field(default_factory=set)

    def receive(self, trigger: int, instrument: int, tick: int) -> None:
        if instrument in self.present[trigger]:
            self.duplicates[trigger] += 1
            return
        self.present[trigger].add(instrument)
        if trigger in self.closed:
            self.late[trigger] += 1
            return
        self.opened.setdefault(trigger, tick)

    def close_complete(self) -> None:
        for trigger in [t for t in self.opened if len(self.present[t]) == self.size]:
            self._close(trigger)

    def close_due(self, tick: int) -> None:
        for trigger in [t for t, since in self.opened.items() if since + TIMEOUT <= tick]:
            self._close(trigger)

    def _close(self, trigger: int) -> None:
        del self.opened[trigger]
        self.closed.add(trigger)


STEP = st.one_of(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=12),
    st.integers(1, 2 * TIMEOUT),
    st.just("commit"),
    st.just("keep"),
)


class Connections:
    """Three connections send, and a part is settled. The log is enough for the third."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.columns = [assembly.receipts.connect() for _ in range(3)]
        assembly.receipts.keeps(self.columns[2], 0)
        self.kept = 0
        self.sent: list[list[tuple[int | None, int]]] = [[], [], []]
        self.closed_blocks: list[set[int]] = []
        self.last_of_step: list[int] = []  # for each of them the last block of its step, which says what is settled
        self.committed = 0
        self.waits_for: dict[tuple[int, int], int] = {}  # (connection, sequence) -> number of its closed block

    def origin(self, readings: list[tuple[int, int, int]], model: Model) -> Origin:
        column, sequence = [], []
        for trigger, instrument, connection in readings:
            column.append(self.columns[connection])
            sequence.append(len(self.sent[connection]))
            # What is a double of a closed trigger is settled with whatever closes next: the trigger closed before that.
            is_there = trigger in model.closed and instrument in model.present[trigger]
            self.sent[connection].append((None if is_there else trigger, len(self.closed_blocks)))
        return Origin(np.array(column, np.int32), np.array(sequence, np.int64))

    def note(self, closed_blocks: list[ClosedBlock]) -> None:
        self.last_of_step += [len(self.closed_blocks) + len(closed_blocks) - 1] * len(closed_blocks)
        self.closed_blocks += [{int(t) for t in (*p.ledger["trigger"], *p.revised["trigger"])} for p in closed_blocks]

    def expected(self, connection: int) -> int:
        """Its readings are settled one after the other as the closed blocks that hold their triggers are."""
        kept = self.kept if connection == 2 else 0
        return max(kept, self._committed(connection))

    def _committed(self, connection: int) -> int:
        for sequence, (trigger, first) in enumerate(self.sent[connection]):
            holds = [
                k for k in range(first, len(self.closed_blocks)) if trigger is None or trigger in self.closed_blocks[k]
            ]
            if not holds or self.last_of_step[holds[0]] >= self.committed:
                return sequence
        return len(self.sent[connection])

    def check(self) -> None:
        done, _ = self.assembly.receipts.acknowledged()
        for connection, column in enumerate(self.columns):
            assert done[column] == self.expected(connection)

    def commit(self) -> None:
        if self.committed < len(self.closed_blocks):
            self.assembly.receipts.committed(1)
            self.committed += 1

    def keep(self) -> None:
        """Let the log have all but the last reading of the third connection."""
        self.kept = max(self.kept, len(self.sent[2]) - 1)
        self.assembly.receipts.kept(self.columns[2], self.kept)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_assembly_and_receipts_agree_with_the_model(steps: list[object]) -> None:
    assembly, model = make(GROUP), Model(GROUP.size)
    connections = Connections(assembly)
    closed_blocks: list[ClosedBlock] = []
    tick = 0
    for step in steps:
        new: list[ClosedBlock] = []
        if isinstance(step, int):
            tick += step
            new = assembly.close_due(at(tick))
            model.close_due(tick)
        elif step == "commit":
            connections.commit()
        elif step == "keep":
            connections.keep()
        else:
            assert isinstance(step, list)
            origin = connections.origin(step, model)
            new = assembly.receive(make_block(GROUP, [(t, i) for t, i, _ in step]), origin, at(tick))
            for trigger, instrument, _ in step:
                model.receive(trigger, instrument, tick)
            model.close_complete()
        connections.note(new)
        closed_blocks += new
        connections.check()
        assert assembly.open == len(model.opened)
    closed_blocks += assembly.flush(at(tick))
    _check_against(model, closed_blocks)
    counts = assembly.counts
    assert counts.received == counts.accepted + counts.duplicate
    assert counts.late == sum(model.late.values())


def _check_against(model: Model, closed_blocks: list[ClosedBlock]) -> None:
    stored: dict[tuple[int, int], float] = {}
    ledger: dict[int, np.void] = {}
    for closed_block in closed_blocks:
        taken = [*closed_block.readings[closed_block.present], *closed_block.late]
        for reading in taken:
            key = (int(reading["trigger"]), int(reading["instrument"]))
            assert key not in stored, "a reading came out twice"
            stored[key] = float(reading["top_in"])
        ledger |= {int(row["trigger"]): row for row in (*closed_block.ledger, *closed_block.revised)}
        assert (closed_block.revised["trigger"][closed_block.late_of] == closed_block.late["trigger"]).all()
    expected = {(t, i) for t, present in model.present.items() for i in present}
    assert set(stored) == expected
    assert all(value == pytest.approx(t + i / 1000) for (t, i), value in stored.items())
    assert {t for t, present in model.present.items() if present} == set(ledger)
    for trigger, row in ledger.items():
        absent = sorted(set(range(model.size)) - model.present[trigger])
        assert missing_instruments(row, model.size) == absent
        assert row["arrived"] == len(model.present[trigger])
        assert row["late"] == model.late[trigger]
        assert row["duplicates"] == model.duplicates[trigger]
