"""One life of a daemon: the real pipeline and TCP source, put together as `daemon.service` does it."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import daemon.core.monitoring.events as events_module
import daemon.pipeline.announcements as announcements_module
import daemon.pipeline.gather as gather_module
import daemon.sources.limits.refusals as refusals_module
import daemon.web.rates as backoff_module
from backends.base import OtherJournal, StoreError, StoreUnavailable
from backends.ending import done_before
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.assembly import Joined
from daemon.pipeline.assembly.sessions import ALL
from daemon.pipeline.closed_blocks import Key, readings_of
from daemon.pipeline.dead_letters import DeadLetters, Letter, folder_of
from daemon.pipeline.files import Amount
from daemon.pipeline.following import Following
from daemon.pipeline.intake import Intake, open_intake
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import InStore, ask_store, recover_group, runs_of
from daemon.sources.tcp.source import TcpSource
from schemas.batch import ClosedBlock, Durability, JournalPosition, Layout
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

CLOCKED = (events_module, refusals_module)
"""Modules that still ask `time` themselves."""


class VirtualTime:
    """What these modules find in place of `time`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        return self._loop.node_utc_ns

    def time(self) -> float:
        return self._loop.node_utc_ns / 1e9

    def monotonic_ns(self) -> int:
        return self._loop.now_ns

    def monotonic(self) -> float:
        return self._loop.now_ns / 1e9


