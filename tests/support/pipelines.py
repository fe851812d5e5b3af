"""Pipelines over a store in memory."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.memory.store import MemoryStore
from daemon.core.monitoring.events import Events
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.assembly import Runs
from daemon.pipeline.dead_letters import DeadLetters
from daemon.pipeline.intake import Intake
from daemon.pipeline.journal import Amount
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import RecoveredGroup, ask_store, recover_group, runs_of
from schemas.batch import Durability, JournalPosition, Layout, Stream
from schemas.config import Config
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerTail, WindowReadings
from schemas.readings import Array, InstrumentGroup
from tests.support.disks import REAL

FOREVER = (-(2**63) + 1, 2**63 - 1)


@dataclass(kw_only=True)
class Logger:
    """Pipelines by group, and the store behind them."""

    pipelines: dict[str, Pipeline]
    intakes: dict[str, Intake]
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
        for pipeline in self.pipelines.values():
            pipeline.end()
        await asyncio.wait_for(self._committed.wait(), 20)

    def __post_init__(self) -> None:
        self._committed = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for pipeline in self.pipelines.values():
                tasks.create_task(pipeline.run())
        self._committed.set()


def configured(**sections: dict[str, float]) -> Config:
    """A configuration with these sections; nobody looks at its groups."""
    return Config.model_validate({"groups": [{"name": "unused", "count": 1, "channels": [{"name": "x"}]}], **sections})


def nothing_but(
    group: InstrumentGroup, history: Array | None, position: JournalPosition | None, folder: Path
) -> RecoveredGroup:
    """What a start finds without a journal: these ledger rows, and this position."""
    rows = np.empty(0, ledger_dtype(group.size)) if history is None else history
    return RecoveredGroup(
        rows=rows,
        history=rows,
        position=position or JournalPosition(sequence=0),
        journal=None,
        amount=Amount(),
        dead_letters=DeadLetters(folder / group.name, group, REAL),
    )


def pipeline_of(
    group: InstrumentGroup, config: Config, store: MemoryStore, runs: Runs, events: Events, *, recovered: RecoveredGroup
) -> Pipeline:
    """A pipeline with the real clock that goes on from what was recovered."""
    return Pipeline(
        group,
        config,
        store,
        layout=Layout.ROWS,
        durability=Durability.SYNC,
        runs=runs,
        recovered=recovered,
        events=events,
        clock=REAL.clock,
    )


@asynccontextmanager
async def logging_to_memory(
    *groups: InstrumentGroup,
    folder: Path | None = None,
    position: JournalPosition | None = None,
    history: Array | None = None,
    **sections: dict[str, float],
) -> AsyncIterator[Logger]:
    """Pipelines that commit into memory until the end of the block; sections change the configuration.

    folder: of the dead letters. history: ledger rows from before.
    """
    config = configured(**sections)
    own = Path(tempfile.mkdtemp(prefix="triggerlog-test-"))
    folder = folder or own
    store, events, runs = MemoryStore({group.name: group for group in groups}), Events(), Runs()
    for kept in store._groups.values():
        kept.positions[Stream.JOURNAL] = position or JournalPosition(sequence=0)
    pipelines = {
        group.name: pipeline_of(
            group, config, store, runs, events, recovered=nothing_but(group, history, position, folder)
        )
        for group in groups
    }
    intakes = {group.name: Intake(group, clock=REAL.clock, rng=REAL.rng, events=events) for group in groups}
    announced = AnnouncedRuns(own, REAL, events)
    for name, intake in intakes.items():
        await intake.catch_up(pipelines[name], announced)
    logger = Logger(pipelines=pipelines, intakes=intakes, store=store, events=events, announced=announced)
    running = asyncio.create_task(logger.run())
    try:
        yield logger
    finally:
        store.serving.set()
        store.fail_with(None)
        await logger.drain()
        await running
        shutil.rmtree(own)


@asynccontextmanager
async def journaling(
    store: MemoryStore,
    group: InstrumentGroup,
    folder: Path,
    risk_ms: float = 0,
    **sections: dict[str, float],
) -> AsyncIterator[Pipeline]:
    """One group of `journaling_each`."""
    async with journaling_each(store, [group], folder, risk_ms, **sections) as pipelines:
        yield pipelines[group.name]


@asynccontextmanager
async def journaling_each(
    store: MemoryStore,
    groups: Sequence[InstrumentGroup],
    folder: Path,
    risk_ms: float = 0,
    **sections: dict[str, float],
) -> AsyncIterator[dict[str, Pipeline]]:
    """Pipelines with journals, recovered as the service does it; at the end of the block they are killed.

    risk_ms: how long the store may lose again what it acknowledged.
    """
    config = configured(**sections)
    events = Events()
    recovered = {
        group.name: await recover_group(
            await ask_store(store, group, config),
            group,
            config,
            folder,
            events,
            outside=REAL,
            durability=Durability.ASYNC if risk_ms else Durability.SYNC,
        )
        for group in groups
    }
    runs = runs_of(recovered.values())
    pipelines = {
        group.name: pipeline_of(group, config, store, runs, events, recovered=recovered[group.name]) for group in groups
    }
    for name, pipeline in pipelines.items():
        pipeline.note_risk(risk_ms)
        if recovered[name].again:
            pipeline.take_again(recovered[name].again)
    running = [asyncio.create_task(pipeline.run()) for pipeline in pipelines.values()]
    try:
        yield pipelines
    finally:
        for pipeline in pipelines.values():
            pipeline._timer.disarm()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for pipeline in pipelines.values():
            await pipeline.close(0)


async def eventually(condition, what: str = "", timeout_s: float = 60) -> None:
    """Wait until something holds that no event tells."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
