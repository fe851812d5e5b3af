"""Dead letters that a database had taken, and lost when it was put back: each is counted, once."""

import asyncio
import contextlib
import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from backends.base import StoreUnavailable
from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed
from daemon.pipeline.dead_letters import DeadLetters, Outcome, Retrying, folder_of, pending_readings
from daemon.pipeline.files.acknowledged import read_acknowledged
from daemon.pipeline.recovery import ask_store, recover_group
from daemon.tools.dead_letters import offline
from schemas.batch import Batch, Stream
from schemas.readings import InstrumentGroup
from tests.daemon.pipeline.dead_letters.test_failures import keep, keys, on
from tests.daemon.pipeline.dead_letters.test_folder import GROUP, REASON, block_of, files_in
from tests.daemon.pipeline.recovery.test_put_back import GROUP as LOGGED
from tests.daemon.pipeline.recovery.test_put_back import (
    Refusing,
    commit,
    lost,
    triggers_in,
)
from tests.support.disks import REAL, FaultyDisk, faulty
from tests.support.memory.store import MemoryStore
from tests.support.one_group import write_one_group
from tests.support.pipelines import configured, eventually, journaling
from tests.support.readings import whole


class Killed(BaseException):
    """The process ends here."""


KILL, FULL = Killed(), OSError(28, "no space left on device")
NO_JOURNAL: dict[str, float] = {"max_mib": 0}

either_end = pytest.mark.parametrize("error", [KILL, FULL], ids=["kill", "full disk"])
either_time = pytest.mark.parametrize("is_running", [False, True], ids=["start", "retry"])


def end_at(disk: FaultyDisk, error: BaseException | None, *names: str) -> None:
    """Let writing or removing one of these files fail; with None, none."""

    def before(operation: str, path: Path) -> None:
        if error is not None and operation in ("replace", "remove") and path.name in names:
            raise error

    disk.before = before


def ends() -> Any:
    return pytest.raises((Killed, OSError, CommandFailed))


async def start(
    store: MemoryStore, folder: Path, disk: FaultyDisk | None = None, group: InstrumentGroup = GROUP
) -> tuple[DeadLetters, int]:
    """The dead letters as the daemon opens them, and what it says is lost."""
    config = configured(journal=NO_JOURNAL)
    in_store = await ask_store(store, group, config)
    found = await recover_group(in_store, group, config, folder, Events(), outside=faulty(disk), log=None)
    return found.dead_letters, found.lost


async def with_four_letters(folder: Path) -> tuple[FaultyDisk, Refusing, DeadLetters, Retrying, Any]:
    """A disk, a database, the dead letters on the one that the other may take, who offers them, and what it had."""
    disk, store = FaultyDisk(), Refusing({"bpm": GROUP})
    letters = on(disk, folder)
    await keep(letters, 1, block_of(1, 4))
    return disk, store, letters, Retrying(store, GROUP, letters), copy.deepcopy(store._groups["bpm"])


def goes_on(error: BaseException, *, is_running: bool) -> bool:
    """Whether an error ends nothing: a full disk keeps no daemon from starting."""
    return error is FULL and not is_running


# --- what is not written ------------------------------------------------------------------------------------------


@either_end
@either_time
async def test_a_failed_write_does_not_hide_that_the_database_was_put_back(
    tmp_path: Path, error: BaseException, is_running: bool
) -> None:
    """The database was put back, and writing where it is now fails."""
    disk, store, _, retrying, older = await with_four_letters(tmp_path / "dead-letters")
    assert (await retrying.round()).committed == 4
    store._groups["bpm"] = older
    end_at(disk, error, "acknowledged")
    told = 0
    with contextlib.nullcontext() if goes_on(error, is_running=is_running) else ends():
        if is_running:
            await retrying.round()
        else:
            await start(store, tmp_path, disk)
    end_at(disk, None)
    if is_running and error is FULL:
        told = retrying.outcome.lost  # the round that failed tells of it
        told += (await retrying.round()).lost
    else:
        told = (await start(store, tmp_path))[1]
    assert told == 4 * GROUP.size
    again, told = await start(store, tmp_path)
    assert (again.pending, told) == ([], 0)


