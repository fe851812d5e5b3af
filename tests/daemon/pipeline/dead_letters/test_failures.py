"""Dead letters where the disk fails, in the middle of anything: each is there once, and none is lost."""

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest

from backends.base import BatchRejected
from backends.memory.store import MemoryStore
from daemon.pipeline.closed_blocks import ASIDE, aside_parts, split
from daemon.pipeline.dead_letters import DeadLetters, Reason, Retrying
from daemon.pipeline.files import Amount
from schemas.batch import Aside, Batch, ClosedBlock, JournalPosition, Stream
from schemas.states import AsideReason
from tests.daemon.pipeline.dead_letters.test_folder import (
    GROUP,
    REASON,
    block_of,
    id_of,
    kept,
    late_of,
    opened,
    take,
)
from tests.support.batches import group_of
from tests.support.disks import REAL, FaultyDisk, faulty

BAD = OSError(5, "input/output error")


def on(disk: FaultyDisk, folder: Path, **more: int) -> DeadLetters:
    letters = DeadLetters(folder / "bpm", GROUP, faulty(disk), **more)
    assert letters.open() == []
    return letters


async def keep(letters: DeadLetters, number: int, block: ClosedBlock) -> None:
    await letters.keep(letters.address([(part, REASON) for part in split(block)], number))


def keys(letters: DeadLetters) -> list[int]:
    return [letter.key[1] for letter in letters.pending]


async def test_a_letter_that_could_not_be_kept_comes_above_what_was_retried_meanwhile(tmp_path: Path) -> None:
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 2))
    addressed = letters.address([(block_of(9, 1), REASON)], 2)
    disk.failing["sync"] = BAD
    with pytest.raises(OSError, match="input/output"):
        await letters.keep(addressed)
    disk.failing.clear()
    # A retry goes on meanwhile: the first letter is rejected again, and makes way for the second.
    await letters.move(letters.pending[:1])
    await take(letters, letters.pending[:1])
    last = letters.pending[-1]
    await take(letters, [last])
    retried = JournalPosition(sequence=last.serial, journal=letters.id)
    await letters.keep(addressed)
    assert keys(letters) == [9]
    assert keys(opened(tmp_path, retried=retried)) == [9]


@pytest.mark.parametrize("operation", ["append", "sync", "sync_folder", "create"])
async def test_a_failed_write_leaves_no_copy_that_comes_back(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 2))
    letters.close()
    for fresh in (False, True):
        addressed = letters.address([(block_of(5 + fresh, 1), REASON)], 2)
        if fresh:
            letters.close()
        disk.failing[operation] = BAD
        if operation != "append" or fresh:
            letters.close()
        with pytest.raises(OSError, match="input/output"):
            await letters.keep(addressed)
        disk.failing.clear()
        await letters.keep(addressed)
    assert letters.amount == Amount(blocks=4, triggers=4, readings=48)
    assert keys(letters) == [1, 2, 5, 6]
    again = opened(tmp_path)
    assert (keys(again), again.amount) == ([1, 2, 5, 6], letters.amount)
    await again.discard()
    assert opened(tmp_path).amount == Amount()


async def test_a_segment_that_cannot_be_removed_does_not_end_the_committer(tmp_path: Path) -> None:
    """It goes behind a later commit."""
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 1))
    await take(letters, letters.pending)
    disk.failing["remove"] = BAD
    letters.passed(1)
    assert disk.calls["remove"] == 1
    disk.failing.clear()
    letters.passed(2)
    assert list((tmp_path / "bpm").glob("*.dead")) == []


