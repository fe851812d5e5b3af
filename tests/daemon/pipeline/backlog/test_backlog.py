"""The backlog: in order, nothing twice, memory bounded, and what it forgets where a log has it."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.columns.filling import readings_in
from daemon.pipeline.backlog import Backlog
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.files import Amount
from schemas.batch import ClosedBlock
from schemas.retention import Period
from tests.daemon.pipeline.files.test_format import block_of, same
from tests.support.disks import StoppedClock

WITHIN_S = 20.0
BLOCK_BYTES = max(block_of(number).nbytes for number in range(1, 20))
FIRST = 8


class Opened:
    """A backlog that begins behind block 7, and what it called."""

    def __init__(self, *, blocks: int = 10, has_log: bool = False) -> None:
        self.calls: list[bool] = []
        self.clock = StoppedClock()
        self.backlog = Backlog(
            after=FIRST - 1,
            state=DurableState(),
            clock=self.clock,
            max_memory=blocks * BLOCK_BYTES,
            has_log=has_log,
            full=self.calls.append,
        )

    def put(self, *numbers: int) -> None:
        for number in numbers:
            self.backlog.put([block_of(number)])

    async def take(self, most_bytes: int = 2**30) -> list[tuple[int, ClosedBlock]]:
        taken = await asyncio.wait_for(self.backlog.take(most_bytes), WITHIN_S)
        return [(waiting.number, waiting.block) for waiting in taken]

    async def drained(self) -> list[int]:
        """Take and settle until nothing is there; return the numbers."""
        numbers = list[int]()
        while self.backlog.has_work:
            taken = await self.take(4 * BLOCK_BYTES)
            numbers += [number for number, _ in taken]
            self.backlog.settle(len(taken))
        return numbers


def amount_of(numbers: Sequence[int]) -> Amount:
    blocks = [block_of(number) for number in numbers]
    return Amount(
        blocks=len(blocks),
        triggers=sum(block.triggers for block in blocks),
        readings=sum(readings_in(block) for block in blocks),
    )


async def test_what_is_put_is_taken_in_order_and_numbered() -> None:
    here = Opened(blocks=100)
    here.put(*range(1, 31))
    assert here.backlog.waiting == amount_of(range(1, 31))
    taken = await here.take()
    assert [number for number, _ in taken] == list(range(FIRST, FIRST + 30))
    assert all(same(block, block_of(k)) for k, (_, block) in enumerate(taken, 1))
    here.backlog.settle(30)
    assert here.backlog.waiting == Amount()
    assert (here.backlog.last, here.backlog.safe_upto) == (FIRST + 29, FIRST + 29)
    assert here.calls == []


async def test_what_is_not_settled_is_taken_again() -> None:
    here = Opened()
    here.put(1, 2, 3)
    assert len(await here.take()) == 3
    here.backlog.settle(1)
    assert [number for number, _ in await here.take()] == [FIRST + 1, FIRST + 2]


async def test_a_batch_is_about_as_large_as_asked_for_and_at_least_a_block() -> None:
    here = Opened(blocks=100)
    here.put(*range(1, 21))
    assert len(await here.take(1)) == 1
    assert 3 <= len(await here.take(3 * BLOCK_BYTES)) < 20


@pytest.mark.parametrize("blocks", [1, 3])
async def test_taking_waits_until_there_is_something(blocks: int) -> None:
    here = Opened()
    taking = asyncio.create_task(here.take())
    await asyncio.sleep(0)
    assert not taking.done()
    here.backlog.put([block_of(number) for number in range(1, blocks + 1)])
    assert len(await taking) == blocks


async def test_after_the_end_it_hands_out_what_is_left_and_then_nothing() -> None:
    here = Opened()
    here.put(1)
    here.backlog.end()
    assert len(await here.take()) == 1
    here.backlog.settle(1)
    assert await here.take() == []


async def test_without_a_log_memory_is_the_limit() -> None:
    here = Opened()
    here.backlog.forget_what_does_not_fit()
    count = 0
    while not here.backlog.is_full:
        count += 1
        here.put(count)
    assert here.backlog.memory_bytes >= 10 * BLOCK_BYTES
    here.put(count + 1)
    assert not here.backlog.is_behind
    assert await here.drained() == list(range(FIRST, FIRST + count + 1))
    assert here.calls == [True, False]


async def test_while_the_log_is_read_nothing_is_forgotten() -> None:
    """Who reads it is held back."""
    here = Opened(blocks=2, has_log=True)
    here.put(*range(1, 11))
    assert (here.calls, here.backlog.is_behind) == ([True], False)
    assert len(await here.drained()) == 10
    assert here.calls == [True, False]


async def test_with_a_log_what_does_not_fit_is_forgotten_from_then_on() -> None:
    here = Opened(blocks=3, has_log=True)
    here.backlog.forget_what_does_not_fit()
    kept = 0
    while not here.backlog.is_full:
        kept += 1
        here.put(kept)
    assert not here.backlog.is_behind
    here.put(*range(kept + 1, 40))
    assert here.backlog.is_behind
    assert here.backlog.waiting == amount_of(range(1, 40))
    assert here.backlog.memory_bytes <= 4 * BLOCK_BYTES
    assert here.backlog.last == FIRST + 38
    # There is room again, and yet a block in the middle must not be committed without those before.
    assert await here.drained() == list(range(FIRST, FIRST + kept))
    here.put(40)
    assert await here.take() == []
    assert here.backlog.waiting == amount_of(range(kept + 1, 41))


async def test_who_waits_for_work_is_told_that_it_is_behind() -> None:
    here = Opened(blocks=0, has_log=True)
    here.backlog.forget_what_does_not_fit()
    taking = asyncio.create_task(here.take())
    await asyncio.sleep(0)
    here.put(1)
    assert await taking == []
    assert here.backlog.is_behind


async def test_what_waits_for_a_period_is_known_unless_it_was_forgotten() -> None:
    here = Opened(blocks=3, has_log=True)
    here.put(1)
    times = block_of(1).ledger["time_ns"]
    first, last = int(times.min()), int(times.max())
    of_it = Period(group="bpm", name="of it", start_ns=first, end_ns=last + 1)
    before = Period(group="bpm", name="before", start_ns=0, end_ns=first - 10**6)
    assert (here.backlog.waits_for(of_it), here.backlog.waits_for(before)) == (True, False)
    here.backlog.forget_what_does_not_fit()
    here.put(*range(2, 9))
    assert here.backlog.waits_for(before), "nobody knows of what times the forgotten ones are"


async def test_a_smaller_limit_holds_back_at_once() -> None:
    here = Opened(blocks=100)
    here.put(*range(1, 11))
    here.backlog.change_limit(BLOCK_BYTES)
    assert here.calls == [True]
    here.backlog.change_limit(100 * BLOCK_BYTES)
    assert here.calls == [True, False]


async def test_what_the_database_may_lose_is_safe_only_after_a_later_commit() -> None:
    here = Opened()
    here.backlog.hold_for(60.0)
    here.put(1, 2)
    await here.take()
    here.backlog.settle(2)
    assert here.backlog.safe_upto == FIRST - 2
    here.clock.move(61.0)
    assert here.backlog.safe_upto == FIRST - 2, "nothing has shown that the server has not crashed meanwhile"
    here.put(3)
    await here.take()
    here.backlog.settle(1)
    assert here.backlog.safe_upto == FIRST + 1
    here.backlog.hold_for(0.0)
    here.put(4)
    await here.take()
    here.backlog.settle(1)
    assert here.backlog.safe_upto == FIRST + 3


async def test_without_a_limit_of_the_risk_nothing_is_held() -> None:
    here = Opened()
    here.backlog.hold_for(float("inf"))
    here.put(1)
    await here.take()
    here.backlog.settle(1)
    assert here.backlog.safe_upto == FIRST


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), blocks=st.integers(1, 12))
async def test_any_order_of_events_loses_and_repeats_nothing(seed: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    here, put, seen = Opened(blocks=blocks), 0, 0
    for _ in range(60):
        if rng.random() < 0.6 and not here.backlog.is_full:
            count = int(rng.integers(1, 5))
            here.backlog.put([block_of(put + k) for k in range(1, count + 1)])
            put += count
        elif seen < put:
            taken = await here.take(int(rng.integers(1, 5)) * BLOCK_BYTES)
            for number, block in taken:
                seen += 1
                assert number == FIRST + seen - 1
                assert same(block, block_of(seen))
            here.backlog.settle(len(taken))
        assert here.backlog.waiting.blocks == put - seen
    assert len(await here.drained()) == put - seen
    assert here.backlog.waiting == Amount()
