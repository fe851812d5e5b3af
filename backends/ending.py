"""Ends tasks that may be asking a database."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN_S = 1.0
"""After how long a task that goes on is cancelled again."""


async def end_tasks(*tasks: "asyncio.Task[object]") -> None:
    """Cancel tasks, and wait until they have ended, whatever with.

    Not once: asyncio.wait_for of Python 3.11, by which drivers wait, drops a cancellation that comes in the moment in
    which what it waits for is done, and the task would go on for ever.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def done_before(stop: asyncio.Event, part: Coroutine[Any, Any, T]) -> "asyncio.Task[T] | None":
    """Do a part; return its task, or None where `stop` came first and it was left half done. Raises what it raised."""
    work, stopping = asyncio.create_task(part), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((work, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return None
        work.result()
        return work
    finally:
        await end_tasks(work, stopping)