async def test_a_failed_move_leaves_no_copy_of_what_is_committed_then(tmp_path: Path) -> None:
    disk, store = FaultyDisk(), MemoryStore({GROUP.name: GROUP})
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 3))
    disk.failing["sync"] = BAD
    with pytest.raises(OSError, match="input/output"):
        await letters.move(letters.pending[:2])
    # The copies are whole, and with higher serials: they would count at the next start.
    disk.failing = {"replace": BAD}
    retrying = Retrying(store, GROUP, letters)
    with pytest.raises(OSError, match="input/output"):
        await retrying.round()
    assert await store.position(GROUP.name, Stream.DEAD_LETTERS) is None
    disk.failing.clear()
    outcome = await retrying.round()
    assert (outcome.committed, outcome.rejected) == (3, 0)
    assert letters.amount == Amount()
    found = await store.position(GROUP.name, Stream.DEAD_LETTERS)
    assert found is not None
    assert found.journal == letters.id
    assert opened(tmp_path, retried=found).amount == Amount()


async def test_a_mark_that_is_empty_or_torn_is_only_a_hint(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 3)))
    first = letters.pending[0]
    await take(letters, [first])
    mark = tmp_path / "bpm" / "retried"
    assert keys(opened(tmp_path)) == [2, 3]
    for text in ("", "\0\0\0", "nonsense"):
        mark.write_text(text)
        assert keys(opened(tmp_path, retried=JournalPosition(sequence=first.serial, journal=letters.id))) == [2, 3]
        assert keys(opened(tmp_path)) == [1, 2, 3]


async def test_the_mark_is_on_the_disk_before_it_is_believed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 1))
    replaced: list[str] = []
    disk.before = lambda operation, path: replaced.append(path.name) if operation == "replace" else None
    await take(letters, letters.pending)
    assert replaced == ["acknowledged", "retried"]


async def test_who_looks_only_writes_nothing(tmp_path: Path) -> None:
    await kept(tmp_path, (1, block_of(1, 2)))
    disk = FaultyDisk()
    disk.failing = dict.fromkeys(("create", "replace", "remove", "sync_folder"), BAD)
    letters = DeadLetters(tmp_path / "bpm", GROUP, faulty(disk))
    assert letters.look() == []
    assert len(await letters.read_all(letters.pending)) == 2


async def test_a_position_of_another_folder_says_nothing_of_this_one(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 2)))
    last = letters.pending[-1].serial
    for other in (0, id_of(tmp_path) + 1):
        assert keys(opened(tmp_path, retried=JournalPosition(sequence=last, journal=other))) == [1, 2]
    assert keys(opened(tmp_path, retried=JournalPosition(sequence=last, journal=id_of(tmp_path)))) == []


async def test_the_account_goes_on_in_a_new_folder(tmp_path: Path) -> None:
    store = MemoryStore({GROUP.name: GROUP})
    for number in (1, 2):
        letters = await kept(tmp_path / str(number), (1, block_of(10 * number, 2)))
        for _ in range(1, number):
            await letters.move(letters.pending)
        await Retrying(store, GROUP, letters).round()
    found = await store.position(GROUP.name, Stream.DEAD_LETTERS)
    assert found is not None
    assert (found.journal, found.triggers, found.readings) == (letters.id, 4, 48)


async def test_the_block_of_another_journal_is_another_block(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "bpm", GROUP, REAL)
    letters.open(journal=7)
    await keep(letters, 5, block_of(1, 1))
    assert letters.of_block(5) == {(1, 1)}
    other = DeadLetters(tmp_path / "bpm", GROUP, REAL)
    other.open(journal=8)
    assert other.of_block(5) == set()
    assert not other.concerns(5, block_of(1, 1))
    assert other.concerns(6, late_of(block_of(1, 1), 0))


async def test_no_serial_comes_again_in_a_folder_that_was_emptied(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 2)))
    last = letters.pending[-1].serial
    await take(letters, letters.pending)
    letters.passed(1)
    (tmp_path / "bpm" / "retried").unlink()
    assert list((tmp_path / "bpm").glob("*.dead")) == []
    again = opened(tmp_path)
    await keep(again, 2, block_of(3, 1))
    assert again.pending[0].serial > last


