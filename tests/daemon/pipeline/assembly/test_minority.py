"""Fewer than half of the instruments change nothing for the others, whatever they send, and whenever."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Origin, Runs
from schemas.batch import ClosedBlock
from schemas.readings import Array, join
from schemas.sessions import session_key
from schemas.states import AsideReason
from tests.support.readings import make_group

MS = 1_000_000
S = 1000 * MS
T0 = 1_795_827_000 * S
TIMEOUT_MS = 500
PERIOD_MS = 40
WINDOW = 256
STEPS_MOST = 60
GROUP = make_group(9)
HOSTILE = (0, 3, 8)
HONEST = tuple(each for each in range(GROUP.size) if each not in HOSTILE)

Reading = tuple[int, int, int, int, int]
"""Index into HOSTILE; epoch and trigger, relative to those of the others if small; offset of the time in ms; value."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One trigger of the honest instruments, and what the hostile ones send before it.

    restarts: whether the timing system starts again first. is_announced: whether that is announced. lacks: bits of the
    honest instruments that are silent.
    is_split: whether each instrument's reading comes by itself. is_due: whether triggers that are due close behind it.
    is_mixed: whether the hostile readings are in the same block. is_early: whether they come before the pause.
    """

    restarts: bool
    is_announced: bool
    lacks: int
    is_split: bool
    is_due: bool
    is_mixed: bool
    is_early: bool
    pause_ms: int
    hostile: Sequence[Reading]


NEAR = st.integers(-3, 3)
ANY_TRIGGER = NEAR | st.integers(-300, 300) | st.integers(-(2**63), 2**63 - 1)
ANY_EPOCH = NEAR | st.integers(0, 2**32 - 1)
ANY_TIME = st.integers(-50, 50) | st.integers(-4_000_000, 4_000_000) | st.integers(-(2**42), 2**42)
HOSTILE_READING = st.tuples(st.sampled_from(range(len(HOSTILE))), ANY_EPOCH, ANY_TRIGGER, ANY_TIME, st.integers(0, 3))
STEP = st.builds(
    Step,
    restarts=st.sampled_from([False] * 9 + [True]),
    is_announced=st.booleans(),
    lacks=st.sampled_from([0] * 6 + [1, 2, 5]),
    is_split=st.booleans(),
    is_due=st.booleans(),
    is_mixed=st.booleans(),
    is_early=st.booleans(),
    pause_ms=st.sampled_from([0] * 8 + [600, 3000]),
    hostile=st.lists(HOSTILE_READING, max_size=4),
)


@dataclass
class Outcome:
    """The honest readings: those in triggers, those set aside, and how many are not acknowledged."""

    triggers: dict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    aside: list[tuple[int, int, int, str]] = field(default_factory=list)
    waiting: int = 0

    def take(self, blocks: list[ClosedBlock]) -> None:
        for block in blocks:
            for row, readings, present in zip(block.ledger, block.readings, block.present, strict=True):
                self._put(int(row["run"]), readings[present])
            for reading, of in zip(block.late, block.late_of, strict=True):
                self._put(int(block.revised["run"][of]), reading[None])
            if block.aside is not None:
                for reading, reason in zip(block.aside.readings, block.aside.reason, strict=True):
                    if reading["instrument"] in HONEST:
                        number, which = int(reading["trigger"]), int(reading["instrument"])
                        self.aside.append((int(reading["epoch"]), number, which, AsideReason(reason).name))

    def _put(self, run: int, readings: Array) -> None:
        for reading in readings:
            if reading["instrument"] in HONEST:
                place = self.triggers.setdefault((run, int(reading["trigger"])), [])
                place.append((int(reading["instrument"]), int(reading["epoch"]), int(reading["time_ns"])))

    def figures(self) -> object:
        """All of it, with runs numbered by the time of their first honest reading."""
        began = {
            run: min(put[2] for key in self.triggers if key[0] == run for put in self.triggers[key])
            for run, _ in self.triggers
        }
        order = {run: k for k, run in enumerate(sorted(began, key=began.__getitem__))}
        triggers = {(order[run], trigger): sorted(put) for (run, trigger), put in self.triggers.items()}
        return triggers, sorted(self.aside), self.waiting


def outcome(steps: Sequence[Step], *, has_epochs: bool, has_session: bool, is_hostile: bool) -> Outcome:
    assembly = Assembly(GROUP, timeout_ns=TIMEOUT_MS * MS, window=WINDOW, max_open=64, runs=Runs())
    found = Outcome()
    keys = [session_key("honest", 5), session_key("hostile", 6)] if has_session else [None, None]
    honest, hostile = (
        assembly.sessions.connect(key, first=0, now=at(0), upto=0 if key else None).column for key in keys
    )
    sent = {honest: 0, hostile: 0}

    def receive(parts: list[tuple[Array, int]], now: Instant) -> None:
        origins = []
        for block, column in parts:
            origins.append(Origin.of(column, sent[column], len(block)))
            sent[column] += len(block)
        together = join([block for block, _ in parts])
        origin = Origin(
            np.concatenate([each.column for each in origins]), np.concatenate([each.sequence for each in origins])
        )
        settle(assembly.receive(together, origin, now))

    def settle(blocks: list[ClosedBlock]) -> None:
        found.take(blocks)
        assembly.receipts.committed(len(blocks))

    ms, epoch, trigger = 1000, 7, 0
    for step in steps:
        ms += PERIOD_MS
        early, late = hostile_blocks(step, epoch, trigger, ms) if is_hostile else ([], [])
        for block in early:
            receive([(block, hostile)], at(ms))
        for _ in range(0, step.pause_ms, TIMEOUT_MS):
            settle(assembly.close_due(at(ms := ms + TIMEOUT_MS)))
        if step.restarts:
            epoch, trigger = epoch + 1, 0
            settle(
                assembly.announce(epoch if step.is_split else 0, at(ms))[1] if step.is_announced and has_epochs else []
            )
        trigger += 1
        good = honest_blocks(step, epoch if has_epochs else 0, trigger, ms)
        parts = [(part, hostile) for part in late] + [(part, honest) for part in good]
        for each in [parts[::-1]] if step.is_mixed else [[part] for part in parts]:
            receive(each, at(ms))
        if step.is_due:
            settle(assembly.close_due(at(ms + 1)))
    settle(assembly.close_due(at(ms + TIMEOUT_MS + 1)))
    settle(assembly.flush(at(ms + 2 * TIMEOUT_MS)))
    found.waiting = sent[honest] - int(assembly.receipts.committed_upto()[honest])
    return found


def at(ms: int) -> Instant:
    return Instant(T0 + ms * MS, S + ms * MS)


def honest_blocks(step: Step, epoch: int, trigger: int, ms: int) -> list[Array]:
    sending = [instrument for k, instrument in enumerate(HONEST) if not step.lacks >> k & 1]
    rows = [(epoch, trigger, instrument, T0 + ms * MS, 1) for instrument in sending]
    return [block_of([row]) for row in rows] if step.is_split else [block_of(rows)]


def hostile_blocks(step: Step, epoch: int, trigger: int, ms: int) -> tuple[list[Array], list[Array]]:
    is_early = step.is_early and step.pause_ms > 0
    blocks = [
        block_of([hostile_row(each, epoch, trigger, ms + step.pause_ms * (not is_early))]) for each in step.hostile
    ]
    return (blocks, []) if is_early else ([], blocks)


def hostile_row(reading: Reading, epoch: int, trigger: int, ms: int) -> tuple[int, int, int, int, int]:
    which, of, number, apart_ms, value = reading
    of = (epoch + of if of < 0 or of <= 3 else of) if of else 0
    number = trigger + number if abs(number) <= 300 else number
    # A whole window ahead it would have the place of one of theirs, which the database places.
    number += STEPS_MOST * (number >= WINDOW and number % WINDOW <= STEPS_MOST)
    time_ns = 0 if not apart_ms else T0 + (ms + apart_ms) * MS
    return of, number, HOSTILE[which], time_ns, value


def block_of(rows: Sequence[tuple[int, int, int, int, int]]) -> Array:
    block = np.zeros(len(rows), GROUP.record)
    for name, values in zip(
        ("epoch", "trigger", "instrument", "time_ns", "gain"), zip(*rows, strict=True), strict=True
    ):
        block[name] = values
    return block


@pytest.mark.parametrize("has_session", [False, True])
@pytest.mark.parametrize("has_epochs", [False, True])
@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=STEPS_MOST))
def test_a_minority_changes_nothing_for_the_others(has_epochs: bool, has_session: bool, steps: list[Step]) -> None:
    alone = outcome(steps, has_epochs=has_epochs, has_session=has_session, is_hostile=False)
    # Without epochs clocks and votes decide, and what is ambiguous without the minority may be so in another way.
    assume(has_epochs or not alone.aside)
    beside = outcome(steps, has_epochs=has_epochs, has_session=has_session, is_hostile=True)
    assert beside.figures() == alone.figures()


@pytest.mark.parametrize("number", [10_000, 2**61])
def test_few_that_run_ahead_while_the_others_pause_put_nobody_behind(number: int) -> None:
    assembly, found = Assembly(GROUP, timeout_ns=TIMEOUT_MS * MS, window=4096, max_open=64, runs=Runs()), Outcome()

    def send(trigger: int, instruments: Sequence[int], ms: int) -> None:
        rows = [(7, trigger, instrument, T0 + ms * MS, 1) for instrument in instruments]
        found.take(assembly.receive(block_of(rows), None, at(ms)))
        found.take(assembly.close_due(at(ms + 1)))

    for trigger in range(1, 400):
        send(trigger, HONEST, trigger * PERIOD_MS)
    for ms in range(16_000, 20_000, 100):
        send(number + ms // 100, HOSTILE, ms)
    for trigger in range(400, 900):
        send(trigger, HONEST, 20_000 + (trigger - 400) * PERIOD_MS)
    found.take(assembly.flush(at(60_000)))
    assert found.aside == []
    assert sorted(found.triggers) == [(1, trigger) for trigger in range(1, 900)]
