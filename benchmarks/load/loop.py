"""The event loop of whatever is asynchronous in the benchmarks: the one that the daemon runs on."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def on_uvloop(main: Coroutine[Any, Any, T]) -> T:
    """Run to its end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