@either_end
@pytest.mark.parametrize("name", ["acknowledged", "00000000000000000001.dead"])
async def test_a_failed_write_does_not_hide_what_the_database_took(
    tmp_path: Path, error: BaseException, name: str
) -> None:
    """The database has the letters, and removing them, or the note of it, fails; it is put back later."""
    disk, store, letters, retrying, older = await with_four_letters(tmp_path / "dead-letters")
    end_at(disk, error, name)
    with ends():
        await retrying.round()
    end_at(disk, None)
    letters, told = await start(store, tmp_path)
    assert (triggers_in(store), keys(letters), told) == ([1, 2, 3, 4], [], 0)
    await Retrying(store, GROUP, letters).round()
    assert (triggers_in(store), files_in(tmp_path)) == ([1, 2, 3, 4], [])
    store._groups["bpm"] = older
    letters, told = await start(store, tmp_path)
    assert (keys(letters), told) == ([], 4 * GROUP.size)


@either_end
async def test_a_note_that_was_missed_is_made_good_by_the_next_retry(tmp_path: Path, error: BaseException) -> None:
    """The database has all letters, of which nothing is noted; the next retry has nothing to offer."""
    disk, store, letters, retrying, older = await with_four_letters(tmp_path)
    end_at(disk, error, "acknowledged")
    with ends():
        await retrying.round()
    end_at(disk, None)
    if error is KILL:
        letters = on(disk, tmp_path)
        retrying = Retrying(store, GROUP, letters)
    outcome = await retrying.round()
    assert (outcome.committed, outcome.lost, keys(letters)) == (0, 0, [])
    assert read_acknowledged(tmp_path / "bpm", REAL.disk).readings == 4 * GROUP.size
    store._groups["bpm"] = older
    assert [(await retrying.round()).lost for _ in (1, 2)] == [4 * GROUP.size, 0]


async def test_a_retry_that_is_ended_while_it_notes_a_loss_does_not_hide_it(tmp_path: Path) -> None:
    """The daemon is stopped while the note is written that the database was put back: the next start counts it."""
    disk, store, _, retrying, older = await with_four_letters(tmp_path / "dead-letters")
    await retrying.round()
    store._groups["bpm"] = older
    loop, retry = asyncio.get_running_loop(), asyncio.create_task(retrying.round())

    def stop(operation: str, path: Path) -> None:
        if path.name == "acknowledged":
            loop.call_soon_threadsafe(retry.cancel)

    disk.before = stop
    with pytest.raises(asyncio.CancelledError):
        await retry
    await eventually(lambda: read_acknowledged(tmp_path / "dead-letters" / "bpm", REAL.disk).readings == 0)
    assert retrying.outcome.lost + (await start(store, tmp_path))[1] == 4 * GROUP.size


# --- where no daemon runs -----------------------------------------------------------------------------------------


class Alone:
    """A configuration, and in its state folder dead letters as a daemon left them: the database took 1 to 4, not 9."""

    def __init__(self, folder: Path) -> None:
        self.loaded = load_config(write_one_group(folder))
        self.group: InstrumentGroup = self.loaded.config.groups[0].group()
        self.store = Refusing({"bpm": self.group})
        self.folder = folder_of(self.loaded.state_dir, "bpm")
        self.older = copy.deepcopy(self.store._groups["bpm"])

    async def retried(self, *blocks: tuple[int, int, int]) -> None:
        """Keep blocks, by number, first trigger, and how many, and retry them."""
        letters = DeadLetters(self.folder, self.group, REAL)
        letters.open()
        for number, first, triggers in blocks:
            for trigger in range(first, first + triggers):
                block = block_of(trigger, 1, group=self.group)
                await letters.keep(letters.address([(block, REASON)], number))
        self.store.bad = frozenset({9})
        assert (await Retrying(self.store, self.group, letters).round()).committed == 4
        letters.close()

    async def start(self) -> tuple[DeadLetters, int]:
        return await start(self.store, self.loaded.state_dir, group=self.group)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Alone:
    found = Alone(tmp_path)
    monkeypatch.setattr(offline, "store_of", lambda loaded: found.store)
    return found


