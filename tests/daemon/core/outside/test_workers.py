"""Steps in a thread: called when they are due or woken, one at a time, until the last."""

import asyncio
import math
import threading

from daemon.core.outside import ThreadWorkers

WITHIN_S = 20.0


async def test_a_call_returns_what_it_returns_and_does_not_hold_up_the_loop() -> None:
    inside, outside = threading.Event(), threading.Event()

    def block(number: int, *, more: int) -> int:
        inside.set()
        assert outside.wait(WITHIN_S)
        return number + more

    calling = asyncio.create_task(ThreadWorkers().call(block, 1, more=2))
    async with asyncio.timeout(WITHIN_S):
        while not inside.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        outside.set()
        assert await calling == 3


async def test_a_step_is_called_until_it_is_the_last() -> None:
    left = [None, 0.0, 0.001, 0.0]
    stepper = ThreadWorkers().begin("steps", left.pop)
    await asyncio.wait_for(stepper.ended(), WITHIN_S)
    assert left == []


async def test_a_step_that_rests_is_woken() -> None:
    resting, ended = threading.Event(), threading.Event()

    def step() -> float | None:
        if ended.is_set():
            return None
        resting.set()
        return math.inf

    stepper = ThreadWorkers().begin("steps", step)
    async with asyncio.timeout(WITHIN_S):
        while not resting.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        ended.set()
        stepper.wake()
        await stepper.ended()


async def test_no_call_to_wake_is_lost() -> None:
    seen: list[int] = []
    asked = 0

    def step() -> float | None:
        seen.append(asked)
        return None if asked == 1000 else math.inf

    stepper = ThreadWorkers().begin("steps", step)
    for asked in range(1, 1001):  # noqa: B007 - the step reads it
        stepper.wake()
    await asyncio.wait_for(stepper.ended(), WITHIN_S)
    assert seen[-1] == 1000