class WhileOthersCome(MemoryStore):
    """Rejects everything, and each time another letter is kept meanwhile."""

    letters: DeadLetters
    number = 100

    async def commit(self, batch: Batch) -> None:
        self.number += 1
        await keep(self.letters, self.number, block_of(self.number, 1))
        raise BatchRejected("nothing is welcome")


async def test_a_retry_counts_what_it_offered_and_nothing_that_came_meanwhile(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 4)))
    ((part, _),) = aside_parts(with_aside(block_of(50, 1), AsideReason.AHEAD))
    await letters.keep(letters.address([(part, REASON)], 2))
    store = WhileOthersCome({GROUP.name: GROUP})
    store.letters = letters
    outcome = await Retrying(store, GROUP, letters).round()
    assert len(keys(letters)) > 5
    assert (outcome.letters, outcome.rejected, outcome.reasons) == (4, 4, {"nothing is welcome": 4})
    assert outcome.summary == (
        "0 committed (0 readings), 4 rejected again, 1 set aside that no database takes; 4 x nothing is welcome"
    )


async def test_discarding_waits_for_a_retry(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 3)))
    store = MemoryStore({GROUP.name: GROUP})
    retrying = Retrying(store, GROUP, letters)
    store.serving.clear()
    retry = asyncio.create_task(retrying.round())
    await asyncio.sleep(0.01)
    discard = asyncio.create_task(retrying.discard())
    await asyncio.sleep(0.01)
    store.serving.set()
    assert (await retry).committed == 3
    assert await discard == Amount()


@pytest.mark.parametrize("then", ["nothing", "a round of retrying", "another letter"])
async def test_a_discard_that_failed_after_it_was_written_discards_nothing_later(tmp_path: Path, then: str) -> None:
    """The file has its new name, and whether the disk keeps that is not known: the order is answered with an error."""
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 4))

    def fail(operation: str, path: Path) -> None:
        is_second = operation == "replace" and disk.calls["replace"] > before
        if operation == "sync_folder" or (is_second and then != "nothing"):
            raise BAD

    before = disk.calls["replace"]
    disk.before = fail
    with pytest.raises(OSError, match="input/output"):
        await letters.discard()
    assert keys(letters) == [1, 2, 3, 4]
    disk.before = lambda operation, path: None
    expected = [1, 2, 3, 4]
    if then == "a round of retrying":
        await letters.note()
    elif then == "another letter":
        await keep(letters, 2, block_of(9, 1))
        expected.append(9)
    assert keys(on(FaultyDisk(), tmp_path)) == expected


# --- what assembly set aside --------------------------------------------------------------------------------------


def with_aside(block: ClosedBlock, *reasons: AsideReason) -> ClosedBlock:
    readings = block_of(100, len(reasons)).readings[:, 0].copy()
    aside = Aside(
        readings=readings,
        run=np.arange(len(reasons), dtype=np.int32),
        reason=np.array([int(reason) for reason in reasons], np.uint8),
    )
    return ClosedBlock(**{**block.parts, "aside": aside})


async def test_what_was_set_aside_is_kept_by_reason_and_no_database_gets_it(tmp_path: Path) -> None:
    block = with_aside(block_of(1, 1), AsideReason.AHEAD, AsideReason.OLDER, AsideReason.AHEAD)
    letters = await kept(tmp_path)
    await letters.keep(letters.address([(part, Reason(reason.name)) for part, reason in aside_parts(block)], 4))
    await keep(letters, 5, block_of(7, 1))
    assert letters.amount == Amount(blocks=3, triggers=1, readings=3 + 12)
    assert letters.aside_readings == 3
    assert letters.of_block(4) == {(ASIDE, AsideReason.AHEAD), (ASIDE, AsideReason.OLDER)}
    assert not letters.has((ASIDE, AsideReason.AHEAD))
    # They hold up nothing that comes after them.
    assert not letters.concerns(4, block)
    store = MemoryStore({GROUP.name: GROUP})
    outcome = await Retrying(store, GROUP, letters).round()
    assert (outcome.committed, outcome.readings, outcome.rejected) == (1, 12, 0)
    for found in (letters, opened(tmp_path)):
        assert [letter.is_aside for letter in found.pending] == [True, True]
        assert (found.aside_readings, found.aside_since_ns) == (3, found.pending[0].kept_ns)
        older, ahead = (found.read(letter) for letter in found.pending)
        assert older.aside is not None
        assert ahead.aside is not None
        assert (older.aside.run.tolist(), ahead.aside.run.tolist()) == ([1], [0, 2])
        assert ahead.aside.readings["trigger"].tolist() == [100, 102]
        assert found.pending[1].reason == "AHEAD"
    assert (await letters.discard()).readings == 3
    assert (letters.aside_readings, letters.aside_since_ns) == (0, None)
    assert opened(tmp_path).pending == []


