"""The intake over a real folder, from a start without the database to the switch, through kills and other daemons."""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

import daemon.pipeline.assembly.sessions as assembled_sessions
import daemon.pipeline.intake.intake as intake_module
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.assembly import Joined, Origin
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.following import Following
from daemon.pipeline.intake import Intake, Subscriber, open_intake
from daemon.pipeline.log import RUN, Log, RunKind, folder_of, readings_in
from daemon.pipeline.log.format import Received
from daemon.pipeline.log.log import ELSEWHERE, ENDING
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import ask_store, recover_group, runs_of
from schemas.batch import Durability, Layout
from schemas.config import Config
from schemas.queries import WindowReadings
from schemas.readings import Array
from schemas.readings import join as joined_blocks
from schemas.wire import Ack, ProtocolError
from tests.support.disks import REAL, FaultyDisk, faulty
from tests.support.kills import copy_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import FOREVER, eventually, journaling
from tests.support.readings import make_block, make_group, whole

GROUP = make_group()
CONFIG = Config.model_validate(
    {
        "groups": [{"name": "bpm", "count": GROUP.size, "channels": [{"name": "x"}]}],
        "assembly": {"timeout_ms": 300.0},
    }
)
EPOCH = 77
FULL = OSError(errno.ENOSPC, "no space left on device")
UNKEPT = "readings that came since the start are not in the journal, and nowhere else"


def of_epoch(block: Array) -> Array:
    block["epoch"] = EPOCH
    return block


class Life:
    """A daemon's way in, and after `meet` the way on to the database."""

    def __init__(self, folder: Path, outside: Outside = REAL) -> None:
        self.folder = folder
        self.outside = outside
        self.events = Events()
        self.pipeline: Pipeline | None = None
        self.moved: dict[int, int] = {}
        self.full: list[bool] = []
        self._running: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self.announced = AnnouncedRuns(self.folder, self.outside, self.events)
        await self.announced.load()
        after = self.announced.last_record("bpm")
        self.intake = await open_intake(
            GROUP, CONFIG, self.folder, self.events, outside=self.outside, after_record=after
        )
        self.intake.start()
        self.intake.subscribe(Subscriber(moved=self.moved.update, full=self.full.append))

    async def meet(self, store: MemoryStore) -> None:
        in_store = await ask_store(store, GROUP, CONFIG)
        recovered = await recover_group(
            in_store,
            GROUP,
            CONFIG,
            self.folder,
            self.events,
            outside=REAL,
            log=self.intake.log,
            in_log=self.intake.found_readings,
        )
        self.pipeline = Pipeline(
            GROUP,
            CONFIG,
            store,
            layout=Layout.ROWS,
            durability=Durability.SYNC,
            runs=runs_of([recovered]),
            recovered=recovered,
            events=self.events,
            clock=REAL.clock,
            kept=self.intake.as_kept,
            losses=self.intake.losses,
        )
        if recovered.was_elsewhere:
            await self.intake.doubt()
        self.following = Following(self.intake, self.pipeline, self.announced, store, CONFIG)
        self._running = asyncio.create_task(self.following.run())
        await self.following.caught_up.wait()

    def look(self) -> None:
        self.intake.look()
        if self.pipeline is not None:
            self.pipeline.look()

    async def until_empty(self) -> None:
        """Until nothing of the log is on the disk, as all of it is safe elsewhere, and the store has what it gets."""

        def is_empty() -> bool:
            self.look()
            waiting = self.pipeline is not None and self.pipeline.waiting.readings
            return not waiting and not list(folder_of(self.folder, "bpm").glob(f"*{ENDING}"))

        await eventually(is_empty, "", 30)

    async def announce(self, epoch: int = 0) -> int | None:
        return (await self.announced.announce(epoch, {"bpm": self.intake}))["bpm"]

    async def end(self) -> None:
        if self.pipeline is not None and self._running is not None:
            self.pipeline._timer.disarm()
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            await self.pipeline.close(0)
        await self.intake.end()

    def join(self, ack: Ack, session: int | None = None, first: int = 0) -> Joined:
        return self.intake.connect(ack=ack, session=session, first=first)

    def send(self, column: int, first: int, block: Array) -> None:
        self.intake.receive(block.copy(), Origin.of(column, first, len(block)))

    def done(self, column: int) -> int:
        return int(self.intake.acknowledged()[0][column])

    async def acknowledged(self, column: int, upto: int) -> None:
        def is_done() -> bool:
            self.look()
            return self.done(column) >= upto

        await eventually(is_done, "", 30)
        assert self.done(column) == upto


