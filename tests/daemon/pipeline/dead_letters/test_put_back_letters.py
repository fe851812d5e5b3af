"""Dead letters that a database had taken, and lost when it was put back: each is offered again, or counted, once."""

import asyncio
import contextlib
import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from backends.base import StoreUnavailable
from backends.memory.store import MemoryStore
from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed
from daemon.pipeline.dead_letters import DeadLetters, Retrying, folder_of
from daemon.pipeline.dead_letters.left import pending_readings
from daemon.pipeline.dead_letters.retrying import Outcome
from daemon.pipeline.files.acknowledged import read_acknowledged
from daemon.pipeline.recovery import ask_store, recover_group
from daemon.tools.dead_letters import offline
from schemas.batch import Batch, Stream
from schemas.readings import InstrumentGroup
from tests.daemon.pipeline.dead_letters.test_failures import BAD, keep, keys, on
from tests.daemon.pipeline.dead_letters.test_folder import GROUP, REASON, block_of
from tests.daemon.pipeline.recovery.test_put_back import GROUP as LOGGED
from tests.daemon.pipeline.recovery.test_put_back import (
    Refusing,
    commit,
    lost,
    retried_and_older,
    triggers_in,
)
from tests.support.disks import REAL, FaultyDisk, faulty
from tests.support.one_group import write_one_group
from tests.support.pipelines import configured, eventually, journaling
from tests.support.readings import whole


class Killed(BaseException):
    """The process ends here."""


KILL, FULL = Killed(), OSError(28, "no space left on device")
NO_JOURNAL: dict[str, float] = {"max_mib": 0}

either_end = pytest.mark.parametrize("error", [KILL, FULL], ids=["kill", "full disk"])
either_file = pytest.mark.parametrize("name", ["acknowledged", "retried"])
either_time = pytest.mark.parametrize("is_running", [False, True], ids=["start", "retry"])
there_or_gone = pytest.mark.parametrize("is_there", [True, False], ids=["letters there", "letters gone"])


def end_at(disk: FaultyDisk, error: BaseException | None, *names: str) -> None:
    """Let the next writing of one of these files fail; with None, none."""

    def before(operation: str, path: Path) -> None:
        if error is not None and operation == "replace" and path.name in names:
            raise error

    disk.before = before


def ends() -> Any:
    return pytest.raises((Killed, OSError, CommandFailed))


async def start(
    store: MemoryStore, folder: Path, disk: FaultyDisk | None = None, group: InstrumentGroup = GROUP
) -> DeadLetters:
    """The dead letters as the daemon opens them."""
    config = configured(journal=NO_JOURNAL)
    in_store = await ask_store(store, group, config)
    found = await recover_group(in_store, group, config, folder, Events(), outside=faulty(disk), log=None)
    assert found.lost == found.dead_letters.lost
    return found.dead_letters


async def four_letters(letters: DeadLetters, store: Refusing, *, is_there: bool) -> Any:
    """Keep triggers 1 to 4, and for the segment to stay 9, which the database rejects; what that has before."""
    await keep(letters, 1, block_of(1, 4))
    if is_there:
        await keep(letters, 2, block_of(9, 1))
    store.bad = frozenset({9})
    return copy.deepcopy(store._groups["bpm"])


async def with_four_letters(folder: Path, *, is_there: bool) -> tuple[FaultyDisk, Refusing, DeadLetters, Retrying, Any]:
    """A disk, a database, the dead letters on the one that the other may take, who offers them, and what it had."""
    disk, store = FaultyDisk(), Refusing({"bpm": GROUP})
    letters = on(disk, folder)
    older = await four_letters(letters, store, is_there=is_there)
    return disk, store, letters, Retrying(store, GROUP, letters), older


def offered(letters: DeadLetters) -> int:
    """How many readings of the four letters are pending."""
    return sum(letter.readings for letter in letters.to_retry if letter.key != (1, 9))


def four(*, is_there: bool) -> tuple[int, int]:
    """What of the four letters is offered, and what is counted as lost, once the database has none of them."""
    return (4 * GROUP.size, 0) if is_there else (0, 4 * GROUP.size)


def goes_on(error: BaseException, *, is_running: bool) -> bool:
    """Whether an error ends nothing: a full disk keeps no daemon from starting."""
    return error is FULL and not is_running


def segments_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("**/*.dead"))


# --- one of the two files is not written -------------------------------------------------------------------------


