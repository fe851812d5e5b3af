"""The process of snapshot readers, or that of their clients: `python -m daemon.workloads.snapshots [clients]`."""

import os

# What forks must have no thread: numpy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from backends import open_folders_store
from backends.base import StoreError
from backends.folders.base import FoldersStore
from daemon.core.process.children import Child, give_way
from daemon.workloads.frame.messages import LONGEST_LINE, Message, Parent, Refused, decoder, own_output, run_process
from daemon.workloads.snapshots.board import Board
from daemon.workloads.snapshots.client import run_clients
from daemon.workloads.snapshots.data import Data, Loader
from daemon.workloads.snapshots.looks import Look, Looks, cliff, looks_at
from daemon.workloads.snapshots.messages import (
    OF_CLIENTS,
    Died,
    Loading,
    Measured,
    Noted,
    Spec,
    Started,
    Troubled,
)
from schemas.api.snapshots import Sample, SnapshotSample, SnapshotSettings
from schemas.conditions.rules import ConditionsRefused

TICK_S = 0.25
SAMPLE_S = 0.5
MOST_SAMPLES = 2_000
"""A sample of the time line is as long as it has to be so that there are no more, and SAMPLE_S at least."""
MOST_AHEAD = 40
"""Messages that are sent and not taken yet, at most."""
FOLDER = "snapshots"

decode = decoder(*OF_CLIENTS)


def main() -> None:
    """Load, measure and read until all is done, until it is to stop, or until the parent is gone."""
    if sys.argv[1:] == ["clients"]:
        with own_output() as messages:
            sys.exit(run_clients(sys.stdin.buffer, messages))
    else:
        run_process(Spec, _snapshots)


async def _snapshots(spec: Spec, parent: Parent[Message]) -> None:
    if spec.gives_way:
        give_way()
    data = Data(spec.snapshots)
    looks = looks_at(spec)
    try:
        if not await _load(spec, data, parent):
            return
        if spec.snapshots.cliff and spec.snapshots.sample is not Sample.CONTROL:
            await _measure(spec, data, looks, parent)
        if spec.snapshots.cycles and not parent.stop.is_set():
            await _read(spec, looks, parent)
    except (StoreError, ConditionsRefused) as error:
        raise Refused(str(error)) from None
    finally:
        await looks.close()


def _store(spec: Spec) -> FoldersStore:
    return open_folders_store(
        spec.database,
        schema=spec.snapshots.schema_name,
        state_dir=spec.state_dir,
        password=spec.password,
        connections=1,
    )


async def _load(spec: Spec, data: Data, parent: Parent[Message]) -> bool:
    """Load what is missing; whether all is there."""
    store = _store(spec)
    try:
        return await Loader(
            store,
            data,
            lambda loading: parent.send(Loading(loading=loading)),
            lambda problem: parent.send(Troubled(problem=problem)),
            parent.stop,
        ).run()
    finally:
        await store.close()


async def _measure(spec: Spec, data: Data, looks: Looks, parent: Parent[Message]) -> None:
    async with aclosing(cliff(data, looks, lambda: _store(spec))) as points:
        async for point in points:
            parent.send(Measured(point=point))
            if parent.stop.is_set():
                return


async def _read(spec: Spec, looks: Looks, parent: Parent[Message]) -> None:
    """Have the clients read, and tell how they are.

    Raises:
        Refused: a process of clients ended early.
    """
    first = await looks.look()
    for note in _unknown(first, looks):
        parent.send(Noted(note=note))
    async with _clients(spec) as child:
        begun = await _next(child)
        if not isinstance(begun, Started):
            raise Refused(_died(begun, child))
        board = Board(spec.snapshots, begun.at_s)
        telling = _Telling(board, looks, parent, first)
        tasks = [asyncio.create_task(each) for each in (_listen(child, board), telling.run(), _stopped(parent))]
        try:
            # The clients have ended, or one of them did too early; or the parent wants it.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await telling.tell(time.monotonic(), await telling.sample())
        for task in done:
            task.result()


def _unknown(look: Look, looks: Looks) -> Iterator[str]:
    if look.read is None:
        because = "" if looks.problem is None else f" ({looks.problem})"
        yield f"The server does not say which blocks it reads{because}."
    if look.server_s is None:
        yield "The server's process is not to be seen on this machine, so that its processor time is not known."


class _Telling:
    """Tells the parent how the clients are, a few times a second, with a sample of the time line now and then."""

    def __init__(self, board: Board, looks: Looks, parent: Parent[Message], first: Look) -> None:
        self._board, self._looks, self._parent, self._last = board, looks, parent, first

    async def run(self) -> None:
        """Tell until cancelled."""
        sample_s = _sample_s(self._board.settings)
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            is_due = now_s - self._last.at_s >= sample_s
            await self.tell(now_s, await self.sample() if is_due else None)
            await self._parent.until_acknowledged(MOST_AHEAD)

    async def sample(self) -> SnapshotSample:
        """What came since the sample before."""
        look = await self._looks.look()
        before, self._last = self._last, look
        return self._board.sample(before, look)

    async def tell(self, now_s: float, sample: SnapshotSample | None) -> None:
        """Tell how they are."""
        self._parent.send(self._board.tick(now_s, sample))


def _sample_s(settings: SnapshotSettings) -> float:
    cycles_s = settings.cycles * settings.cycle_data_s + settings.clients * settings.chunk_s
    return max(SAMPLE_S, cycles_s * settings.scale / MOST_SAMPLES)


async def _stopped(parent: Parent[Message]) -> None:
    await parent.stop.wait()


async def _listen(child: Child, board: Board) -> None:
    """Take what clients say, until all have ended.

    Raises:
        Refused: one ended early.
    """
    while board.ended < board.wanted:
        message = await _next(child)
        if message is None or isinstance(message, Died):
            raise Refused(_died(message, child))
        board.take(message, time.monotonic())


async def _next(child: Child) -> Any:
    line = await child.read_line()
    if line:
        return decode(line)
    await child.ended()
    return None


def _died(message: Message | None, child: Child) -> str:
    return message.problem if isinstance(message, Died) else child.ending()


@asynccontextmanager
async def _clients(spec: Spec) -> AsyncIterator[Child]:
    """The process that forks those of the clients; all are gone afterwards."""
    log = spec.state_dir / FOLDER / "clients.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "daemon.workloads.snapshots", "clients"]
    child = await Child.start("process of the clients", command, log, piped=LONGEST_LINE)
    try:
        child.write_line(spec.model_copy(update={"parent": os.getpid()}).line())
        yield child
    finally:
        await child.kill()


if __name__ == "__main__":
    main()
