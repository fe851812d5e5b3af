"""Workers that do the tiles of a visit: this process, processes that stay, or a process a tile."""

import asyncio
import os
import selectors
import signal
import sys
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Protocol

import uvloop

from backends import open_visit_store
from backends.base import StoreError, StoreUnavailable
from backends.visits.base import VisitStore
from daemon.core.outcome import reason_of
from daemon.core.process.children import Child, end_with, forked
from daemon.workloads.frame.messages import LONGEST_LINE, Message, decoder
from daemon.workloads.visits.messages import Spec
from daemon.workloads.visits.sky import Exposure, Sky
from daemon.workloads.visits.sphere import tiles_of
from daemon.workloads.visits.tile import Detections, Past, TileWork, detections
from schemas.api.visits import TileMeasure
from schemas.config.visits import Connections, VisitsConfig, Workers

# --- messages --------------------------------------------------------------------------------------------------------
# In the lines of `daemon.workloads.frame.messages`. A worker gets a `Spec` first, then for each visit a `Draw`, and a
# `Do` for tiles; it answers a `Drawn`, and a `Tiled` or a `TileRefused` for each tile. `Draw` comes before the visit's
# time begins, as image analysis does.


class Draw(Message):
    """Draw a visit's exposure. last_object_id, last_source_id: given away before it."""

    visit: int
    last_object_id: int
    last_source_id: int


class Do(Message):
    """Do these tiles of the visit that was drawn, by their numbers."""

    past: Past
    tiles: tuple[int, ...]


class Drawn(Message):
    """The visit can begin."""

    visit: int


class Tiled(Message):
    """A tile is done."""

    tile: TileMeasure


class TileRefused(Message):
    """A tile was not done, for that reason; again: trying again may help."""

    reason: str
    again: bool


Order = Draw | Do
Answer = Drawn | Tiled | TileRefused

read_order = decoder(Draw, Do)
read_answer = decoder(Drawn, Tiled, TileRefused)


# --- the crew --------------------------------------------------------------------------------------------------------


class WorkerDied(Exception):
    """A worker's process ended in the middle of a visit; the message is one line that says how."""


class NoWorkers(Exception):
    """Workers cannot be started; the message is one line that says why."""


class Crew(Protocol):
    """Does the tiles of a visit.

    Every method raises WorkerDied when a worker's process is gone; `draw` starts another.
    """

    async def draw(self, draw: Draw, exposure: Exposure) -> None:
        """Prepare a visit: what is not part of its time."""

    async def do(self, past: Past, tiles: Sequence[int]) -> list[TileMeasure]:
        """Do these tiles; nobody writes any more when it returns or raises.

        Raises:
            StoreError: of the store of a tile.
        """

    async def close(self) -> None:
        """End the workers."""


def crew_of(spec: Spec, store: VisitStore) -> Crew:
    """The crew that is configured; `store` is of this process, and that of its tiles.

    Where each visit has a connection of its own, it is another one than that which holds the schema.
    """
    if spec.visits.workers is Workers.ONE:
        return Alone(store, spec.visits)
    processes = spec.visits.processes if spec.visits.workers is Workers.PERSISTENT else 1
    return Processes(spec, processes)


class Visit:
    """A visit that was drawn, and its tiles by number."""

    def __init__(self, visits: VisitsConfig, draw: Draw, exposure: Exposure) -> None:
        survey = visits.survey
        self.detected: Detections = detections(
            survey,
            exposure,
            last_object_id=draw.last_object_id,
            last_source_id=draw.last_source_id,
            pixel_level=visits.pixel_level,
        )
        self.tiles = {tile.number: tile for tile in tiles_of(exposure.pointing, survey.field_radius, visits.tiles)}

    @classmethod
    def drawn(cls, visits: VisitsConfig, sky: Sky, draw: Draw) -> "Visit":
        """Draw a visit as every process draws it."""
        return cls(visits, draw, sky.exposure(draw.visit, draw.last_object_id))


class Alone:
    """No other process: tile after tile in this one, over a store that is closed by who opened it."""

    def __init__(self, store: VisitStore, visits: VisitsConfig) -> None:
        self._store = store
        self._visits = visits
        self._visit: Visit | None = None

    async def draw(self, draw: Draw, exposure: Exposure) -> None:
        """Fill in what was detected."""
        if self._visits.connections is Connections.PER_VISIT:
            await self._store.close()
        self._visit = Visit(self._visits, draw, exposure)

    async def do(self, past: Past, tiles: Sequence[int]) -> list[TileMeasure]:
        """Do tile after tile."""
        assert self._visit is not None
        if self._visits.connections is Connections.PER_VISIT:
            await self._store.connect()
        work = TileWork(self._store, self._visits, self._visit.detected, past)
        return [await work.do(self._visit.tiles[number]) for number in tiles]

    async def close(self) -> None:
        """The store is closed by who opened it."""