@asynccontextmanager
async def living(folder: Path, store: MemoryStore | None = None, outside: Outside = REAL) -> AsyncIterator[Life]:
    life = Life(folder, outside)
    await life.begin()
    try:
        if store is not None:
            await life.meet(store)
        yield life
    finally:
        await life.end()


def killed(life: Life, to: Path) -> Path:
    """What kill -9 leaves at this moment."""
    return copy_of(life.folder, to)


def new_store() -> MemoryStore:
    return MemoryStore({"bpm": GROUP})


async def stored(store: MemoryStore) -> list[tuple[int, int]]:
    start, end = FOREVER
    rows = await store.ask(WindowReadings(group=GROUP, start_ns=start, end_ns=end))
    return sorted(rows[["trigger", "instrument"]].tolist())


def keys(*triggers: int) -> list[tuple[int, int]]:
    return [(trigger, instrument) for trigger in triggers for instrument in range(GROUP.size)]


def log_of(folder: Path, *records: list[tuple[int, int, RunKind, Array]]) -> None:
    """Write a log as an earlier process left it: for each record its runs."""
    log = Log(folder_of(folder, "bpm"), GROUP, REAL, max_bytes=2**30, segment_bytes=2**20)
    log.open()
    for number, record in enumerate(records, log.next):
        runs = np.array([(session, first, len(block), kind) for session, first, kind, block in record], RUN)
        readings = joined_blocks([block for *_, block in record])
        log.append([Received(number=number, received_ns=REAL.clock.now().utc_ns, runs=runs, readings=readings)])
    log.sync()
    log.close()


NOTHING = np.empty(0, GROUP.record)


async def test_a_doubt_that_cannot_be_noted_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.pipeline.intake.replay.AGAIN_S", 0.05)
    log_of(tmp_path, [(1, 0, RunKind.READINGS, whole(GROUP, 1))])
    disk, events = FaultyDisk(), Events()
    intake = await open_intake(GROUP, CONFIG, tmp_path, events, outside=faulty(disk))
    intake.start()
    try:
        disk.failing["replace"] = OSError(errno.ENOSPC, "no space left on device")
        doubting = asyncio.create_task(intake.doubt())
        await eventually(lambda: disk.calls["replace"] >= 3)
        assert not doubting.done()
        (event,) = [each for each in events.newest() if "cannot be written, so what it holds waits" in each.text]
        assert event.text.endswith("make room on the disk of the state folder, or repair it")
        disk.failing.clear()
        await asyncio.wait_for(doubting, 60)
        assert (folder_of(tmp_path, "bpm") / ELSEWHERE).exists()
    finally:
        await intake.end()


async def test_before_the_database_answers_only_received_is_acknowledged(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path) as life:
        columns = [life.join(Ack.RECEIVED, 1).column, life.join(Ack.SPOOLED, 2).column, life.join(Ack.COMMITTED).column]
        parts = [of_epoch(whole(GROUP, 1, 2))[at] for at in (slice(0, 4), slice(4, 8), slice(8, 10))]
        for column, part in zip(columns, parts, strict=True):
            life.send(column, 0, part)
        life.intake.receive(of_epoch(whole(GROUP, 3)))  # as datagrams come
        await life.acknowledged(columns[0], 4)
        await life.acknowledged(columns[1], 4)  # the earlier word for the same
        assert [life.done(column) for column in columns] == [4, 4, 0]
        await life.meet(store)
        assert life.done(life.moved[columns[0]]) == 4
        for column, part in zip(columns, parts, strict=True):
            await life.acknowledged(life.moved[column], len(part))
        assert await stored(store) == keys(1, 2, 3)
        await life.until_empty()


