"""Tasks end though a library drops a cancellation."""

import asyncio

from backends.ending import end_tasks


async def test_a_task_that_drops_a_cancellation_is_cancelled_again() -> None:
    dropped = 0

    async def renew() -> None:
        nonlocal dropped
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                dropped += 1
                if dropped == 2:
                    raise

    task = asyncio.create_task(renew())
    await asyncio.sleep(0)
    await end_tasks(task)
    assert (task.cancelled(), dropped) == (True, 2)


async def test_what_has_ended_by_itself_is_left_as_it_is() -> None:
    async def fail() -> None:
        raise ValueError("for itself")

    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await end_tasks(task)
    assert isinstance(task.exception(), ValueError)
    await end_tasks()