async def test_the_room_is_what_is_left_of_the_quota(tmp_path: Path) -> None:
    letters = on(FaultyDisk(), tmp_path, quota_bytes=20_000)
    assert letters.room == 20_000
    await keep(letters, 1, block_of(1, 3))
    (path,) = (tmp_path / "bpm").glob("*.dead")
    assert letters.room == 20_000 - path.stat().st_size
    again = on(FaultyDisk(), tmp_path, quota_bytes=100)
    assert again.room == 100 - path.stat().st_size < 0
    other = DeadLetters(tmp_path / "bpm", group_of(dtypes=("float32",)), REAL, quota_bytes=20_000)
    other.open()
    assert other.room == letters.room
    await letters.discard()
    # Once the block that they were part of cannot come again.
    assert letters.room < 20_000
    letters.passed(1)
    assert letters.room == 20_000


async def test_what_was_retried_from_a_copy_of_the_folder_says_nothing_of_this_one(tmp_path: Path) -> None:
    """After a start both give out the same serials, each to letters of its own."""
    store, (here, copied) = MemoryStore({GROUP.name: GROUP}), (tmp_path / name for name in ("here", "copied"))
    await kept(here, (1, block_of(1, 2)))
    shutil.copytree(here, copied)
    letters = opened(here)
    await keep(letters, 2, block_of(3, 1))
    others = opened(copied)
    await keep(others, 2, block_of(4, 1))
    assert others.pending[-1].serial == letters.pending[-1].serial
    await Retrying(store, GROUP, others).round()
    retried = await store.position(GROUP.name, Stream.DEAD_LETTERS)
    assert retried is not None
    assert keys(opened(here, retried=retried)) == [1, 2, 3]
    again = opened(copied, retried=retried)
    assert (keys(again), again.id != others.id) == ([], True)


class Meanwhile(MemoryStore):
    """Rejects trigger 1; the committer keeps a letter while the second is rehearsed, and one when it is committed."""

    letters: DeadLetters

    def _refuse(self, batch: Batch) -> None:
        if 1 in batch.ledger["trigger"]:
            raise BatchRejected("trigger 1 is not welcome")

    async def rehearse(self, batch: Batch) -> None:
        self._refuse(batch)
        if 2 in batch.ledger["trigger"]:
            await keep(self.letters, 3, block_of(3, 1))

    async def commit(self, batch: Batch) -> None:
        self._refuse(batch)
        await super().commit(batch)
        if 2 in batch.ledger["trigger"]:
            await keep(self.letters, 4, block_of(4, 1))


async def test_no_letter_is_passed_over_that_made_way_between_two_that_came_during_a_retry(tmp_path: Path) -> None:
    store = Meanwhile({"bpm": GROUP})
    store.letters = letters = on(FaultyDisk(), tmp_path)
    await keep(letters, 1, block_of(1, 2))
    outcome = await Retrying(store, GROUP, letters).round()
    assert (outcome.committed, outcome.rejected) == (3, 1)
    assert keys(letters) == [1]
    # The next process believes what the database says of its position.
    assert keys(opened(tmp_path, retried=await store.position("bpm", Stream.DEAD_LETTERS))) == [1]