async def test_what_is_committed_while_the_log_goes_through_is_told_after_the_switch(tmp_path: Path) -> None:
    """A sender that had sent all of its readings was not told until another's were committed."""
    told: list[str] = []
    async with living(tmp_path) as life:
        column = life.join(Ack.COMMITTED, 1).column
        life.intake.subscribe(Subscriber(moved=lambda _: told.append("moved"), settled=lambda: told.append("settled")))
        life.send(column, 0, whole(GROUP, 1))
        await life.meet(new_store())
        assert "settled" in told[told.index("moved") :]


async def test_several_starts_without_the_database_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    store, folder = new_store(), tmp_path / "0"
    records = of_epoch(whole(GROUP, *range(1, 9)))
    for k in range(4):
        async with living(folder) as life:
            # Of what the life before took, its sender knows of the first five only.
            first = max(0, 10 * k - 5)
            joined = life.join(Ack.RECEIVED, 1, first)
            assert joined.resume == first
            life.send(joined.column, first, records[first : 10 * k + 10])
            life.intake.receive(of_epoch(whole(GROUP, 101 + k)))
            await life.acknowledged(joined.column, 10 * k + 10)
            await eventually(lambda life=life: life.intake.state.synced == life.intake._keeper.next - 1)
            folder = killed(life, tmp_path / str(k + 1))
    async with living(folder, store) as life:
        joined = life.join(Ack.RECEIVED, 1, 40)
        assert (joined.resume, joined.lost) == (40, 0)
        await life.until_empty()
    assert await stored(store) == keys(*range(1, 9), *range(101, 105))


async def test_what_lies_behind_a_gap_and_is_sent_again_is_stored_once(tmp_path: Path) -> None:
    """A power cut took 5 to 9 and left 10 to 14, which nobody had been told of: the resend counted as another reading,
    and the log was never trimmed again."""
    records, store = of_epoch(whole(GROUP, 1, 2, 3, 4)), new_store()
    log_of(
        tmp_path,
        [(1, 0, RunKind.JOINED, NOTHING)],
        [(1, 0, RunKind.READINGS, records[:5])],
        [(1, 10, RunKind.READINGS, records[10:15])],
    )
    async with living(tmp_path, store) as life:
        assert life.pipeline is not None
        joined = life.join(Ack.RECEIVED, 1, 5)
        assert (joined.resume, joined.lost) == (5, 0)
        await eventually(lambda: life.pipeline.figures().committed.triggers >= 2)
        life.send(joined.column, 5, records[5:])
        await life.acknowledged(joined.column, 20)
        await life.until_empty()
        assert life.pipeline.figures().letters_aside == 0
    assert await stored(store) == keys(1, 2, 3, 4)


async def test_a_gap_whose_sender_never_comes_back_does_not_keep_the_log(tmp_path: Path) -> None:
    records, store, nobody = of_epoch(whole(GROUP, 1, 2, 3)), new_store(), 1 << 63 | 5
    log_of(
        tmp_path,
        [(nobody, 0, RunKind.READINGS, records[:5])],
        [(nobody, 10, RunKind.READINGS, records[10:])],
        [(8, 0, RunKind.JOINED, NOTHING), (8, 5, RunKind.READINGS, records[5:6])],
    )
    async with living(tmp_path, store) as life:
        await life.until_empty()
    assert await stored(store) == [*keys(1), (2, 0), *keys(3)]


async def test_what_is_refused_behind_a_gap_is_refused_again(tmp_path: Path) -> None:
    """The daemon could not start: it looked for an instrument that there is none of."""
    store, bad = new_store(), of_epoch(make_block(GROUP, [(9, 99)]))
    log_of(tmp_path, [(5, 7, RunKind.READINGS, joined_blocks([bad, of_epoch(whole(GROUP, 1))]))])
    async with living(tmp_path, store) as life:
        await life.until_empty()
        assert life.pipeline is not None
        assert life.pipeline.figures().assembled.refused == {"unknown_instrument": 1}
    assert await stored(store) == keys(1)


