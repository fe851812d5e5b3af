"""A worker of visits: a process that stays and does tiles itself, or one that forks another for each tile.

The one that forks never runs an event loop and never has a thread, so that what it forks is whole; each of those has an
event loop and a connection of its own, and ends with its tile.
"""

import asyncio
import os
import selectors
import signal
from collections.abc import Iterable, Iterator

import uvloop

from backends import open_visit_store
from backends.base import StoreError, StoreUnavailable
from backends.visits.base import VisitStore
from daemon.core.process.children import end_with, forked
from daemon.workloads.visits.messages import Spec
from daemon.workloads.visits.sky import Sky
from daemon.workloads.visits.tile import Past, TileWork
from daemon.workloads.visits.worker_messages import Draw, Drawn, Tiled, TileRefused, read_order
from daemon.workloads.visits.workers import Visit
from schemas.config.visits import Connections, Workers

MOST_AT_ONCE = 64
"""Processes of tiles that run at once: a PostgreSQL takes 100 connections by default, a MariaDB 151."""

_ANSWER_MOST = 2**16


def store_of(spec: Spec) -> VisitStore:
    """A store of this process's own."""
    return open_visit_store(spec.database, spec.visits, state_dir=spec.state_dir, password=spec.password)


def work(orders: Iterable[bytes], answers: int) -> None:
    """Do as ordered until there are no more orders; the first line is the Spec.

    answers: file descriptor that gets the answers.
    """
    lines = iter(orders)
    first = next(lines, None)
    if first is None:
        return
    spec = Spec.read(first)
    end_with(spec.parent)
    if spec.visits.workers is Workers.FORK:
        _fork(spec, lines, answers)
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            _stay(spec, lines, answers, runner)


def _stay(spec: Spec, lines: Iterator[bytes], answers: int, runner: asyncio.Runner) -> None:
    """Do tiles over one connection, which lasts as long as is configured."""
    sky, store = Sky(spec.visits.survey), store_of(spec)
    visit: Visit | None = None
    for line in lines:
        order = read_order(line)
        if isinstance(order, Draw):
            if spec.visits.connections is Connections.PER_VISIT:
                runner.run(store.close())
            visit = Visit.drawn(spec.visits, sky, order)
            _say(answers, Drawn(visit=order.visit))
        else:
            assert visit is not None
            for tile in order.tiles:
                _say(answers, runner.run(_do(spec, store, visit, order.past, tile)))
    runner.run(store.close())


async def _do(spec: Spec, store: VisitStore, visit: Visit, past: Past, tile: int) -> Tiled | TileRefused:
    try:
        await store.connect()
        return Tiled(tile=await TileWork(store, spec.visits, visit.detected, past).do(visit.tiles[tile]))
    except StoreError as error:
        return TileRefused(reason=str(error), again=isinstance(error, StoreUnavailable))


def _fork(spec: Spec, lines: Iterator[bytes], answers: int) -> None:
    """Fork a process for each tile."""
    sky = Sky(spec.visits.survey)
    store_of(spec)  # what has been imported by now is in every process that is forked
    visit: Visit | None = None
    for line in lines:
        order = read_order(line)
        if isinstance(order, Draw):
            visit = Visit.drawn(spec.visits, sky, order)
            _say(answers, Drawn(visit=order.visit))
        else:
            assert visit is not None
            _fork_all(spec, visit, order.past, order.tiles, answers)


def _fork_all(spec: Spec, visit: Visit, past: Past, tiles: tuple[int, ...], answers: int) -> None:
    """Keep up to MOST_AT_ONCE processes running until all tiles are answered."""
    waiting = iter(tiles)
    with selectors.DefaultSelector() as running:
        for tile in tiles[:MOST_AT_ONCE]:
            _start(running, spec, visit, past, next(waiting, tile))
        while running.get_map():
            for key, _ in running.select():
                running.unregister(key.fd)
                pid, tile = key.data
                os.write(answers, _answer_of(key.fd, pid, tile))
                if (following := next(waiting, None)) is not None:
                    _start(running, spec, visit, past, following)


def _start(running: selectors.BaseSelector, spec: Spec, visit: Visit, past: Past, tile: int) -> None:
    answer, mine = os.pipe()
    pid = forked(lambda: os.write(mine, _one(spec, visit, past, tile).line()))
    os.close(mine)
    running.register(answer, selectors.EVENT_READ, (pid, tile))


def _one(spec: Spec, visit: Visit, past: Past, tile: int) -> Tiled | TileRefused:
    async def do() -> Tiled | TileRefused:
        store = store_of(spec)
        try:
            return await _do(spec, store, visit, past, tile)
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(do())


def _answer_of(answer: int, pid: int, tile: int) -> bytes:
    """What a tile's process said, or that it died; it has closed its pipe, or will at once."""
    with os.fdopen(answer, "rb") as pipe:
        line = pipe.read(_ANSWER_MOST)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return line
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return TileRefused(reason=f"the process of tile {tile} {how}", again=True).line()


def _say(answers: int, answer: Drawn | Tiled | TileRefused) -> None:
    os.write(answers, answer.line())