@either_end
@either_file
@either_time
@there_or_gone
async def test_a_failed_write_does_not_hide_that_the_database_was_put_back(
    tmp_path: Path, error: BaseException, name: str, is_running: bool, is_there: bool
) -> None:
    """The database was put back, and writing one of the two files that say so fails."""
    disk, store, letters, retrying, older = await with_four_letters(tmp_path / "dead-letters", is_there=is_there)
    assert (await retrying.round()).committed == 4
    letters.passed(1)
    assert bool(segments_in(tmp_path)) == is_there
    store._groups["bpm"] = older
    end_at(disk, error, name)
    with contextlib.nullcontext() if goes_on(error, is_running=is_running) else ends():
        await (retrying.round() if is_running else start(store, tmp_path, disk))
    end_at(disk, None)
    if is_running and error is FULL:
        told = retrying.outcome.lost  # the round that failed tells of it
        outcome = await retrying.round()
        assert (outcome.readings, told + outcome.lost) == four(is_there=is_there)
        assert letters.lost == told + outcome.lost
    else:
        letters = await start(store, tmp_path)
        assert (offered(letters), letters.lost) == four(is_there=is_there)
        again = await start(store, tmp_path)
        assert (offered(again), again.lost) == (four(is_there=is_there)[0], 0)
        await Retrying(store, GROUP, again).round()
    assert triggers_in(store) == ([1, 2, 3, 4] if is_there else [])
    again = await start(store, tmp_path)
    assert (offered(again), again.lost) == (0, 0)


@either_end
@either_file
@either_time
@there_or_gone
async def test_a_failed_write_does_not_hide_what_the_database_took(
    tmp_path: Path, error: BaseException, name: str, is_running: bool, is_there: bool
) -> None:
    """The database has the letters, and writing one of the two files that say so fails; it is put back later."""
    disk, store, letters, retrying, older = await with_four_letters(tmp_path / "dead-letters", is_there=is_there)
    end_at(disk, error, name if is_running else "acknowledged")
    with ends():
        await retrying.round()
    if not is_running:
        end_at(disk, error, name)
        with contextlib.nullcontext() if goes_on(error, is_running=False) else ends():
            await start(store, tmp_path, disk)
    end_at(disk, None)
    if is_running and error is FULL:
        await retrying.round()
    letters = await start(store, tmp_path)
    assert sorted(triggers_in(store) + keys(letters)) == [1, 2, 3, 4, *([9] if is_there else [])]
    assert letters.lost == 0
    await Retrying(store, GROUP, letters).round()
    assert triggers_in(store) == [1, 2, 3, 4]
    letters.passed(1)
    assert bool(segments_in(tmp_path)) == is_there
    store._groups["bpm"] = older
    letters = await start(store, tmp_path)
    assert (offered(letters), letters.lost) == four(is_there=is_there)


@either_end
async def test_a_note_that_was_missed_is_made_good_by_the_next_retry(tmp_path: Path, error: BaseException) -> None:
    """The database has all letters, of which nothing is noted; the next retry has nothing to offer."""
    disk, store, letters, retrying, older = await with_four_letters(tmp_path, is_there=False)
    end_at(disk, error, "acknowledged", "retried")
    with ends():
        await retrying.round()
    end_at(disk, None)
    if error is KILL:
        letters = DeadLetters(tmp_path / "bpm", GROUP, faulty(disk))
        letters.open(retried=await store.position("bpm", Stream.DEAD_LETTERS))
        retrying = Retrying(store, GROUP, letters)
    outcome = await retrying.round()
    assert (outcome.committed, outcome.lost, keys(letters)) == (0, 0, [])
    assert read_acknowledged(tmp_path / "bpm", REAL.disk).readings == 4 * GROUP.size
    letters.passed(1)
    assert segments_in(tmp_path) == []
    store._groups["bpm"] = older
    assert [(await retrying.round()).lost for _ in (1, 2)] == [4 * GROUP.size, 0]


@either_end
async def test_a_mark_that_was_missed_is_made_good_by_the_next_start(tmp_path: Path, error: BaseException) -> None:
    """The database has the letters, and only the note says so: a list without the database is to leave them out."""
    disk, store = FaultyDisk(), Refusing({"bpm": GROUP})
    letters = on(disk, tmp_path / "dead-letters")
    await four_letters(letters, store, is_there=True)
    end_at(disk, error, "retried")
    with ends():
        await Retrying(store, GROUP, letters).round()
    end_at(disk, None)
    pending = (await start(store, tmp_path)).amount.readings
    assert pending_readings(tmp_path / "dead-letters" / "bpm", REAL.disk) == pending


async def test_a_retry_that_is_ended_while_it_notes_a_loss_does_not_hide_it(tmp_path: Path) -> None:
    """The daemon is stopped while the note is written that the database was put back: the next start counts it."""
    disk, store, letters, retrying, older = await with_four_letters(tmp_path / "dead-letters", is_there=False)
    await retrying.round()
    letters.passed(1)
    store._groups["bpm"] = older
    loop, retry = asyncio.get_running_loop(), asyncio.create_task(retrying.round())

    def stop(operation: str, path: Path) -> None:
        if path.name == "acknowledged":
            loop.call_soon_threadsafe(retry.cancel)

    disk.before = stop
    with pytest.raises(asyncio.CancelledError):
        await retry
    await eventually(lambda: read_acknowledged(tmp_path / "dead-letters" / "bpm", REAL.disk).readings == 0)
    assert letters.lost + (await start(store, tmp_path)).lost == 4 * GROUP.size


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
        letters.passed(9)
        letters.close()

    async def start(self) -> DeadLetters:
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
    letters = await alone.start()
    assert sum(letter.readings for letter in letters.pending) + letters.lost == 12