@pytest.mark.parametrize("is_killed", [False, True], ids=["at once", "after another start"])
async def test_what_another_daemon_took_for_lost_is_stored(tmp_path: Path, is_killed: bool) -> None:
    """After a first commit of its own the daemon believed that its sessions were settled by what the other had."""
    store, records = new_store(), of_epoch(whole(GROUP, 1, 2, 3))
    async with living(tmp_path / "a") as life:
        column = life.join(Ack.RECEIVED, 1).column
        life.send(column, 0, records[:10])
        await life.acknowledged(column, 10)
        back = killed(life, tmp_path / "a again")
    async with living(tmp_path / "b", store) as life:
        joined = life.join(Ack.RECEIVED, 1, 10)
        assert joined.lost == 0  # nobody knows of the session
        life.send(joined.column, 10, records[10:])
        await life.acknowledged(joined.column, 15)
        await life.until_empty()
    if is_killed:
        life = Life(back)
        await life.begin()
        # Killed before anything of the log went through.
        life.intake._catching_up.put_through = lambda *_: asyncio.Event().wait()
        meeting = asyncio.create_task(life.meet(store))
        await eventually(lambda: life.pipeline is not None)
        life.pipeline.receive(of_epoch(whole(GROUP, 4)))
        await eventually(lambda: life.pipeline.figures().committed.triggers == 1)
        meeting.cancel()
        await asyncio.gather(meeting, return_exceptions=True)
        again = killed(life, tmp_path / "a once more")
        await life.end()
        back = again
    async with living(back, store) as life:
        await life.until_empty()
    assert await stored(store) == keys(*range(1, 5 if is_killed else 4))


async def test_what_a_daemon_without_a_journal_took_for_lost_is_stored(tmp_path: Path) -> None:
    """Its position names no journal, and was taken for that of a database that nobody wrote to."""
    store, records = new_store(), of_epoch(whole(GROUP, 1, 2, 3, 4))
    async with living(tmp_path / "a") as life:
        column = life.join(Ack.RECEIVED, 1).column
        life.send(column, 0, records[:10])
        await life.acknowledged(column, 10)
    async with journaling(store, GROUP, tmp_path / "b", journal={"max_mib": 0}) as logged:
        logged.send(logged.connect(session=1, first=10).column, records[10:15].copy())
        await eventually(lambda: logged.figures().committed.triggers == 1)
    async with living(tmp_path / "a", store) as life:
        life.send(life.join(Ack.RECEIVED, 1, 15).column, 15, records[15:])
        await life.until_empty()
        await eventually(lambda: not life.pipeline.waiting.blocks)
    assert await stored(store) == keys(1, 2, 3, 4)


async def test_a_sender_amid_what_is_settled_already_goes_on_behind_it(tmp_path: Path) -> None:
    """What it sent after the switch was taken once more, and its session went back."""
    store, records = new_store(), whole(GROUP, *range(1, 7))  # without an epoch nothing but numbers tells a double
    async with living(tmp_path, store) as life:
        column = life.join(Ack.COMMITTED, 1).column
        life.send(column, 0, records[:20])
        await life.acknowledged(column, 20)
    async with living(tmp_path) as life:
        joined = life.join(Ack.COMMITTED, 1)  # it was told of nothing
        assert joined.resume == 0
        life.send(joined.column, 0, records[:8])
        await life.meet(store)
        column = life.moved[joined.column]
        assert life.done(column) == 20
        life.send(column, 8, records[8:13])
        assert life.done(column) == 20
        life.send(column, 13, records[13:])
        await life.acknowledged(column, 30)
        assert life.pipeline is not None
        figures = life.pipeline.figures()
        assert (figures.assembled.duplicate, figures.assembled.aside) == (0, {})
    assert await stored(store) == keys(*range(1, 7))


