"""Dead letters on the disk: what is kept is found again, whatever happened in the middle of it."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path

import numpy as np
import pytest

from daemon.pipeline.closed_blocks import merge, split
from daemon.pipeline.dead_letters import DeadLetters, Letter, Reason, pending_readings
from daemon.pipeline.dead_letters.folder import QUOTA_BYTES
from daemon.pipeline.dead_letters.format import ids_as_bytes
from daemon.pipeline.files import Amount
from daemon.pipeline.files.format import segment_head
from schemas.batch import ClosedBlock, JournalPosition
from schemas.ledger import ledger_dtype
from schemas.readings import InstrumentGroup
from tests.support.batches import group_of, ledger_of, readings_of, with_late
from tests.support.disks import REAL, ByHand

GROUP = group_of(size=12)
REASON = Reason("value out of range (22003)")


def block_of(first: int, triggers: int, *, missing: int = 0, group: InstrumentGroup = GROUP) -> ClosedBlock:
    rng = np.random.default_rng(first)
    numbers = first + np.arange(triggers)
    readings = readings_of(group, numbers, 1_800_000_000_000_000_000 + numbers * 1000, rng)
    present = np.ones(readings.shape, bool)
    present[:, :missing] = False
    return ClosedBlock(
        readings=readings,
        present=present,
        ledger=ledger_of(group, 1, numbers, readings, present),
        late=np.empty(0, group.record),
        late_of=np.empty(0, np.intp),
        revised=np.empty(0, ledger_dtype(group.size)),
    )


def late_of(block: ClosedBlock, instrument: int) -> ClosedBlock:
    """What comes late for the triggers of a block: one reading each."""
    late = block.readings[:, instrument].copy()
    there = block.present.copy()
    there[:, instrument] = True
    rows = [with_late(row, late[k : k + 1], there[k]) for k, row in enumerate(block.ledger)]
    return ClosedBlock(
        readings=block.readings[:0],
        present=block.present[:0],
        ledger=block.ledger[:0],
        late=late,
        late_of=np.arange(len(late)),
        revised=np.array(rows, block.ledger.dtype),
    )


def same(one: ClosedBlock, other: ClosedBlock) -> bool:
    there = np.array_equal(one.readings[one.present], other.readings[other.present])
    names = ("present", "ledger", "late", "late_of", "revised")
    return there and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


async def take(letters: DeadLetters, some: Sequence[Letter]) -> None:
    """The database takes some of the letters."""
    await letters.committed(some, taken(some))


def taken(some: Sequence[Letter]) -> JournalPosition:
    """The position of a database that took these letters last."""
    return JournalPosition(sequence=1, journal=9, state=ids_as_bytes(some))


async def kept(folder: Path, *blocks: tuple[int, ClosedBlock], group: InstrumentGroup = GROUP) -> DeadLetters:
    letters = DeadLetters(folder / "bpm", group, REAL)
    letters.open()
    for number, block in blocks:
        await letters.keep(letters.address([(part, REASON) for part in split(block)], number))
    return letters


def opened(folder: Path, found: JournalPosition | None = None) -> DeadLetters:
    """The letters as the next process has them, with a database at a position."""
    letters = DeadLetters(folder / "bpm", GROUP, REAL)
    assert letters.open() == []
    letters.compare(found)
    return letters


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("**/*.dead"))


def test_a_block_taken_apart_is_the_same_put_together() -> None:
    own = block_of(1, 4, missing=2)
    whole = merge([block_of(5, 3), late_of(own, 0)])
    parts = split(whole)
    assert [(part.triggers, len(part.revised), len(part.late)) for part in parts] == 3 * [(1, 0, 0)] + 4 * [(0, 1, 1)]
    assert same(merge(parts), whole)
    assert same(merge(split(own)), own)


async def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    own = block_of(1, 3, missing=2)
    letters = await kept(tmp_path, (7, own), (9, late_of(own, 1)))
    for found in (letters, opened(tmp_path)):
        assert found.amount == Amount(blocks=6, triggers=3, readings=3 * 10 + 3)
        assert [letter.key for letter in found.pending] == [(1, 1), (1, 2), (1, 3)] * 2
        assert {letter.reason for letter in found.pending} == {REASON.text}
        assert same(merge([found.read(letter) for letter in found.pending]), merge([own, late_of(own, 1)]))
        assert found.of_block(7) == ({(1, 1), (1, 2), (1, 3)} if found is letters else set())
        assert found.of_block(8) == set()
        assert found.concerns(20, late_of(own, 0))
        assert not found.concerns(20, late_of(block_of(4, 1), 0))


async def test_what_ends_in_the_middle_of_a_letter_is_said_and_the_others_count(tmp_path: Path) -> None:
    await kept(tmp_path, (1, block_of(1, 1)), (2, block_of(2, 3)))
    (path,) = files_in(tmp_path)
    whole = path.read_bytes()
    counts = []
    for end in range(0, len(whole) + 1, 8):
        path.write_bytes(whole[:end])
        letters = DeadLetters(tmp_path / "bpm", GROUP, REAL)
        letters.open()
        counts.append(letters.amount.triggers)
        # Those behind have numbers of their own, whatever is left of those before.
        (more,) = letters.address([(block_of(9, 1), REASON)], 3)
        before = {letter.serial for letter in letters.pending}
        if before:
            await letters.keep([more])
            assert letters.pending[-1].serial > max(before)
            letters.pending[-1].path.unlink()
        letters.close()
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3, 4}


async def test_damage_costs_the_letters_it_hits_and_is_said(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 3)))
    path = letters.pending[1].path
    data = bytearray(path.read_bytes())
    data[letters.pending[1].end - 30] ^= 1
    path.write_bytes(data)
    again = DeadLetters(tmp_path / "bpm", GROUP, REAL)
    (found,) = again.open()
    assert [letter.key for letter in again.pending] == [(1, 1), (1, 3)]
    assert "no whole dead letter" in found.problem
    # What cannot be read is never removed with the rest.
    before = path.stat().st_size
    await take(again, again.pending)
    assert path.stat().st_size < before
    assert DeadLetters(tmp_path / "bpm", GROUP, REAL).look()[0].damaged


async def test_what_comes_late_for_a_damaged_letter_does_not_count_it(tmp_path: Path) -> None:
    block = block_of(1, 1, missing=1)
    letters = await kept(tmp_path, (1, block))
    (letter,) = letters.pending
    data = bytearray(letter.path.read_bytes())
    data[letter.end - 9] ^= 1
    letter.path.write_bytes(data)
    assert not letters.may_lack(late_of(block, 0))
    assert await letters.read_all([letter]) == []
    assert letters.may_lack(late_of(block, 0))


async def test_who_reads_what_another_one_found_damaged_leaves_it_out_as_well(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 1)))
    (letter,) = letters.pending
    data = bytearray(letter.path.read_bytes())
    data[letter.end - 9] ^= 1
    letter.path.write_bytes(data)
    assert await asyncio.gather(letters.read_all([letter]), letters.read_all([letter])) == [[], []]
    assert letters.amount == Amount()


class Interrupted(ByHand):
    """Workers that note how many letters each call had, and let something happen before the first one returns."""

    def __init__(self, then: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self._then: Callable[[], Awaitable[None]] | None = then

    async def call(self, function, *args, **kwargs):
        found = function(*args, **kwargs)
        self.sizes += [len(found)] if isinstance(found, list) else []
        then, self._then = self._then, None
        if then is not None:
            await then()
        return found


async def test_times_are_read_some_at_once_and_of_what_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.pipeline.dead_letters.folder.READ_TOGETHER", 2)
    blocks = [(number, block_of(number, 1)) for number in range(1, 7)]
    before = await kept(tmp_path, *blocks[:5])
    before.close()
    others: set[asyncio.Task[None]] = set()

    async def go_on() -> None:
        # The next one that was to be read goes, and another one comes.
        others.add(asyncio.create_task(take(letters, letters.pending[2:3])))
        others.add(asyncio.create_task(letters.keep(letters.address([(blocks[5][1], REASON)], 6))))
        await asyncio.sleep(0)

    workers = Interrupted(go_on)
    letters = DeadLetters(tmp_path / "bpm", GROUP, dataclasses.replace(REAL, workers=workers))
    letters.open()
    times = await letters.times()
    await asyncio.gather(*others)
    times = await letters.times()
    assert sorted(times.tolist()) == [block.ledger["time_ns"][0] for number, block in blocks if number != 3]
    assert max(workers.sizes) == 2
    workers.sizes.clear()
    assert sorted((await letters.times()).tolist()) == sorted(times.tolist())
    assert workers.sizes == []


async def test_letters_of_other_channels_are_said_and_left_alone(tmp_path: Path) -> None:
    await kept(tmp_path, (1, block_of(1, 3)))
    other = DeadLetters(tmp_path / "bpm", group_of(dtypes=("float32",)), REAL)
    (found,) = other.open()
    assert found.is_other
    assert "other instruments or channels" in found.problem
    assert other.amount == Amount()
    assert (await other.discard()) == Amount()
    assert found.path.exists()


async def test_letters_of_two_layouts_go_each_by_themselves(tmp_path: Path) -> None:
    other = group_of(size=5)
    await kept(tmp_path, (1, block_of(1, 3)))
    letters = await kept(tmp_path, (2, block_of(7, 1, group=other)), group=other)
    await take(letters, letters.pending)
    again = await kept(tmp_path)
    assert (again.amount.triggers, pending_readings(tmp_path / "bpm", REAL.disk)) == (3, 36)
    await take(again, again.pending)
    assert pending_readings(tmp_path / "bpm", REAL.disk) == 0


async def test_a_file_of_an_earlier_version_is_said_and_left_alone(tmp_path: Path) -> None:
    """What of it was retried or discarded is noted in files that are not read any more."""
    await kept(tmp_path, (1, block_of(1, 1)))
    (path,) = files_in(tmp_path)
    head = segment_head(GROUP, 5)
    path.write_bytes(head + path.read_bytes()[len(head) :])
    letters = DeadLetters(tmp_path / "bpm", GROUP, REAL)
    (found,) = letters.open()
    assert "an earlier version of triggerlog" in found.problem
    assert (letters.amount, letters.room < QUOTA_BYTES) == (Amount(), True)
    await letters.keep(letters.address([(block_of(2, 1), REASON)], 1))
    await letters.discard()
    assert files_in(tmp_path) == [path]


async def test_a_file_goes_with_its_last_letter_and_what_was_kept_of_a_block_is_known(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (5, block_of(1, 2)))
    for left in (1, 0):
        await take(letters, letters.pending[:1])
        assert len(files_in(tmp_path)) == left
        assert opened(tmp_path).amount.triggers == left
    # The block may be under way still: what of it was kept, and committed since, is left out.
    assert letters.of_block(5) == {(1, 1), (1, 2)}
    letters.passed(5)
    assert letters.of_block(5) == set()


async def test_letters_that_stay_in_a_file_are_read_from_where_they_are_then(tmp_path: Path) -> None:
    blocks = [block_of(number, 1, missing=number % 3) for number in range(1, 7)]
    letters = await kept(tmp_path, *enumerate(blocks, 1))
    for some in ([1, 4], [0], [1]):
        await take(letters, [letters.pending[k] for k in some])
        for found in (letters, opened(tmp_path)):
            for letter in found.pending:
                assert same(found.read(letter), blocks[letter.key[1] - 1])
    assert [letter.key[1] for letter in letters.pending] == [3, 6]
    await letters.keep(letters.address([(block_of(9, 1), REASON)], 9))
    assert [letter.key[1] for letter in opened(tmp_path).pending] == [3, 6, 9]


async def test_the_database_tells_which_letters_it_took_last(tmp_path: Path) -> None:
    """The process before was killed before it removed them; of other positions nothing follows."""
    letters = await kept(tmp_path, (1, block_of(1, 3)))
    first, second, third = letters.pending
    assert [letter.key[1] for letter in opened(tmp_path, taken([first, third])).pending] == [2]
    assert len(opened(tmp_path, JournalPosition(sequence=7, journal=3)).pending) == 3
    assert len(opened(tmp_path, JournalPosition(sequence=7, journal=3, state=b"other")).pending) == 3
    assert len(opened(tmp_path).pending) == 3
    again = opened(tmp_path, taken([second]))
    await again.note()
    assert [letter.key[1] for letter in opened(tmp_path).pending] == [1, 3]


async def test_what_could_not_be_kept_is_kept_once_when_it_is_tried_again(tmp_path: Path) -> None:
    letters = await kept(tmp_path)
    addressed = letters.address([(block_of(1, 1), REASON)], 1)
    (tmp_path / "bpm").write_text("a file where the folder should be")
    with pytest.raises(OSError, match="Not a directory"):
        await letters.keep(addressed)
    assert letters.amount == Amount()
    (tmp_path / "bpm").unlink()
    await letters.keep(addressed)
    assert letters.amount.triggers == opened(tmp_path).amount.triggers == 1


async def test_discarding_leaves_nothing(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 3)))
    assert await letters.discard() == Amount(blocks=3, triggers=3, readings=36)
    assert files_in(tmp_path) == []
    assert opened(tmp_path).amount == Amount()
    await letters.keep(letters.address([(block_of(4, 1), REASON)], 2))
    assert [letter.serial for letter in letters.pending] == [4]


async def test_a_discard_takes_and_counts_what_was_kept_before_its_turn_and_nothing_after_it(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 1)))

    def keep(trigger: int) -> Coroutine[None, None, None]:
        return letters.keep(letters.address([(block_of(trigger, 1), REASON)], trigger))

    _, gone, _ = await asyncio.gather(keep(2), letters.discard(), keep(3))
    assert gone == Amount(blocks=2, triggers=2, readings=24)
    for found in (letters, opened(tmp_path)):
        assert [letter.key for letter in found.pending] == [(1, 3)]


async def test_a_group_that_never_had_a_dead_letter_has_none_to_discard(tmp_path: Path) -> None:
    """`dead-letters discard` takes all groups; one without a folder must not end it in the middle."""
    assert await opened(tmp_path).discard() == Amount()
    assert not (tmp_path / "bpm").exists()


async def test_discarding_leaves_what_cannot_be_read(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (1, block_of(1, 3)))
    path, end = letters.pending[1].path, letters.pending[1].end
    data = bytearray(path.read_bytes())
    data[end - 30] ^= 1
    path.write_bytes(data)
    again = await kept(tmp_path)
    assert (await again.discard()).triggers == 2
    assert bytes(data[letters.pending[1].start : end]) in path.read_bytes()
    # What could be read does not come back with it.
    assert (await kept(tmp_path)).amount == Amount()
    assert pending_readings(tmp_path / "bpm", REAL.disk) == 0


async def test_what_was_discarded_of_a_block_stays_out_of_it(tmp_path: Path) -> None:
    letters = await kept(tmp_path, (5, block_of(1, 2)))
    await take(letters, letters.pending[:1])
    await letters.discard()
    assert letters.of_block(5) == {(1, 1), (1, 2)}
    assert files_in(tmp_path) == []


async def test_the_last_triggers_are_read_with_all_that_came_late_for_them(tmp_path: Path) -> None:
    """However many letters that is: what is not known of a trigger opens it anew."""
    blocks = [(1, block_of(1, 3, missing=8)), *((2 + k, late_of(block_of(1, 3, missing=8), k)) for k in range(8))]
    letters = await kept(tmp_path, *blocks)
    found = letters.last_blocks(2)
    assert [block.ledger["trigger"].tolist() for block in found if block.triggers] == [[2], [3]]
    assert len(found) == 2 + 8 * 3
    assert len(letters.last_blocks(3)) == len(letters.last_blocks(100)) == 3 + 8 * 3