async def test_discarding_without_the_database_discards_nothing_that_it_has(alone: Alone) -> None:
    """Discarding opens the folder, and asks no database: that is no database that has nothing."""
    await alone.retried((1, 1, 4), (2, 9, 1))
    noted = read_acknowledged(alone.folder, REAL.disk)
    discarded = await offline.discard(alone.loaded, [alone.group])
    assert discarded == {"bpm": {"blocks": 1, "triggers": 1, "readings": 3}}
    assert read_acknowledged(alone.folder, REAL.disk) == noted
    # A database that is put back afterwards is seen.
    alone.store._groups["bpm"] = alone.older
    letters, told = await alone.start()
    assert (letters.pending, told) == ([], 12)


@either_end
async def test_a_discard_that_fails_leaves_pending_what_was(
    alone: Alone, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Discarding without a daemon ends after it opened the folder, and before it wrote anything."""
    await alone.retried((1, 1, 4), (2, 9, 1))
    assert pending_readings(alone.folder, REAL.disk) == 3
    disk = FaultyDisk()
    monkeypatch.setattr(offline, "OUTSIDE", faulty(disk))
    end_at(disk, error, "00000000000000000001.dead")
    with ends():
        await offline.discard(alone.loaded, [alone.group])
    assert pending_readings(alone.folder, REAL.disk) == 3


async def test_a_retry_without_a_daemon_tells_what_the_database_lost(alone: Alone) -> None:
    """The database was put back while no daemon ran, and the letters are gone: the command says so, once."""
    await alone.retried((1, 1, 4))
    assert files_in(alone.folder) == []
    alone.store._groups["bpm"] = alone.older
    outcomes: list[dict[str, Outcome]] = []
    lost: list[tuple[str, int]] = []
    for _ in (1, 2):
        await offline.retry(alone.loaded, [alone.group], outcomes.append, lambda *told: lost.append(told))
    assert [each["bpm"].lost for each in outcomes] == [12, 0]
    assert lost == [("bpm", 12)]
    assert "12 readings of earlier retries lost with the database" in outcomes[0]["bpm"].summary
    assert (await alone.start())[1] == 0


async def test_a_retry_without_a_daemon_that_is_killed_has_told_what_the_database_lost(alone: Alone) -> None:
    """No later one finds it: where the database is was noted by then."""
    await alone.retried((1, 1, 4))
    letters, _ = await alone.start()
    await letters.keep(letters.address([(block_of(9, 1, group=alone.group), REASON)], 2))
    letters.close()
    alone.store._groups["bpm"] = alone.older
    lost: list[tuple[str, int]] = []

    async def commit(batch: Batch) -> None:
        raise Killed

    alone.store.commit = commit  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await offline.retry(alone.loaded, [alone.group], lambda outcomes: None, lambda *told: lost.append(told))
    assert lost == [("bpm", 12)]


# --- no position, and rows all the same ---------------------------------------------------------------------------


async def retried_but(pipeline: Any, store: Refusing, bad: Iterable[int]) -> None:
    """Triggers 1 to 7, of which 3, 5 and 6 are rejected, and retried; these of them are rejected again."""
    store.bad = frozenset({3, 5, 6})
    await commit(pipeline, *range(1, 8))
    await eventually(lambda: pipeline.figures().dead_letters.blocks == 3)
    store.bad = frozenset(bad)
    assert (await pipeline.letters.retry()).committed == 3 - len(store.bad)
    store.bad = frozenset()


@either_time
@pytest.mark.parametrize("bad", [{6}, set()], ids=["one left", "none left"])
async def test_positions_that_an_operator_removed_are_no_database_that_was_put_back(
    tmp_path: Path, is_running: bool, bad: set[int]
) -> None:
    """The rows are there, and both positions are gone: nothing is offered again, or counted."""
    store = Refusing({"bpm": LOGGED})
    async with journaling(store, LOGGED, tmp_path) as pipeline:
        await retried_but(pipeline, store, bad)
        if is_running:
            store._groups["bpm"].positions.clear()
            outcome = await pipeline.letters.retry()
            assert (outcome.committed, outcome.rejected, outcome.lost, lost(pipeline)) == (len(bad), 0, 0, 0)
    if not is_running:
        store._groups["bpm"].positions.clear()
        async with journaling(store, LOGGED, tmp_path) as pipeline:
            assert (pipeline.figures().dead_letters.blocks, lost(pipeline)) == (len(bad), 0)
            outcome = await pipeline.letters.retry()
            assert (outcome.committed, outcome.rejected, outcome.lost, lost(pipeline)) == (len(bad), 0, 0, 0)
    assert triggers_in(store) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("bad", [{6}, set()], ids=["one left", "none left"])
async def test_nor_are_they_once_a_block_was_committed_since(tmp_path: Path, bad: set[int]) -> None:
    """Both positions were removed, and a start and a commit later the journal has one again, and the letters none."""
    store = Refusing({"bpm": LOGGED})
    async with journaling(store, LOGGED, tmp_path) as pipeline:
        await retried_but(pipeline, store, bad)
    store._groups["bpm"].positions.clear()
    async with journaling(store, LOGGED, tmp_path) as pipeline:
        await commit(pipeline, 8)
    async with journaling(store, LOGGED, tmp_path) as pipeline:
        assert (pipeline.figures().dead_letters.blocks, lost(pipeline)) == (len(bad), 0)


# --- in a process that goes on ------------------------------------------------------------------------------------


class Away(Refusing):
    """While it is away it commits no block of the journal."""

    is_away = False
    asked = 0

    async def commit(self, batch: Batch) -> None:
        self._see_good(batch)
        if self.is_away and batch.stream is Stream.JOURNAL:
            self.asked += 1
            raise StoreUnavailable("restoring")
        await super().commit(batch)


async def test_without_a_journal_a_block_under_way_keeps_to_its_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is put back while a block is repeated, of which a letter is kept: it is not kept again."""
    monkeypatch.setattr("daemon.pipeline.dead_letters.retrying.TURN_S", 0.01)
    store = Away({"bpm": LOGGED})
    quick: dict[str, float] = {"retry_first_ms": 1.0, "retry_most_ms": 4.0}
    async with journaling(store, LOGGED, tmp_path, journal=NO_JOURNAL, committer=quick) as pipeline:
        store.bad = frozenset({3})
        await commit(pipeline, 1, 2, 3)
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        older = copy.deepcopy(store._groups["bpm"])
        store.bad = frozenset()
        assert (await pipeline.letters.retry()).committed == 1
        await commit(pipeline, 4, 5)
        store.bad, store.is_away = frozenset({9}), True
        for trigger in (8, 9):
            pipeline.receive(whole(LOGGED, trigger))
        await eventually(lambda: keys(pipeline._dead_letters) == [9] and store.asked > 2)
        store._groups["bpm"] = older
        with pytest.raises(StoreUnavailable):
            await pipeline.letters.retry()
        store.is_away = False
        await eventually(lambda: not pipeline.waiting.readings)
        assert [letter.reason for letter in pipeline._dead_letters.pending] == ["value out of range"]
        store.bad = frozenset()
        assert (await pipeline.letters.retry()).committed == 1
        assert triggers_in(store) == [1, 2, 8, 9]


async def test_a_loss_is_told_before_it_is_noted(tmp_path: Path) -> None:
    """A round may take minutes, and end with a kill: what is noted no start tells of again."""
    disk, store, letters, retrying, older = await with_four_letters(tmp_path / "dead-letters")
    await retrying.round()
    store._groups["bpm"] = older
    told: list[int] = []
    retrying = Retrying(store, GROUP, letters, lost=told.append)
    written: list[list[int]] = []
    disk.before = lambda operation, path: written.append(list(told)) if operation == "replace" else None
    await retrying.round()
    assert told == [4 * GROUP.size]
    assert written
    assert all(written)


async def test_what_a_failed_discard_left_is_retried(tmp_path: Path) -> None:
    disk, store, _, retrying, _ = await with_four_letters(tmp_path / "dead-letters")
    end_at(disk, FULL, "00000000000000000001.dead")
    with pytest.raises(OSError, match="no space"):
        await retrying.discard()
    end_at(disk, None)
    outcome = await retrying.round()
    assert (outcome.committed, outcome.lost) == (4, 0)
    assert triggers_in(store) == [1, 2, 3, 4]