async def test_a_log_with_more_sessions_than_are_remembered_goes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon could never start again."""
    monkeypatch.setattr(assembled_sessions, "MOST_SESSIONS", 3)
    store, records = new_store(), of_epoch(whole(GROUP, 1, 2))
    log_of(tmp_path, *[[(1000 + k, 0, RunKind.READINGS, records[k : k + 1])] for k in range(10)])
    async with living(tmp_path, store) as life:
        with pytest.raises(ProtocolError, match="3 sessions of this group"):
            life.join(Ack.COMMITTED, 1)
        await life.until_empty()

        def has_room() -> bool:
            life.look()
            try:
                return life.join(Ack.COMMITTED, 1).resume == 0
            except ProtocolError:
                return False

        await eventually(has_room, "", 30)
    assert await stored(store) == keys(1, 2)


async def test_before_the_database_answers_there_is_an_end_to_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MOST_SESSIONS", 3)
    store, records = new_store(), of_epoch(whole(GROUP, 1))
    async with living(tmp_path) as life:
        for k in range(3):
            column = life.join(Ack.RECEIVED, k + 1).column
            life.send(column, 0, records[k : k + 1])
            life.intake.disconnect(column)
        with pytest.raises(ProtocolError, match="3 sessions of this group wait for the database"):
            life.join(Ack.RECEIVED, 4)
        life.intake.receive(records[3:])  # who has no session takes no place
        for _ in range(2):  # and those that nobody waits for
            life.join(Ack.COMMITTED)
        with pytest.raises(ProtocolError, match="3 connections without a session of this group wait for the database"):
            life.join(Ack.COMMITTED)
        await life.meet(store)
        await life.until_empty()
    assert await stored(store) == keys(1)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_connections_without_a_session_that_come_and_go_before_the_database_lock_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr(intake_module, "MOST_SESSIONS", 8)
    monkeypatch.setattr(assembled_sessions, "MOST_SESSIONS", 8)
    store, folder = new_store(), tmp_path / "0"
    records = of_epoch(whole(GROUP, *range(1, 21)))
    async with living(folder) as life:
        staying = life.join(Ack.RECEIVED)
        for k, ack in enumerate(10 * [Ack.COMMITTED, Ack.RECEIVED, Ack.SPOOLED]):
            joined = life.join(ack)
            life.send(joined.column, joined.resume, records[3 * k : 3 * k + 3])
            if ack is Ack.RECEIVED:
                await life.acknowledged(joined.column, joined.resume + 3)
            life.intake.disconnect(joined.column)
        assert len(life.intake.stretches) <= 3
        for session in range(1, 9):
            life.join(Ack.COMMITTED, session)
        life.send(staying.column, staying.resume, records[90:])
        await life.acknowledged(staying.column, 10)
        if not is_killed:
            await life.meet(store)
            assert life.join(Ack.COMMITTED, 1).resume == 0
            await life.acknowledged(life.moved[staying.column], 10)
            await life.until_empty()
        folder = killed(life, tmp_path / "1")
    if is_killed:
        async with living(folder, store) as life:
            await life.until_empty()
    assert await stored(store) == keys(*range(1, 21))


async def test_a_connection_is_told_of_no_refusal_of_the_one_before_that_had_no_session_either(tmp_path: Path) -> None:
    records = of_epoch(whole(GROUP, 1))
    wrong = records[:3].copy()
    wrong["instrument"] = 99
    async with living(tmp_path) as life:
        before = life.join(Ack.COMMITTED)
        life.send(before.column, before.resume, wrong)
        life.intake.disconnect(before.column)
        joined = life.join(Ack.COMMITTED)
        assert joined.resume == 3
        life.send(joined.column, 3, joined_blocks([wrong[:1], records]))
        await life.meet(new_store())
        await life.acknowledged(life.moved[joined.column], 3 + 1 + GROUP.size)
        assert life.intake.acknowledged()[1][life.moved[joined.column]] == 1
        assert life.pipeline.figures().assembled.refused == {"unknown_instrument": 4}


async def test_connections_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path, store) as life:
        for trigger in range(1, 200):
            joined = life.join(Ack.RECEIVED)
            life.send(joined.column, joined.resume, of_epoch(whole(GROUP, trigger)))
            life.intake.disconnect(joined.column, ended=trigger % 2 == 0)
        await life.until_empty()

        def is_forgotten() -> bool:
            life.look()
            streams, sessions = life.intake._streams.by_session, life.pipeline._assembly.sessions
            return not (len(life.intake.stretches) or streams) and len(sessions) == 1  # that of nobody

        await eventually(is_forgotten, "", 30)
        assert not life.intake._streams.unsynced
    assert await stored(store) == keys(*range(1, 200))


async def test_a_disk_that_fails_costs_only_the_acknowledgement_of_what_is_received(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    async with living(tmp_path, store) as life:

        def failing(*_: object) -> None:
            raise OSError(5, "input/output error")

        monkeypatch.setattr(life.intake._keeper._log, "append", failing)
        received, committed = life.join(Ack.RECEIVED, 1).column, life.join(Ack.COMMITTED, 2).column
        for k in range(40):
            block = of_epoch(whole(GROUP, k + 1))
            life.send(received, 2 * k, block[:2])
            life.send(committed, 3 * k, block[2:])
        await life.acknowledged(committed, 120)
        await life.acknowledged(received, 80)  # they are committed, after all

        def is_let_go() -> bool:
            life.look()
            return not life.intake._streams.unsynced and not len(life.intake.stretches)

        await eventually(is_let_go, "", 30)
        assert life.full == []
    assert await stored(store) == keys(*range(1, 41))


@pytest.mark.parametrize("risk_ms", [0.0, 60_000.0], ids=["sync", "async"])
async def test_a_daemon_that_ended_in_order_leaves_nothing_that_the_database_lacks(
    tmp_path: Path, risk_ms: float
) -> None:
    """The log keeps what an asynchronous one may lose."""
    store = new_store()
    async with living(tmp_path, store) as life:
        life.pipeline.note_risk(risk_ms)
        column = life.join(Ack.RECEIVED, 1).column
        life.send(column, 0, of_epoch(whole(GROUP, 1)))
        await eventually(lambda: life.pipeline.figures().committed.triggers == 1)
        if risk_ms:
            await eventually(lambda: life.intake.state.synced > 1)
    folder, position = folder_of(tmp_path, "bpm"), await store.position("bpm")
    sessions = DurableState.decode(position.state).sessions
    settled = dict(zip(sessions["session"].tolist(), sessions["settled"].tolist(), strict=True))
    assert readings_in(folder, REAL.disk, settled) == 0
    assert readings_in(folder, REAL.disk) == (5 if risk_ms else 0)


# --- what is acknowledged is not refused ----------------------------------------------------------------------------


def stuck(count: int) -> Array:
    """Readings of an instrument whose counter is stuck."""
    block = of_epoch(make_block(GROUP, [(3, 1)] * count))
    block["time_ns"] += np.arange(count) * 10_000_000
    return block


@pytest.mark.parametrize("is_full", [False, True], ids=["in a second", "without room"])
async def test_what_was_acknowledged_before_the_database_answered_is_not_refused(tmp_path: Path, is_full: bool) -> None:
    """Half a minute of a stuck counter met the limit of a second when it went through."""
    async with living(tmp_path) as life:
        column = life.join(Ack.RECEIVED, 1).column
        life.send(column, 0, of_epoch(whole(GROUP, 3)))
        life.send(column, 5, stuck(3000))
        await life.acknowledged(column, 3005)
        catch_up = life.intake.catch_up

        async def without_room(pipeline: Pipeline, announced: AnnouncedRuns) -> None:
            pipeline._assembly.let_set_aside(not is_full)
            await catch_up(pipeline, announced)

        life.intake.catch_up = without_room
        await life.meet(new_store())
        await life.until_empty()
        await eventually(lambda: not life.pipeline.waiting.blocks)
        figures = life.pipeline.figures()
        assert figures.refused == {}
        assert figures.committed.readings + figures.letters_aside == 3005


def far_ahead(count: int) -> Array:
    return of_epoch(make_block(GROUP, [(10**9 + k, 1) for k in range(count)]))


async def test_strays_that_the_log_acknowledged_are_not_refused_when_they_are_let_go(tmp_path: Path) -> None:
    async with living(tmp_path, new_store()) as life:
        column = life.join(Ack.RECEIVED, 1).column
        life.send(column, 0, of_epoch(whole(GROUP, *range(20))))
        life.send(column, 100, far_ahead(2500))
        await life.acknowledged(column, 2600)
        assert life.pipeline._assembly.held == 2500
        life.intake.disconnect(column)
        life.join(Ack.COMMITTED, 1, 2600)  # whatever it asks for then
        await eventually(lambda: life.pipeline.figures().aside == {"ahead": 2500})
        assert life.pipeline.figures().refused == {}


async def test_strays_are_acknowledged_when_they_are_let_go_while_nothing_can_be_set_aside(tmp_path: Path) -> None:
    async with living(tmp_path, new_store()) as life:
        column = life.join(Ack.RECEIVED, 1).column
        life.send(column, 0, of_epoch(whole(GROUP, *range(20))))
        life.send(column, 100, far_ahead(10))
        await eventually(lambda: life.done(column) == 110)
        life.pipeline._assembly.let_set_aside(False)
        life.send(column, 110, far_ahead(10))
        await eventually(lambda: life.intake.state.synced == life.intake._keeper.next - 1)
        assert life.intake.acknowledged()[0][column] == 110
        await eventually(lambda: life.done(column) == 120)
        assert life.intake.acknowledged()[1][column] == 10
        assert life.pipeline.figures().aside == {"ahead": 10}


@asynccontextmanager
async def taking(folder: Path, disk: FaultyDisk) -> AsyncIterator[Intake]:
    intake = await open_intake(GROUP, CONFIG, folder, Events(), outside=faulty(disk))
    intake.start()
    try:
        yield intake
    finally:
        await intake.end()


def lines(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.message for record in caplog.records if words in record.message]


async def keep_one_of_three(intake: Intake, disk: FaultyDisk) -> None:
    intake.receive(whole(GROUP, 1))
    await eventually(lambda: not intake.unsynced)
    disk.failing["append"] = FULL
    intake.receive(whole(GROUP, 2, 3))


async def test_what_is_not_on_the_disk_yet_is_told_of_what_waits(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with taking(tmp_path, disk) as intake:
        await keep_one_of_three(intake, disk)
        await eventually(lambda: intake.state.problem is not None)
        assert (intake.waiting, intake.unsynced) == (3 * GROUP.size, 2 * GROUP.size)
        disk.failing.clear()
        await eventually(lambda: not intake.unsynced)
    assert readings_in(folder_of(tmp_path, "bpm"), REAL.disk) == 3 * GROUP.size


async def test_an_orderly_end_says_what_it_could_not_keep(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Datagrams that waited in memory for a full disk went without a word."""
    disk = FaultyDisk()
    async with taking(tmp_path, disk) as intake:
        await keep_one_of_three(intake, disk)
        intake.drop("backlog", 7)
        intake.note_lost(4, "datagrams")
    (line,) = lines(caplog, UNKEPT)
    assert line.startswith(f"group bpm: {2 * GROUP.size} {UNKEPT}")
    (line,) = lines(caplog, "while the database did not answer")
    assert line.endswith("7 refused (backlog), 4 lost on their way (datagrams)")


