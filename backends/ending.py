"""Ends tasks that may be asking a database."""

import asyncio

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
