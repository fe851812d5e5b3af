"""One life of a daemon: the real pipeline and TCP source, put together as `daemon.service` does it."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import daemon.core.monitoring.events as events_module
import daemon.pipeline.announcements as announcements_module
import daemon.pipeline.gather as gather_module
import daemon.sources.limits.refusals as refusals_module
import daemon.web.backoff as backoff_module
from backends.base import OtherJournal, StoreUnavailable
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.pipeline.dead_letters import DeadLetters, folder_of
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import RecoveredGroup, recover_group, runs_of
from daemon.sources.tcp.source import TcpSource
from schemas.batch import Durability, Layout
from schemas.config import Config, JournalConfig
from schemas.readings import InstrumentGroup
from tests.simulation.disk import Drive
from tests.simulation.loop import Life, VirtualLoop
from tests.simulation.network import Network
from tests.simulation.outside import outside_of
from tests.simulation.plan import Settings
from tests.simulation.store import Client

PORT = 8122
LOOK_EVERY_S = 0.25
STATE = Path("/state")

CLOCKED = (announcements_module, events_module, refusals_module)
"""Modules that still ask `time` themselves."""


class VirtualTime:
    """What these modules find in place of `time`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        return self._loop.utc_ns

    def time(self) -> float:
        return self._loop.utc_ns / 1e9

    def monotonic_ns(self) -> int:
        return self._loop.now_ns

    def monotonic(self) -> float:
        return self._loop.now_ns / 1e9


def patched(loop: VirtualLoop, rng: random.Random) -> contextlib.ExitStack:
    """The clock and the random numbers of the simulation, where production code takes those of the system."""
    stack = contextlib.ExitStack()
    for module in CLOCKED:
        stack.enter_context(mock.patch.object(module, "time", VirtualTime(loop)))
    stack.enter_context(mock.patch.object(backoff_module, "random", rng))
    stack.enter_context(mock.patch.object(gather_module, "BUFFER", 2 * gather_module.READ_MOST))
    return stack


def config_of(settings: Settings) -> Config:
    """The configuration of a plan."""
    config = Config.model_validate(
        {
            "groups": [
                {"name": "bpm", "count": settings.instruments, "channels": [{"name": "mark", "dtype": "int64"}]}
            ],
            "sources": [{"kind": "tcp", "port": PORT}],
            "assembly": {"timeout_ms": settings.timeout_ms, "window": settings.window, "max_open": 16},
            "committer": {"max_waiting_mib": settings.waiting_mib, "max_batch_mib": min(8.0, settings.waiting_mib)},
        }
    )
    # Segments so small that many are used; no configuration may ask for that.
    journal = JournalConfig.model_construct(max_mib=64.0, segment_mib=settings.segment_bytes / 2**20)
    return config.model_copy(update={"journal": journal})


class SimulatedListening:
    """In place of the acceptor's sockets (`daemon.sources.tcp.acceptor.Listening`)."""

    def __init__(self, network: Network, make: Callable[[str], asyncio.BaseProtocol]) -> None:
        self._network, self._make = network, make
        self._close: Callable[[], None] | None = None

    @property
    def is_listening(self) -> bool:
        return self._close is not None

    async def listen(self, host: str, port: int) -> str:
        self._close = self._network.listen(port, self._make)
        return f"{host}:{port}"

    def close(self) -> None:
        if self._close is not None:
            self._close()
            self._close = None


class SimulatedDaemon:
    """A daemon from its start to its end. stop: set to end it in order."""

    def __init__(
        self,
        *,
        settings: Settings,
        group: InstrumentGroup,
        client: Client,
        network: Network,
        outside: Outside,
    ) -> None:
        self.stop = asyncio.Event()
        self.events = Events()
        self.pipeline: Pipeline | None = None
        self.is_serving = False
        self._is_superseded = False
        self._settings, self._group, self._client, self._network = settings, group, client, network
        self._outside = outside
        self._config = config_of(settings)

    async def serve(self) -> None:
        """Start up, serve until `stop`, and shut down."""
        self._outside.disk.make_folder(STATE)
        self._outside.disk.lock(STATE / "lock")
        recovered = await self._recover()
        if recovered is None:
            return
        pipeline = self.pipeline = Pipeline(
            self._group,
            self._config,
            self._client,
            layout=Layout.ROWS,
            durability=Durability.ASYNC if self._settings.risk_ms else Durability.SYNC,
            runs=runs_of([recovered]),
            recovered=recovered,
            events=self.events,
            clock=self._outside.clock,
            superseded=self._give_up,
        )
        pipeline.take_again(recovered.again)
        pipeline.note_risk(self._settings.risk_ms)
        source = TcpSource(
            self._config.sources[0],
            {"bpm": pipeline},
            listening=lambda make, **_: SimulatedListening(self._network, make),
        )
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(pipeline.run())
            watching = tasks.create_task(self._watch(pipeline))
            await source.start()
            self.is_serving = True
            await self.stop.wait()
            await source.stop()
            pipeline.end()
            await asyncio.wait([committing], timeout=20.0)
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
            await pipeline.close(20.0)
            await source.close()
            watching.cancel()
        if self._is_superseded:
            raise RuntimeError("the journal cannot be used: the database is at another one's position")

    def _give_up(self, error: OtherJournal) -> None:
        self._is_superseded = True
        self.stop.set()

    async def _recover(self) -> RecoveredGroup | None:
        while not self.stop.is_set():
            try:
                await self._client.open()
                return await recover_group(
                    self._client, self._group, self._config, STATE, self.events, outside=self._outside
                )
            except StoreUnavailable:
                await asyncio.sleep(0.2)
        return None

    async def _watch(self, pipeline: Pipeline) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            pipeline.look()
            pipeline.parts()

    async def retry(self) -> None:
        """Offer the dead letters again, as an operator does."""
        if self.pipeline is not None and self.is_serving:
            try:
                await self.pipeline.retry()
            except (StoreUnavailable, OSError):
                return

    @property
    def waits_for_nothing(self) -> bool:
        """Whether all it has is in the database."""
        return self.pipeline is not None and self.is_serving and not self.pipeline.waiting.blocks


def dead_marks(group: InstrumentGroup, drive: Drive, loop: VirtualLoop) -> Counter[int]:
    """How often each reading is among the dead letters of a drive."""
    letters = DeadLetters(
        folder_of(STATE, group.name), group, outside_of(loop, drive, Life("reader"), random.Random(1))
    )
    letters.open()
    found: Counter[int] = Counter()
    for letter in letters.pending:
        block = letters.read(letter)
        found.update(block.readings[block.present]["mark"].tolist())
        found.update(block.late["mark"].tolist())
        if block.aside is not None:
            found.update(block.aside.readings["mark"].tolist())
    return found
