"""Dead letters where the disk fails, in the middle of anything: each is there once, and none is lost."""

import asyncio
import shutil
from pathlib import Path

import numpy as np
import pytest

from backends.base import BatchRejected
from daemon.pipeline.closed_blocks import ASIDE, aside_parts, split
from daemon.pipeline.dead_letters import DeadLetters, Reason, Retrying
from daemon.pipeline.files import Amount
from schemas.batch import Aside, Batch, ClosedBlock, Stream
from schemas.states import AsideReason
from tests.daemon.pipeline.dead_letters.test_folder import (
    GROUP,
    REASON,
    block_of,
    kept,
    opened,
    take,
    taken,
)
from tests.support.batches import group_of
from tests.support.disks import REAL, FaultyDisk, faulty
from tests.support.memory.store import MemoryStore

BAD = OSError(5, "input/output error")


def on(disk: FaultyDisk, folder: Path, **more: int) -> DeadLetters:
    letters = DeadLetters(folder / "bpm", GROUP, faulty(disk), **more)
    assert letters.open() == []
    return letters


async def keep(letters: DeadLetters, number: int, block: ClosedBlock) -> None:
    await letters.keep(letters.address([(part, REASON) for part in split(block)], number))


def keys(letters: DeadLetters) -> list[int]:
    return [letter.key[1] for letter in letters.pending]


async def test_a_letter_that_could_not_be_kept_is_kept_behind_a_retry(tmp_path: Path) -> None:
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 2))
    addressed = letters.address([(block_of(9, 1), REASON)], 2)
    disk.failing["sync"] = BAD
    with pytest.raises(OSError, match="input/output"):
        await letters.keep(addressed)
    disk.failing.clear()
    before = letters.pending
    await take(letters, before)
    await letters.keep(addressed)
    assert keys(letters) == [9]
    assert keys(opened(tmp_path, taken(before))) == [9]


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


@pytest.mark.parametrize("operation", ["remove", "sync_folder", "replace"])
async def test_what_cannot_be_removed_now_is_removed_the_next_time(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 2))
    disk.failing[operation] = BAD
    some = letters.pending[: 1 if operation == "replace" else 2]
    with pytest.raises(OSError, match="input/output"):
        await take(letters, some)
    assert keys(letters) == [2][: 2 - len(some)]
    disk.failing.clear()
    await letters.note()
    assert keys(opened(tmp_path)) == keys(letters)
    # What is left is where the index says.
    assert len(await letters.read_all(letters.pending)) == len(letters.pending)


async def test_no_letter_is_committed_while_one_that_was_is_on_the_disk(tmp_path: Path) -> None:
    """The database tells only of those that it took last."""
    disk, store = FaultyDisk(), MemoryStore({GROUP.name: GROUP})
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 2))
    retrying = Retrying(store, GROUP, letters)
    disk.failing["remove"] = BAD
    with pytest.raises(OSError, match="input/output"):
        await retrying.round()
    before = await store.position(GROUP.name, Stream.DEAD_LETTERS)
    with pytest.raises(OSError, match="input/output"):
        await retrying.round()
    assert await store.position(GROUP.name, Stream.DEAD_LETTERS) == before
    assert opened(tmp_path, before).pending == []
    disk.failing.clear()
    await keep(letters, 2, block_of(5, 1))
    assert (await retrying.round()).committed == 1
    assert opened(tmp_path).pending == []


async def test_where_the_database_is_is_noted_after_its_letters_are_removed(tmp_path: Path) -> None:
    """A note that is ahead would count them as lost."""
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 1))
    done: list[str] = []
    disk.before = lambda operation, path: done.append(f"{operation} {path.name}")
    await take(letters, letters.pending)
    file, note = done.index("remove 00000000000000000001.dead"), done.index("replace acknowledged")
    assert file < done.index("sync_folder bpm") < note


async def test_who_looks_only_writes_nothing(tmp_path: Path) -> None:
    await kept(tmp_path, (1, block_of(1, 2)))
    disk = FaultyDisk()
    disk.failing = dict.fromkeys(("create", "replace", "remove", "sync_folder"), BAD)
    letters = DeadLetters(tmp_path / "bpm", GROUP, faulty(disk))
    assert letters.look() == []
    assert len(await letters.read_all(letters.pending)) == 2


async def test_the_account_goes_on_in_a_new_folder(tmp_path: Path) -> None:
    store = MemoryStore({GROUP.name: GROUP})
    for number in (1, 2):
        letters = await kept(tmp_path / str(number), (1, block_of(10 * number, 2)))
        await Retrying(store, GROUP, letters).round()
    found = await store.position(GROUP.name, Stream.DEAD_LETTERS)
    assert found is not None
    assert (found.triggers, found.readings) == (4, 48)


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


@pytest.mark.parametrize("then", ["a round of retrying", "another letter", "another discard"])
async def test_a_discard_that_failed_discards_nothing_later(tmp_path: Path, then: str) -> None:
    disk = FaultyDisk()
    letters = on(disk, tmp_path)
    await keep(letters, 1, block_of(1, 4))
    disk.failing["remove"] = BAD
    with pytest.raises(OSError, match="input/output"):
        await letters.discard()
    assert (keys(letters), letters.discarded_readings) == ([1, 2, 3, 4], 0)
    assert letters.amount == Amount(blocks=4, triggers=4, readings=48)
    disk.failing.clear()
    expected = [1, 2, 3, 4]
    if then == "a round of retrying":
        await letters.note()
    elif then == "another letter":
        await keep(letters, 2, block_of(9, 1))
        expected.append(9)
    else:
        assert (await letters.discard()).triggers == 4
        expected = []
        assert letters.discarded_readings == 48
    assert keys(letters) == keys(on(FaultyDisk(), tmp_path)) == expected


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
    assert letters.room == 20_000


async def test_what_was_retried_from_a_copy_of_the_folder_says_nothing_of_other_letters(tmp_path: Path) -> None:
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
    # Those that were copied are the same letters.
    assert keys(opened(here, await store.position(GROUP.name, Stream.DEAD_LETTERS))) == [3]
