"""Pipelines over a store in memory, put together as `daemon.data_path` does it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.assembly import Joined, Origin, Runs
from daemon.pipeline.dead_letters import DeadLetters, Letter
from daemon.pipeline.dead_letters.writing import Writing
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.following import Following
from daemon.pipeline.intake import Intake, Subscriber, open_intake
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import Recalled, RecoveredGroup, ask_store, recover_group, runs_of
from schemas.batch import ClosedBlock, Durability, JournalPosition, Layout, Stream
from schemas.config import Config
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerTail, WindowReadings
from schemas.readings import Array, InstrumentGroup
from schemas.wire import Ack
from tests.support.disks import REAL
from tests.support.memory.store import MemoryStore

FOREVER = (-(2**63) + 1, 2**63 - 1)
LOOK_EVERY_S = 0.05


@dataclass(kw_only=True)
class Logger:
    """Pipelines by group, and the store behind them."""

    pipelines: dict[str, Pipeline]
    intakes: dict[str, Intake]
    following: dict[str, Following]
    store: MemoryStore
    events: Events
    announced: AnnouncedRuns

    async def stored(self, group: InstrumentGroup) -> Array:
        start, end = FOREVER
        return await self.store.ask(WindowReadings(group=group, start_ns=start, end_ns=end))

    async def ledger(self, group: InstrumentGroup) -> Array:
        return await self.store.ask(LedgerTail(group=group, most=1_000_000))

    async def drain(self) -> None:
        """Close what is open and wait until all is committed."""
        for following in self.following.values():
            following.end()
        await asyncio.wait_for(self._committed.wait(), 20)

    def __post_init__(self) -> None:
        self._committed = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for following in self.following.values():
                tasks.create_task(following.run())
        self._committed.set()


def configured(**sections: dict[str, float]) -> Config:
    """A configuration with these sections; nobody looks at its groups."""
    return Config.model_validate({"groups": [{"name": "unused", "count": 1, "channels": [{"name": "x"}]}], **sections})


def nothing_but(
    group: InstrumentGroup, history: Array | None, position: JournalPosition | None, folder: Path
) -> RecoveredGroup:
    """Return what a start finds without a log: these ledger rows, and this position."""
    rows = np.empty(0, ledger_dtype(group.size)) if history is None else history
    found = position or JournalPosition(sequence=0)
    return RecoveredGroup(
        recalled=Recalled(history=rows, state=DurableState(), letters=np.empty(0, group.record)),
        position=found,
        dead_letters=DeadLetters(folder / group.name, group, REAL),
        id=0,
        formerly=frozenset({found.journal}),
    )


def pipeline_of(
    group: InstrumentGroup,
    config: Config,
    store: MemoryStore,
    runs: Runs,
    events: Events,
    *,
    recovered: RecoveredGroup,
    intake: Intake,
    risk_ms: float | None = None,
) -> Pipeline:
    """A pipeline with the real clock that goes on from what was recovered.

    risk_ms: how long the store may lose again what it acknowledged.
    """
    pipeline = Pipeline(
        group,
        config,
        store,
        layout=Layout.ROWS,
        durability=Durability.ASYNC if risk_ms else Durability.SYNC,
        runs=runs,
        recovered=recovered,
        events=events,
        clock=REAL.clock,
        kept=intake.as_kept,
        losses=intake.losses,
    )
    if risk_ms is not None:
        pipeline.note_risk(risk_ms)
    return pipeline


@asynccontextmanager
async def logging_to_memory(
    *groups: InstrumentGroup,
    folder: Path | None = None,
    position: JournalPosition | None = None,
    history: Array | None = None,
    **sections: dict[str, float],
) -> AsyncIterator[Logger]:
    """Pipelines without a log that commit into memory until the end of the block.

    folder: of the dead letters. history: ledger rows from before. sections: change the configuration.
    """
    config = configured(**sections)
    own = Path(tempfile.mkdtemp(prefix="triggerlog-test-"))
    folder = folder or own
    store, events, runs = MemoryStore({group.name: group for group in groups}), Events(), Runs()
    for kept in store._groups.values():
        kept.positions[Stream.JOURNAL] = position or JournalPosition(sequence=0)
    intakes = {group.name: Intake(group, clock=REAL.clock, rng=REAL.rng, events=events) for group in groups}
    pipelines = {
        group.name: pipeline_of(
            group,
            config,
            store,
            runs,
            events,
            recovered=nothing_but(group, history, position, folder),
            intake=intakes[group.name],
        )
        for group in groups
    }
    announced = AnnouncedRuns(own, REAL, events)
    following = {name: Following(intake, pipelines[name], announced, store, config) for name, intake in intakes.items()}
    logger = Logger(
        pipelines=pipelines, intakes=intakes, following=following, store=store, events=events, announced=announced
    )
    running = asyncio.create_task(logger.run())
    for each in following.values():
        await each.caught_up.wait()
    try:
        yield logger
    finally:
        store.serving.set()
        store.fail_with(None)
        await logger.drain()
        await running
        shutil.rmtree(own)


class Logged:
    """A group with a log: its intake as its senders see it, and everything else as its pipeline has it.

    A connection keeps the column that `connect` gave it, also when the pipeline begins again.
    """

    def __init__(
        self, folder: Path, intake: Intake, pipeline: Pipeline, following: Following, announced: AnnouncedRuns
    ) -> None:
        self.folder = folder
        self.intake, self.pipeline, self.following, self.announced = intake, pipeline, following, announced
        self._columns: list[int] = []
        self._next: list[int] = []
        intake.subscribe(Subscriber(moved=self._move))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pipeline, name)

    def connect(
        self, *, session: int | None = None, first: int = 0, upto: int | None = None, ack: Ack = Ack.COMMITTED
    ) -> Joined:
        """See `Intake.connect`."""
        joined = self.intake.connect(ack=ack, session=session, first=first, upto=upto)
        self._columns.append(joined.column)
        self._next.append(joined.resume)
        return replace(joined, column=len(self._columns) - 1)

    def receive(self, block: Array, origin: Origin | None = None) -> None:
        """See `Intake.receive`. origin: of one connection."""
        if origin is not None:
            column = np.array([self._columns[k] for k in origin.column.tolist()], np.int32)
            origin = Origin(column, origin.sequence)
        self.intake.receive(block, origin)

    def send(self, column: int, block: Array) -> None:
        """Send readings on a connection, numbered from where its session went on."""
        first, self._next[column] = self._next[column], self._next[column] + len(block)
        self.receive(block, Origin.of(column, first, len(block)))

    def acknowledged(self) -> tuple[Array, Array]:
        """See `Intake.acknowledged`; by the columns that `connect` gave."""
        done, refused = self.intake.acknowledged()
        return done[self._columns], refused[self._columns]

    def disconnect(self, column: int, *, ended: bool = False) -> None:
        """See `Intake.disconnect`."""
        self.intake.disconnect(self._columns[column], ended=ended)

    def look(self) -> None:
        """Do what the daemon does a few times a second."""
        self.intake.look()
        self.pipeline.look()

    @property
    def said(self) -> list[str]:
        """The events, the newest first."""
        return [event.text for event in self.intake._events.newest()]

    @property
    def is_idle(self) -> bool:
        """Tell whether all that came is in the database, or the dead letters."""
        return (
            self.intake.pipeline is not None and not self.pipeline.waiting.blocks and not self.pipeline.figures().open
        )

    def _move(self, columns: dict[int, int]) -> None:
        self._columns = [columns.get(column, column) for column in self._columns]


@asynccontextmanager
async def journaling(
    store: MemoryStore,
    group: InstrumentGroup,
    folder: Path,
    risk_ms: float = 0,
    *,
    outside: Outside = REAL,
    **sections: dict[str, float],
) -> AsyncIterator[Logged]:
    """One group of `journaling_each`."""
    async with journaling_each(store, [group], folder, risk_ms, outside=outside, **sections) as logged:
        yield logged[group.name]


@asynccontextmanager
async def journaling_each(
    store: MemoryStore,
    groups: Sequence[InstrumentGroup],
    folder: Path,
    risk_ms: float = 0,
    *,
    outside: Outside = REAL,
    **sections: dict[str, float],
) -> AsyncIterator[dict[str, Logged]]:
    """Groups with their logs, recovered as the service does it, and caught up.

    At the end of the block they stop without committing anything more: what is left is in the log.

    risk_ms: how long the store may lose again what it acknowledged.
    """
    config = configured(**sections)
    events = Events()
    announced = AnnouncedRuns(folder, outside, events)
    await announced.load()
    intakes = {
        group.name: await open_intake(
            group, config, folder, events, outside=outside, after_record=announced.last_record(group.name)
        )
        for group in groups
    }
    try:
        logged = await _recovered(store, groups, folder, config, events, announced, intakes, outside, risk_ms)
    except BaseException:
        for intake in intakes.values():
            await intake.end()
        raise
    running = [asyncio.create_task(each.following.run()) for each in logged.values()]
    running.append(asyncio.create_task(_look(logged.values())))
    try:
        for each in logged.values():
            await each.following.caught_up.wait()
        yield logged
    finally:
        for each in logged.values():
            each.pipeline._timer.disarm()
        for task in running:
            task.cancel()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        for each in logged.values():
            await each.pipeline.close(0)
            await each.intake.end()
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _recovered(
    store: MemoryStore,
    groups: Sequence[InstrumentGroup],
    folder: Path,
    config: Config,
    events: Events,
    announced: AnnouncedRuns,
    intakes: dict[str, Intake],
    outside: Outside,
    risk_ms: float,
) -> dict[str, Logged]:
    recovered = {}
    for group in groups:
        intake = intakes[group.name]
        intake.start()
        recovered[group.name] = await recover_group(
            await ask_store(store, group, config),
            group,
            config,
            folder,
            events,
            outside=outside,
            log=intake.log,
            in_log=intake.found_readings,
        )
    runs = runs_of(recovered.values())
    logged = {}
    for group in groups:
        intake, found = intakes[group.name], recovered[group.name]
        pipeline = pipeline_of(group, config, store, runs, events, recovered=found, intake=intake, risk_ms=risk_ms)
        if intake.log is not None and found.was_elsewhere:
            await intake.doubt(waits=not intake.log.has_deferred)
        following = Following(intake, pipeline, announced, store, config)
        logged[group.name] = Logged(folder, intake, pipeline, following, announced)
    return logged


async def _look(logged: Iterable[Logged]) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        for each in logged:
            each.look()


async def eventually(condition, what: str = "", timeout_s: float = 60) -> None:
    """Wait until something holds that no event tells."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def letters_written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many letters are written, by each sync."""
    written: list[int] = []
    write = Writing.write

    def counted(writing: Writing, letters: Sequence[tuple[Letter, ClosedBlock]]) -> None:
        written.append(len(letters))
        write(writing, letters)

    monkeypatch.setattr(Writing, "write", counted)
    return written
