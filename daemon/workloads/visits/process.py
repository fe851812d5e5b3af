"""The processes of visits: `python -m daemon.workloads.visits` runs visits, with `worker` it is a worker."""

import asyncio
import contextlib
import logging
import os
import sys

import orjson
import uvloop

from backends.base import StoreError
from daemon.core.process.children import end_with, give_way
from daemon.workloads.visits.messages import LONGEST_LINE, Failed, Message, Spec
from daemon.workloads.visits.run import Run
from daemon.workloads.visits.worker import store_of, work
from daemon.workloads.visits.workers import NoWorkers, crew_of


class Teller:
    """Tells messages to who started the process.

    A visit that nobody has heard of when they are killed is in the database alone, and in none of their files: so the
    next one begins when all but the last message was heard.
    """

    def __init__(self, said: int) -> None:
        self._said = said
        self._unheard = 0
        self._news = asyncio.Event()
        self._is_heard = True

    def say(self, message: Message) -> None:
        """Write a message."""
        self._unheard += 1
        left = memoryview(message.line())
        while left:
            left = left[os.write(self._said, left) :]

    def heard(self) -> None:
        """Note that a message was taken."""
        self._unheard -= 1
        self._news.set()

    def hang_up(self) -> None:
        """Nobody says any more what was heard."""
        self._is_heard = False
        self._news.set()

    async def until_heard(self) -> None:
        """Wait until at most one message is not heard of."""
        while self._unheard > 1 and self._is_heard:
            self._news.clear()
            await self._news.wait()


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

    stop, teller = asyncio.Event(), Teller(said)
    obeying = asyncio.create_task(_obey(orders, stop, teller))
    try:
        await _run(spec, teller, stop)
    except (StoreError, NoWorkers) as error:
        teller.say(Failed(failed=str(error)))
        return 1
    finally:
        obeying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await obeying
    return 0


async def _run(spec: Spec, teller: Teller, stop: asyncio.Event) -> None:
    store = store_of(spec)
    crew = crew_of(spec, store)
    try:
        await Run(spec, store, crew, teller.say, stop, until_heard=teller.until_heard).run()
    finally:
        await crew.close()
        await store.close()


async def _orders() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def _obey(orders: asyncio.StreamReader, stop: asyncio.Event, teller: Teller) -> None:
    """Stop when told to, or when nobody is there any more."""
    while line := await orders.readline():
        if "stop" in orjson.loads(line):
            break
        teller.heard()
    stop.set()
    teller.hang_up()