def patched(loop: VirtualLoop, rng: random.Random) -> contextlib.ExitStack:
    """The clock and the random numbers of the simulation, where production code takes those of the system."""
    stack = contextlib.ExitStack()
    for module in CLOCKED:
        stack.enter_context(mock.patch.object(module, "time", VirtualTime(loop)))
    stack.enter_context(mock.patch.object(announcements_module, "monotonic_ns", VirtualTime(loop).monotonic_ns))
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
    """A daemon from its start to its end.

    stop: set to end it in order. joined: called with a session and how many of its readings the daemon calls lost.
    announced: called when a restart was announced. began: called with how many readings it says that the database lost
    while no daemon ran. discarding: called with the dead letters that it is about to throw away. discarded: called with
    how many readings it says that it threw away.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        group: InstrumentGroup,
        client: Client,
        network: Network,
        outside: Outside,
        joined: Callable[[int, int], None],
        announced: Callable[[], None],
        began: Callable[[int], None],
        discarding: Callable[[Sequence[Letter]], None],
        discarded: Callable[[int], None],
    ) -> None:
        self._note_joined, self._note_announced, self._note_began = joined, announced, began
        self._note_discarding, self._note_discarded = discarding, discarded
        self.stop = asyncio.Event()
        self.events = Events()
        self.pipeline: Pipeline | None = None
        self.following: Following | None = None
        self._announced = AnnouncedRuns(STATE, outside, self.events)
        self._intake: Intake | None = None
        self.is_serving = False
        self._is_superseded = self._is_listening = False
        self._committing: list[asyncio.Task[None]] = []
        self._settings, self._group, self._client, self._network = settings, group, client, network
        self._outside = outside
        self._config = config_of(settings)

    async def serve(self) -> None:
        """Start up, serve until `stop`, and shut down."""
        self._outside.disk.make_folder(STATE)
        self._outside.disk.sync_folder(STATE.parent)
        self._outside.disk.lock(STATE / "lock")
        await self._announced.load()
        after = self._announced.last_record("bpm")
        intake = self._intake = await open_intake(
            self._group, self._config, STATE, self.events, outside=self._outside, after_record=after
        )
        intake.start()
        source = TcpSource(
            self._config.sources[0],
            {"bpm": intake},
            listening=lambda make, **_: SimulatedListening(self._network, make),
        )
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch(intake))
            in_store = await self._find_store(source)
            if in_store is not None:
                await self._commit(tasks, in_store, intake, source)
            await source.stop()
            if self.pipeline is not None and self.following is not None:
                self.following.end()
                await asyncio.wait(self._committing, timeout=20.0)
                for committing in self._committing:
                    committing.cancel()
                await asyncio.gather(*self._committing, return_exceptions=True)
                await self.pipeline.close(20.0)
            await intake.end()
            await source.close()
            watching.cancel()
        if self._is_superseded:
            raise RuntimeError("the journal cannot be used: the database is at another one's position")

    async def _commit(self, tasks: asyncio.TaskGroup, in_store: InStore, intake: Intake, source: TcpSource) -> None:
        """Go on from what the last life left, and commit until `stop`."""
        durability = Durability.ASYNC if self._settings.risk_ms else Durability.SYNC
        recovered = await recover_group(
            in_store,
            self._group,
            self._config,
            STATE,
            self.events,
            outside=self._outside,
            log=intake.log,
            in_log=intake.found_readings,
        )
        self._note_began(recovered.lost)
        pipeline = self.pipeline = Pipeline(
            self._group,
            self._config,
            self._client,
            layout=Layout.ROWS,
            durability=durability,
            runs=runs_of([recovered]),
            recovered=recovered,
            events=self.events,
            clock=self._outside.clock,
            superseded=self._give_up,
            kept=intake.as_kept,
            losses=intake.losses,
        )
        self._watch_sessions(pipeline)
        self._watch_discards(pipeline)
        if recovered.was_elsewhere:
            assert intake.log is not None
            await intake.doubt(waits=not intake.log.has_deferred)
        pipeline.note_risk(self._settings.risk_ms)
        following = self.following = Following(intake, pipeline, self._announced, self._client, self._config)
        self._committing.append(tasks.create_task(following.run()))
        if await done_before(self.stop, following.caught_up.wait()) is None:
            return
        if not self._is_listening:
            await self._listen(source)
        self.is_serving = True
        await self.stop.wait()

    async def _listen(self, source: TcpSource) -> None:
        self._is_listening = True
        await source.start()

    def _watch_sessions(self, pipeline: Pipeline) -> None:
        connect = pipeline.connect

        def watched(*, session: int | None = None, **settings: Any) -> Joined:
            known = None if session is None else pipeline._assembly.sessions._idle.get(session)
            joined = connect(session=session, **settings)
            # Where nobody knows what came of its session, all is called lost that may be.
            if session is not None and joined.lost and (known is None or known.received != ALL):
                self._note_joined(session, joined.lost)
            return joined

        pipeline.connect = watched  # type: ignore[method-assign]

    def _watch_discards(self, pipeline: Pipeline) -> None:
        letters = pipeline._dead_letters
        discard, note = letters.discard, letters._index.note_discarded
        discards = 0

        def noted(key: Key) -> None:
            # A discard takes all that is there once it has its turn, also what was rejected while it waited; and as
            # soon as it begins to remove them, a daemon that dies before it has answered may have thrown them away.
            nonlocal discards
            if letters.discards > discards:
                discards = letters.discards
                self._note_discarding(letters.pending)
            note(key)

        async def discarded() -> Amount:
            self._note_discarding(())  # there may be none
            amount = await discard()
            self._note_discarded(amount.readings)
            return amount

        letters.discard, letters._index.note_discarded = discarded, noted  # type: ignore[method-assign]

    @property
    def lost_commits(self) -> int | None:
        """How many readings that it committed it calls lost with the database; None where it has not noticed any."""
        if self.pipeline is None or self.following is None or not self.following.begins_again:
            return None
        return self.pipeline.lost.readings

    def _give_up(self, error: OtherJournal) -> None:
        self._is_superseded = True
        self.stop.set()

    async def _find_store(self, source: TcpSource) -> InStore | None:
        while not self.stop.is_set():
            try:
                await self._client.open()
                return await ask_store(self._client, self._group, self._config)
            except StoreUnavailable:
                if not self._is_listening:
                    await self._listen(source)
                await asyncio.sleep(0.2)
        return None

    async def _watch(self, intake: Intake) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            intake.look()
            intake.parts()
            if self.pipeline is not None:
                self.pipeline.look()
                self.pipeline.parts()

    async def retry(self) -> None:
        """Offer the dead letters again, as an operator does."""
        if self.pipeline is not None and self.is_serving:
            try:
                await self.pipeline.letters.retry()
            except (StoreError, OSError):
                return

    async def discard(self) -> None:
        """Throw the dead letters away, as an operator does, who reads them first; more is rejected meanwhile."""
        if self.pipeline is not None and self.is_serving:
            letters = self.pipeline._dead_letters
            try:
                await letters.read_all(letters.pending)
                await self.pipeline.letters.discard()
            except OSError:
                return

    async def announce(self, epoch: int) -> None:
        """Announce a restart, as the API does; an epoch that is over is refused there."""
        if self._intake is None or (self.pipeline is not None and self.pipeline.ended(epoch) is not None):
            return
        try:
            await self._announced.announce(epoch, {"bpm": self._intake})
        except OSError:
            return
        self._note_announced()

    @property
    def waits_for_nothing(self) -> bool:
        """Tell whether all it has is in the database, open triggers among it."""
        intake, pipeline = self._intake, self.pipeline
        if intake is None or intake.pipeline is None or pipeline is None or not self.is_serving:
            return False
        return not pipeline.waiting.blocks and not pipeline.figures().open


def marks_in(block: ClosedBlock) -> list[int]:
    """The marks of all readings of a block."""
    return [int(mark) for mark in readings_of(block)["mark"]]


def contents_of(
    letters: Sequence[Letter], group: InstrumentGroup, drive: Drive, loop: VirtualLoop
) -> list[ClosedBlock]:
    """What dead letters on a drive hold, read by nobody who could die of it, or fail."""
    reader = DeadLetters(folder_of(STATE, group.name), group, _reader_of(drive, loop))
    return [reader.read(letter) for letter in letters]


def _reader_of(drive: Drive, loop: VirtualLoop) -> Outside:
    return outside_of(loop, drive, Life("reader"), random.Random(1))


def dead_letters_on(group: InstrumentGroup, drive: Drive, loop: VirtualLoop, retried: JournalPosition) -> Counter[int]:
    """Count how often each reading is among the dead letters of a drive.

    retried: up to where the database has those that were retried. A daemon that starts is told so, too: on a full disk
    it may be noted nowhere else.
    """
    letters = DeadLetters(folder_of(STATE, group.name), group, _reader_of(drive, loop))
    letters.open()
    letters.compare(retried)
    found: Counter[int] = Counter()
    for letter in letters.pending:
        found.update(marks_in(letters.read(letter)))
    return found
