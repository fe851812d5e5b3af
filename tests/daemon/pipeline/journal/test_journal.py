"""The journal against a model: what was appended is there, whatever happens to the bytes behind and between it."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.pipeline.journal import Journal, JournalError, JournalFull
from daemon.pipeline.journal.format import RECORD, segment_head
from daemon.pipeline.journal.segment import ENDING
from schemas.batch import ClosedBlock, JournalPosition
from schemas.readings import InstrumentGroup, words
from tests.support.batches import batch_of, group_of, readings_of, with_late
from tests.support.disks import REAL

GROUP = group_of(size=5, dtypes=("float64", "int8"))
HEAD_BYTES = len(segment_head(GROUP, 1))
ROOMY = {"max_bytes": 2**30, "segment_bytes": 2**20}
ON_DISK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def block_of(number: int, group: InstrumentGroup = GROUP, triggers: int = 3) -> ClosedBlock:
    """A block with missing readings, late ones and revised rows, told by its number."""
    rng = np.random.default_rng(number)
    readings = readings_of(group, number * 100 + np.arange(triggers), number * 10**9 + np.arange(triggers), rng)
    present = rng.random(readings.shape) < (1.0 if number % 3 == 0 else 0.7)
    present[:, 0] = True
    words(readings)[~present] = 0  # what is missing is not kept
    if number % 2 or not triggers:
        return batch_of(group, 1, readings, present=present)
    plain = batch_of(group, 1, readings, present=np.ones_like(present))
    late = readings[:1, 1]
    revised = np.array([with_late(plain.ledger[0], late, present[0])])
    return batch_of(group, 1, readings, present=present, late=late, late_of=np.array([0]), revised=revised)


def same(one: ClosedBlock, other: ClosedBlock) -> bool:
    mine, theirs = one.parts, other.parts
    assert (one.aside is None) == (other.aside is None)
    if one.aside is not None and other.aside is not None:
        mine |= {f"aside {name}": part for name, part in vars(one.aside).items()}
        theirs |= {f"aside {name}": part for name, part in vars(other.aside).items()}
    return all(
        mine[name].shape == theirs[name].shape and mine[name].tobytes() == theirs[name].tobytes()
        for name in mine
        if isinstance(mine[name], np.ndarray)
    )


def at(folder: Path, sequence: int) -> JournalPosition:
    """A position of the journal in a folder."""
    path = folder / "id"
    return JournalPosition(sequence=sequence, journal=int(path.read_text().split()[0]) if path.exists() else 0)


@contextmanager
def opened(folder: Path, position: int = 0, group: InstrumentGroup = GROUP, **limits: int) -> Iterator[Journal]:
    journal = Journal(folder, group, REAL, **{**ROOMY, **limits})
    journal.open(at(folder, position))
    try:
        yield journal
    finally:
        journal.close()


def everything(journal: Journal, after: int = 0) -> dict[int, ClosedBlock]:
    return dict(journal.read(after, 2**40))


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{ENDING}"))


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    blocks = [block_of(number, triggers=number % 4) for number in range(1, 12)]
    with opened(tmp_path) as journal:
        first = journal.next
        journal.append(blocks[:4])
        last = journal.append(blocks[4:])
        assert last == first + len(blocks) - 1
        assert journal.sync() == last
        found = everything(journal)
    assert list(found) == list(range(first, last + 1))
    assert all(same(block, kept) for block, kept in zip(blocks, found.values(), strict=True))


def test_it_is_found_as_it_was_left(tmp_path: Path) -> None:
    blocks = [block_of(number) for number in range(1, 30)]
    with opened(tmp_path, segment_bytes=4096) as journal:
        first = journal.next
        for block in blocks:
            journal.append([block])
        assert len(segments(tmp_path)) > 3
    again = Journal(tmp_path, GROUP, REAL, **ROOMY)
    recovered = again.open(at(tmp_path, first + 9))
    assert (recovered.amount.blocks, recovered.amount.triggers, recovered.damages) == (19, 3 * 19, ())
    assert recovered.amount.readings == sum(int(block.present.sum()) + len(block.late) for block in blocks[10:])
    found = everything(again)
    assert list(found) == list(range(first + 10, first + 29))
    assert all(same(block, kept) for block, kept in zip(blocks[10:], found.values(), strict=True))
    assert again.next > first + 29
    again.close()


def test_reading_takes_about_as_much_as_it_may(tmp_path: Path) -> None:
    with opened(tmp_path, segment_bytes=4096) as journal:
        for number in range(1, 20):
            journal.append([block_of(number)])
        first = journal.next - 19
        after, seen = 0, []
        while found := journal.read(after, 3000):
            assert len(found) < 10
            seen += [sequence for sequence, _ in found]
            after = seen[-1]
        assert seen == list(range(first, first + 19))
        assert len(journal.read(first + 5, 1)) == 1


def test_trimming_lets_go_of_what_the_database_has(tmp_path: Path) -> None:
    with opened(tmp_path, segment_bytes=4096) as journal:
        for number in range(1, 40):
            journal.append([block_of(number)])
        first, before, files = journal.next - 39, journal.nbytes, len(segments(tmp_path))
        journal.trim(first + 19)
        assert journal.nbytes < before
        assert len(segments(tmp_path)) < files
        assert list(everything(journal)) == list(range(first + 20, first + 39))
        journal.trim(first + 38)
        assert everything(journal) == {}
        assert len(segments(tmp_path)) <= 1
        assert sum(path.stat().st_size for path in segments(tmp_path)) == journal.nbytes
    assert segments(tmp_path) == []


def test_a_number_is_never_handed_out_twice(tmp_path: Path) -> None:
    """The database may have a block whose record was lost with the power: a new one must not take its number."""
    with opened(tmp_path) as journal:
        last = journal.append([block_of(1), block_of(2)])
    (path,) = segments(tmp_path)
    os.truncate(path, HEAD_BYTES)
    with opened(tmp_path, position=last - 1) as journal:
        assert journal.next > last
    with opened(tmp_path, position=10**9) as journal:
        assert journal.next > 10**9


@ON_DISK
@given(numbers=st.lists(st.integers(1, 50), min_size=1, max_size=4), data=st.data())
def test_a_crash_at_any_byte_keeps_what_was_whole(tmp_path: Path, numbers: list[int], data: st.DataObject) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    blocks = [block_of(number) for number in numbers]
    ends = []
    with opened(folder) as journal:
        first = journal.next
        for block in blocks:
            journal.append([block])
            ends.append(segments(folder)[0].stat().st_size)
    (path,) = segments(folder)
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)
    whole = sum(end <= cut for end in ends)

    journal = Journal(folder, GROUP, REAL, **ROOMY)
    recovered = journal.open(at(folder, 0))
    found = everything(journal)
    assert list(found) == list(range(first, first + whole))
    assert all(same(block, kept) for block, kept in zip(blocks, found.values(), strict=False))
    torn = cut - (ends[whole - 1] if whole else 0)
    at_head = cut in (0, HEAD_BYTES)
    assert len(recovered.damages) == (0 if torn == 0 or at_head else 1)
    assert all(damage.is_torn for damage in recovered.damages)
    journal.close()


@ON_DISK
@given(numbers=st.lists(st.integers(1, 50), min_size=2, max_size=5), data=st.data())
def test_a_flipped_bit_costs_its_own_record_and_no_other(
    tmp_path: Path, numbers: list[int], data: st.DataObject
) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    blocks = [block_of(number) for number in numbers]
    starts = [HEAD_BYTES]
    with opened(folder) as journal:
        first = journal.next
        for block in blocks:
            journal.append([block])
            starts.append(segments(folder)[0].stat().st_size)
    (path,) = segments(folder)
    spot = data.draw(st.integers(0, starts[-1] - 1))
    flip(path, spot, 1 << data.draw(st.integers(0, 7)))
    hit = next((k for k in range(len(blocks)) if starts[k] <= spot < starts[k + 1]), None)

    journal = Journal(folder, GROUP, REAL, **ROOMY)
    recovered = journal.open(at(folder, 0))
    # What is behind it follows something that is lost; of a segment without its head nobody knows whose it is.
    whole = blocks[:hit] if hit is not None else []
    assert list(everything(journal)) == [first + k for k in range(len(whole))]
    loose = list(journal.read_loose() if hit is not None else journal.read_foreign())
    rest = [block for k, block in enumerate(blocks) if k >= len(whole) and k != hit]
    assert len(loose) == len(rest)
    assert all(same(one, other) for one, other in zip(rest, loose, strict=True))
    assert len(recovered.damages) == len(recovered.copies) == 1
    (damage,) = recovered.damages
    if hit is not None:
        assert (damage.start, damage.end) == (starts[hit], starts[hit + 1])
        assert recovered.hole == (None if hit == len(blocks) - 1 else (first + hit - 1, first + hit))
    journal.close()


def test_a_record_that_goes_bad_later_is_set_aside(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        first = journal.next
        journal.append([block_of(1)])
        end = segments(tmp_path)[0].stat().st_size
        journal.append([block_of(2), block_of(3)])
        flip(segments(tmp_path)[0], end + RECORD.itemsize + 40, 1)
        assert list(everything(journal)) == [first, first + 2]
        (damage,) = journal.unreadable
        assert damage.start == end
        assert list((tmp_path / "damaged").iterdir())


def flip(path: Path, at: int, bits: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bits]))


def test_a_limit_is_kept_and_says_so(tmp_path: Path) -> None:
    with opened(tmp_path, max_bytes=20_000, segment_bytes=4096) as journal:
        while journal.nbytes < 18_000:
            journal.append([block_of(len(everything(journal)) + 1)])
        kept = everything(journal)
        with pytest.raises(JournalFull, match="MiB are in use"):
            journal.append([block_of(number) for number in range(1, 20)])
        assert list(everything(journal)) == list(kept)
        assert journal.nbytes <= 20_000
        journal.trim(max(kept) - 1)
        journal.append([block_of(1)])


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(tmp_path) as journal:
        journal.append([block_of(1)])
        size = segments(tmp_path)[0].stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
        try:
            with pytest.raises(JournalFull, match="is full"):
                journal.append([block_of(2), block_of(3)])
            assert segments(tmp_path)[0].stat().st_size == size
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        last = journal.append([block_of(4)])
        found = everything(journal)
    assert list(found) == [last - 1, last]
    assert same(found[last], block_of(4))
    with opened(tmp_path) as journal:
        assert list(everything(journal)) == [last - 1, last]


def test_a_full_disk_has_room_again_when_what_filled_it_is_trimmed(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(tmp_path) as journal:
        last = journal.append([block_of(1)])
        # The disk is the files here: no limit of the journal's own is anywhere near.
        resource.setrlimit(resource.RLIMIT_FSIZE, (segments(tmp_path)[0].stat().st_size, hard))
        try:
            with pytest.raises(JournalFull, match="is full"):
                journal.append([block_of(2)])
            assert list(everything(journal)) == [last]
            journal.trim(last)
            assert segments(tmp_path) == []
            assert journal.nbytes == 0
            assert journal.append([block_of(1)]) == last + 1
            assert same(everything(journal)[last + 1], block_of(1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(JournalError, match="used by another daemon"), opened(tmp_path):
        pass
    with opened(tmp_path):
        pass


def test_another_group_than_the_one_written(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.append([block_of(1)])
    wider = group_of(size=6, dtypes=("float64", "int8"))
    with (
        pytest.raises(JournalError, match=r"other instruments or channels .* run the daemon with those"),
        opened(tmp_path, group=wider),
    ):
        pass
    with opened(tmp_path) as journal:
        assert len(everything(journal)) == 1


KILLED = """
import os, sys
from pathlib import Path
from tests.daemon.pipeline.journal.test_journal import (GROUP, REAL, ROOMY, Journal, block_of)
journal = Journal(Path(sys.argv[1]), GROUP, REAL, **ROOMY)
journal.open(None)
for number in range(1, 8):
    print(journal.append([block_of(number)]), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_killed_process_leaves_all_it_appended(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr
    numbers = [int(line) for line in killed.stdout.split()]
    with opened(tmp_path) as journal:
        found = everything(journal)
    assert list(found) == numbers
    assert all(same(block_of(k), kept) for k, kept in enumerate(found.values(), 1))
