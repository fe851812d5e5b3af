"""Announced restarts: what a person or the timing system says outranks clocks and votes."""

from itertools import product

import numpy as np
import pytest

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Origin, Runs
from schemas.batch import ClosedBlock
from schemas.readings import Array
from schemas.sessions import session_key
from tests.support.readings import PERIOD_NS, START_NS, make_block, make_group, whole

GROUP = make_group()
HOUR_NS = 3_600_000_000_000
MS = 1_000_000
TRIGGERS = 20

# The time that readings carry, less that of the node, in ns. With the very times of those before they would be these.
CLOCKS = {
    "right": 0,
    "ahead": HOUR_NS,
    "behind": -HOUR_NS,
    "a_little_behind": -195 * MS,
    "zero": None,
}


class Logger:
    """An assembly and one sender, which sends a trigger each PERIOD_NS by the node's clock."""

    def __init__(self, *, has_session: bool) -> None:
        self.assembly = Assembly(GROUP, timeout_ns=500 * MS, window=256, max_open=64, runs=Runs())
        key = session_key("sender", 1) if has_session else None
        self._column = self.assembly.sessions.connect(key, first=0, now=self.now, upto=0 if key else None).column
        self._sent = 0
        self.blocks: list[ClosedBlock] = []

    _tick = 0

    @property
    def now(self) -> Instant:
        return Instant(START_NS + self._tick, self._tick)

    def send(self, first: int, *, epoch: int, clock_ns: int | None, is_split: bool) -> None:
        for trigger in range(first, first + TRIGGERS):
            self._tick += PERIOD_NS
            time_ns = 0 if clock_ns is None else self.now.utc_ns + clock_ns
            block = whole(GROUP, trigger, when=lambda _, time_ns=time_ns: time_ns)
            block["epoch"] = epoch
            for part in np.split(block, GROUP.size) if is_split else [block]:
                self._receive(part)

    def _receive(self, block: Array) -> None:
        origin = Origin.of(self._column, self._sent, len(block))
        self._sent += len(block)
        self.blocks += self.assembly.receive(block, origin, self.now)

    def announce(self, epoch: int) -> int | None:
        run, blocks = self.assembly.announce(epoch, self.now)
        self.blocks += blocks
        return run

    def stored(self) -> dict[int, list[int]]:
        """Complete triggers, by run."""
        self._tick += HOUR_NS
        self.blocks += self.assembly.close_due(self.now)
        found: dict[int, list[int]] = {}
        for block in self.blocks:
            for row in block.ledger[block.ledger["arrived"] == GROUP.size]:
                found.setdefault(int(row["run"]), []).append(int(row["trigger"]))
        return found


@pytest.mark.parametrize("has_session", [False, True])
@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("first", [1, 5, 1 + TRIGGERS, 100, 1000])
def test_the_next_reading_after_an_announcement_begins_the_run(first: int, is_split: bool, has_session: bool) -> None:
    """Whatever its number and its time; of senders with and without epochs, and whether or not the epoch is known."""
    ways = [(41, 41), (41, 0), (0, 0), (0, 41)]  # the epoch that is announced, and the one that is sent
    for (announced, sent), before, after in product(ways, CLOCKS, CLOCKS):
        logger = Logger(has_session=has_session)
        logger.send(1, epoch=40 if sent else 0, clock_ns=CLOCKS[before], is_split=is_split)
        assert logger.announce(announced) == (2 if announced else None)
        logger.send(first, epoch=sent, clock_ns=CLOCKS[after], is_split=is_split)
        expected = {1: [*range(1, 1 + TRIGGERS)], 2: [*range(first, first + TRIGGERS)]}
        assert (announced, sent, before, after, logger.stored()) == (announced, sent, before, after, expected)
        assert logger.assembly.counts.aside == {}
        assert logger.assembly.counts.duplicate == 0
        assert logger.assembly.run == 2


@pytest.mark.parametrize("has_session", [False, True])
def test_restarts_that_follow_one_another_are_followed_each(has_session: bool) -> None:
    """Two runs whose times are ahead of the node's clock, then two that are paced."""
    logger = Logger(has_session=has_session)
    for clock in (10 * HOUR_NS, 5 * HOUR_NS, 0, 0):
        logger.announce(0)
        logger.send(1, epoch=0, clock_ns=clock, is_split=False)
    assert logger.stored() == {run: [*range(1, 1 + TRIGGERS)] for run in (1, 2, 3, 4)}
    assert logger.assembly.counts.aside == {}


def test_announcements_that_no_reading_follows_are_one() -> None:
    logger = Logger(has_session=False)
    for _ in range(3):
        logger.announce(0)
    logger.send(1, epoch=0, clock_ns=0, is_split=False)
    for _ in range(3):
        logger.announce(0)
    logger.send(1, epoch=0, clock_ns=0, is_split=False)
    assert list(logger.stored()) == [1, 2]


def test_a_trigger_that_is_open_at_an_announcement_takes_what_it_lacks() -> None:
    logger = Logger(has_session=False)
    logger.send(1, epoch=0, clock_ns=0, is_split=False)
    assembly, now = logger.assembly, logger.now
    when = {TRIGGERS + 1: now.utc_ns, TRIGGERS + 2: now.utc_ns, 1: now.utc_ns}
    assembly.receive(make_block(GROUP, [(TRIGGERS + 1, 0)], when.__getitem__), None, now)
    logger.announce(0)
    late = make_block(GROUP, [(TRIGGERS + 1, i) for i in range(5)], when.__getitem__)
    (block,) = assembly.receive(late, None, now)
    assert (block.ledger["run"].tolist(), block.ledger["arrived"].tolist()) == ([1], [5])
    assembly.receive(make_block(GROUP, [(1, 3)], when.__getitem__), None, now)
    assert assembly.run == 2


def test_an_old_trigger_that_closes_after_an_announcement_takes_no_run_back() -> None:
    """It lacks a reading, and closes when its time is over, between those of the new run."""
    logger = Logger(has_session=False)
    logger.send(1, epoch=0, clock_ns=0, is_split=False)
    assembly = logger.assembly
    logger.blocks += assembly.receive(
        make_block(GROUP, [(TRIGGERS + 1, i) for i in range(4)], lambda _: logger.now.utc_ns), None, logger.now
    )
    logger.announce(0)
    for start in range(1, 120, TRIGGERS):
        logger.send(start, epoch=0, clock_ns=0, is_split=True)
        logger.blocks += assembly.close_due(logger.now)
        assert assembly.run == 2
    assert list(logger.stored()) == [1, 2]
