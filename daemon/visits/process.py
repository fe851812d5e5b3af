"""The processes of visits: `python -m daemon.visits` runs visits, `python -m daemon.visits worker` is a worker."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable

import orjson
import uvloop

from backends.base import StoreError
from daemon.children import end_with, give_way
from daemon.visits.messages import LONGEST_LINE, Failed, Message, Spec
from daemon.visits.run import Run
from daemon.visits.worker import store_of, work
from daemon.visits.workers import NoWorkers, crew_of


def main() -> None:
    """Run visits until all are done, until told to stop, or until nobody is there any more to tell."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    # What a library prints must not get among the messages.
    said = os.dup(1)
    os.dup2(2, 1)
    if sys.argv[1:] == ["worker"]:
        work(sys.stdin.buffer, said)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(_visits(said)))


async def _visits(said: int) -> int:
    """Run visits; return the exit code."""
    orders = await _orders()
    line = await orders.readline()
    if not line:  # stopped before it began
        return 0
    spec = Spec.model_validate_json(line)
    end_with(spec.parent)
    if spec.gives_way:
        give_way()

    def say(message: Message) -> None:
        _write(said, message.line())

    stop = asyncio.Event()
    obeying = asyncio.create_task(_obey(orders, stop))
    try:
        await _run(spec, say, stop)
    except (StoreError, NoWorkers) as error:
        say(Failed(failed=str(error)))
        return 1
    finally:
        obeying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await obeying
    return 0


async def _run(spec: Spec, say: Callable[[Message], None], stop: asyncio.Event) -> None:
    store = store_of(spec)
    crew = crew_of(spec, store)
    try:
        await Run(spec, store, crew, say, stop).run()
    finally:
        await crew.close()
        await store.close()


async def _orders() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _obey(orders: asyncio.StreamReader, stop: asyncio.Event) -> None:
    """Stop when told to, or when nobody is there any more."""
    while line := await orders.readline():
        if "stop" in orjson.loads(line):
            break
    stop.set()


def _write(said: int, line: bytes) -> None:
    """Write all of a line; who does not read holds the visits up."""
    left = memoryview(line)
    while left:
        left = left[os.write(said, left) :]