@either_end
async def test_a_discard_that_fails_leaves_pending_what_was(
    alone: Alone, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Discarding without a daemon ends after it opened the folder, and before it wrote anything."""
    await alone.retried((1, 1, 4), (2, 9, 1))
    assert pending_readings(alone.folder, REAL.disk) == 3
    disk = FaultyDisk()
    monkeypatch.setattr(offline, "OUTSIDE", faulty(disk))
    end_at(disk, error, "discarded")
    with ends():
        await offline.discard(alone.loaded, [alone.group])
    assert pending_readings(alone.folder, REAL.disk) == 3


async def test_a_retry_without_a_daemon_tells_what_the_database_lost(alone: Alone) -> None:
    """The database was put back while no daemon ran, and the letters are gone: the command says so, once."""
    await alone.retried((1, 1, 4))
    assert segments_in(alone.folder) == []
    alone.store._groups["bpm"] = alone.older
    outcomes: list[dict[str, Outcome]] = []
    lost: list[tuple[str, int]] = []
    for _ in (1, 2):
        await offline.retry(alone.loaded, [alone.group], outcomes.append, lambda *told: lost.append(told))
    assert [each["bpm"].lost for each in outcomes] == [12, 0]
    assert lost == [("bpm", 12)]
    assert "12 readings of earlier retries lost with the database" in outcomes[0]["bpm"].summary
    assert (await alone.start()).lost == 0


async def test_a_retry_without_a_daemon_that_is_killed_has_told_what_the_database_lost(alone: Alone) -> None:
    """No later one finds it: where the database is was noted by then."""
    await alone.retried((1, 1, 4))
    letters = await alone.start()
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


@pytest.mark.parametrize("is_new", [False, True], ids=["same segment", "new segment"])
@pytest.mark.parametrize("bad", [{9}, set()], ids=["bad still", "good by now"])
async def test_a_copy_that_a_failed_write_left_does_not_come_back_with_the_database(
    tmp_path: Path, is_new: bool, bad: set[int]
) -> None:
    """Between a write that failed and the next attempt, the database is put back, and an operator retries."""
    disk, store = FaultyDisk(), Refusing({"bpm": GROUP})
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 2))
    older = copy.deepcopy(store._groups["bpm"])
    retrying = Retrying(store, GROUP, letters)
    await retrying.round()
    if is_new:
        letters.close()
    addressed = letters.address([(block_of(9, 1), REASON)], 2)
    disk.failing["sync"] = BAD
    with pytest.raises(OSError, match="input/output"):
        await letters.keep(addressed)
    disk.failing.clear()
    store._groups["bpm"] = older
    store.bad = frozenset(bad)
    outcome = await retrying.round()
    assert (outcome.committed, outcome.rejected, outcome.unreadable, keys(letters)) == (2, 0, 0, [])
    await letters.keep(addressed)
    assert keys(letters) == [9]
    store.bad = frozenset()
    outcome = await retrying.round()
    assert (outcome.committed, outcome.rejected) == (1, 0)
    assert triggers_in(store) == [1, 2, 9]
    assert keys(letters) == []


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


async def test_what_is_retried_twice_is_counted_as_retried_once(tmp_path: Path) -> None:
    """The database is put back between two retries of the same letter."""
    store = Refusing({"bpm": LOGGED})
    async with journaling(store, LOGGED, tmp_path) as pipeline:
        before = await retried_and_older(pipeline, store, all_of_it=False)
        assert pipeline.letters.readings == LOGGED.size
        store._groups["bpm"] = before
        store.bad = frozenset({5})
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.rejected) == (1, 1)
        assert pipeline.letters.readings == LOGGED.size
        figures = pipeline.figures()
        assert figures.committed.dead_readings == pipeline.letters.readings + figures.dead_letters.readings


async def test_a_loss_is_told_before_it_is_noted(tmp_path: Path) -> None:
    """A round may take minutes, and end with a kill: what is noted no start tells of again."""
    disk, store, told = FaultyDisk(), Refusing({"bpm": GROUP}), []
    letters = on(disk, tmp_path / "dead-letters")
    older = await four_letters(letters, store, is_there=False)
    retrying = Retrying(store, GROUP, letters, lost=told.append)
    await retrying.round()
    letters.passed(1)
    store._groups["bpm"] = older
    written: list[list[int]] = []
    disk.before = lambda operation, path: written.append(list(told)) if operation == "replace" else None
    await retrying.round()
    assert told == [4 * GROUP.size]
    assert written
    assert all(written)


async def test_a_discard_that_failed_throws_nothing_away_when_the_database_is_put_back(tmp_path: Path) -> None:
    disk, store, letters, retrying, older = await with_four_letters(tmp_path / "dead-letters", is_there=True)
    await retrying.round()
    end_at(disk, FULL, "discarded")
    with pytest.raises(OSError, match="no space"):
        await retrying.discard()
    end_at(disk, None)
    store._groups["bpm"], store.bad = older, frozenset()
    outcome = await retrying.round()
    assert (outcome.committed, outcome.lost, letters.lost) == (5, 0, 0)
    assert triggers_in(store) == [1, 2, 3, 4, 9]