async def test_an_orderly_end_that_kept_all_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with taking(tmp_path, FaultyDisk()) as intake:
        intake.receive(whole(GROUP, 1, 2))
    assert readings_in(folder_of(tmp_path, "bpm"), REAL.disk) == 2 * GROUP.size
    assert not lines(caplog, "group bpm")


async def test_that_readings_are_refused_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with taking(tmp_path, FaultyDisk()) as intake:
        for _ in range(100):
            intake.drop("backlog", 5)
        assert intake.losses.dropped == {"backlog": 500}
        (line,) = lines(caplog, "readings are refused (backlog)")
        assert line.startswith("group bpm: ")


async def test_what_was_refused_and_lost_is_the_pipelines_from_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(tmp_path) as life:
        life.intake.drop("backlog", 7)
        life.intake.note_lost(4, "datagrams")
        life.intake.note_lost(-1, "datagrams")
        assert (life.intake.losses.dropped, life.intake.losses.lost) == ({"backlog": 7}, {"datagrams": 3})
        await life.meet(new_store())
        figures = life.pipeline.figures()
        assert (figures.dropped, figures.lost_before) == ({"backlog": 7}, {"datagrams": 3})
        life.intake.drop("backlog", 1)
        assert life.pipeline.figures().dropped == {"backlog": 8}
    assert lines(caplog, "refused") == [line for line in lines(caplog, "refused") if "are refused (backlog)" in line]