class Processes:
    """Processes that share the tiles of a visit: each that is free takes the next one.

    A process that forks another for each tile takes them all.
    """

    def __init__(self, spec: Spec, processes: int) -> None:
        self._spec = spec
        self._children: list[Child | None] = [None] * processes
        self._takes_all = spec.visits.workers is Workers.FORK

    async def draw(self, draw: Draw, exposure: Exposure) -> None:
        """Have the visit drawn in each process, which is quicker than to send it; start those that are not there."""
        await _all_of(self._draw(number, draw) for number in range(len(self._children)))

    async def do(self, past: Past, tiles: Sequence[int]) -> list[TileMeasure]:
        """Hand out the tiles."""
        waiting = iter([tuple(tiles)] if self._takes_all else [(tile,) for tile in tiles])
        measures: list[TileMeasure] = []
        await _all_of(self._work(number, past, waiting, measures) for number in range(len(self._children)))
        return sorted(measures, key=lambda measure: measure.tile)

    async def close(self) -> None:
        """End the processes."""
        children = [child for child in self._children if child is not None]
        self._children = [None] * len(self._children)
        await asyncio.gather(*(child.stop() for child in children))

    async def _draw(self, number: int, draw: Draw) -> None:
        child = self._children[number]
        if child is None or not child.running:
            child = self._children[number] = await self._start(number)
        child.write_line(draw.line())
        answer = await self._answer(child)
        assert isinstance(answer, Drawn)

    async def _work(self, number: int, past: Past, waiting: Iterator[tuple[int, ...]], done: list[TileMeasure]) -> None:
        """Let one process do what is next until nothing is left, or until it fails: then no other takes more either."""
        child = self._children[number]
        assert child is not None
        for tiles in waiting:
            child.write_line(Do(past=past, tiles=tiles).line())
            refusals = []
            for _ in tiles:
                try:
                    answer = await self._answer(child)
                except WorkerDied:
                    _leave(waiting)
                    raise
                if isinstance(answer, Tiled):
                    done.append(answer.tile)
                else:
                    assert isinstance(answer, TileRefused)
                    refusals.append(answer)
            if refusals:
                _leave(waiting)
                raise _error_of(refusals)

    async def _answer(self, child: Child) -> Answer:
        line = await child.read_line()
        if not line:
            await child.ended()
            raise WorkerDied(child.ending())
        answer: Answer = read_answer(line)
        return answer

    async def _start(self, number: int) -> Child:
        folder = self._spec.state_dir / "visits"
        command = [sys.executable, "-m", "daemon.workloads.visits", "worker"]
        log = folder / f"{self._spec.visits.schema_name}-worker-{number}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            child = await Child.start(f"worker {number} of visits", command, log, piped=LONGEST_LINE)
        except OSError as error:
            raise NoWorkers(f"worker {number} of visits cannot be started in {folder} ({reason_of(error)})") from None
        child.write_line(self._spec.model_copy(update={"parent": os.getpid()}).line())
        return child


def _leave(waiting: Iterator[tuple[int, ...]]) -> None:
    for _ in waiting:
        pass


def _error_of(refusals: list[TileRefused]) -> StoreError:
    """What trying again cannot fix goes first."""
    refused = min(refusals, key=lambda refusal: refusal.again)
    return StoreUnavailable(refused.reason) if refused.again else StoreError(refused.reason)


async def _all_of(parts: Iterable[Coroutine[None, None, None]]) -> None:
    """Wait for all of them, also when one fails: nobody may write on while the visit is tried again."""
    outcomes = await asyncio.gather(*parts, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        # What trying again cannot fix goes first.
        raise min(failures, key=lambda failure: isinstance(failure, StoreUnavailable | WorkerDied))


# --- a worker --------------------------------------------------------------------------------------------------------
# A process that stays and does tiles itself, or one that forks another for each tile. The one that forks never runs an
# event loop and never has a thread, so that what it forks is whole; each of those has an event loop and a connection of
# its own, and ends with its tile.

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
