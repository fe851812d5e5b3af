"""The disk of the machine: what is appended, replaced and made is there, and what fails leaves what was there."""

import errno
import itertools
import os
import random
import resource
from pathlib import Path

import pytest

from backends.files import FolderInUse
from daemon.core.outside import SystemDisk, disk
from daemon.core.outside.disk import Contents

DISK = SystemDisk()


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    file = DISK.create(path)
    file.append([b"one", memoryview(b"two"), b""])
    file.append([bytes([k % 256]) for k in range(3000)])
    file.sync()
    file.close()
    whole = b"onetwo" + bytes(k % 256 for k in range(3000))
    assert DISK.size(path) == len(whole)
    assert DISK.read(path, 3, 8) == whole[3:8]
    assert DISK.read(path, 3000, 10**6) == whole[3000:]
    contents = Contents(DISK, path)
    assert contents[:] == whole
    assert contents.find(b"two", 0) == 3
    with pytest.raises(FileExistsError):
        DISK.create(path)


def test_an_empty_file_has_no_contents(tmp_path: Path) -> None:
    DISK.create(tmp_path / "a").close()
    contents = Contents(DISK, tmp_path / "a")
    assert (len(contents), contents[:], contents.find(b"a", 0)) == (0, b"", -1)


def test_a_file_is_looked_through_a_stretch_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "STRETCH", 16)
    whole = random.Random(3).randbytes(1000)
    (tmp_path / "a").write_bytes(whole)
    for contents, expected in (
        (Contents(DISK, tmp_path / "a"), whole),
        (Contents(DISK, tmp_path / "a", 500), whole[:500]),
    ):
        assert len(contents) == len(expected)
        for start, end in ((0, 8), (10, 20), (100, 400), (5, 6), (490, 2000), (1200, 1300)):
            assert contents[start:end] == expected[start:end]
        for start, what in itertools.product(range(0, 1000, 7), (whole[14:18], whole[300:317], whole[-3:], b"nowhere")):
            assert contents.find(what, start) == expected.find(what, start)


def test_what_cannot_be_read_is_zeros_and_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = random.Random(3).randbytes(40 * 4096 + 100)
    (tmp_path / "a").write_bytes(whole)
    bad = {3, 7, 8, 40}
    read, calls = os.pread, []

    def pread(descriptor: int, nbytes: int, start: int) -> bytes:
        """As the system does it: up to the first sector that cannot be read."""
        calls.append(start)
        last = next((each for each in sorted(bad) if (each + 1) * 4096 > start), 1000) * 4096
        if last <= start:
            raise OSError(errno.EIO, "")
        return read(descriptor, min(nbytes, last - start), start)

    monkeypatch.setattr(os, "pread", pread)
    failing, said = SystemDisk(), []
    failing.report = said.append
    expected = bytearray(whole)
    for sector in bad:
        expected[sector * 4096 : (sector + 1) * 4096] = bytes(len(expected[sector * 4096 : (sector + 1) * 4096]))
    assert failing.read(tmp_path / "a", 0, 10**7) == expected
    assert failing.read(tmp_path / "a", 3 * 4096 + 5, 3 * 4096 + 9) == bytes(4)
    (text,) = said
    assert f"{tmp_path / 'a'} cannot be read (input/output error) at byte {3 * 4096}" in text
    # A disk that takes seconds for each sector is not asked for thousands.
    bad |= set(range(40))
    calls.clear()
    assert failing.read(tmp_path / "a", 0, 10**7) == bytes(len(whole))
    assert len(calls) < 25


def test_a_file_that_cannot_be_read_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pread(*_: int) -> bytes:
        raise OSError(errno.EIO, "")

    path = tmp_path / "a"
    failing = SystemDisk()
    monkeypatch.setattr(os, "pread", pread)
    for _ in range(2):
        path.write_bytes(b"old")
        assert failing.read(path, 0, 9) == bytes(3)
        failing.replace(path, b"new")
        assert path.read_bytes() == b"new"
    failing.remove(path)
    path.write_bytes(b"other")
    assert failing.read(path, 0, 9) == bytes(5)
    failing.remove(path)
    kept = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert kept == {"a.unreadable": b"old", "a.unreadable-2": b"old", "a.unreadable-3": b"other"}


def test_what_cannot_be_appended_takes_no_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = DISK.create(tmp_path / "a")
    file.append([b"x" * 100])
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            file.append([b"y" * 40, b"z" * 100])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.close()
    assert (tmp_path / "a").read_bytes() == b"x" * 100


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    DISK.replace(path, b"old")
    DISK.replace(path, b"new")
    assert path.read_bytes() == b"new"

    def fail(descriptor: int) -> None:
        raise OSError(5, f"descriptor {descriptor}")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="descriptor"):
        DISK.replace(path, b"newer")
    assert path.read_bytes() == b"new"
    assert DISK.names(tmp_path) == ["a"]


def test_each_new_name_of_a_folder_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(DISK, "sync_folder", synced.append, raising=False)
    DISK.make_folder(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    DISK.make_folder(tmp_path / "a" / "b" / "d")
    assert synced[3:] == [tmp_path / "a" / "b"]


def test_what_is_not_there(tmp_path: Path) -> None:
    assert DISK.names(tmp_path / "none") == []
    DISK.remove(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        DISK.size(tmp_path / "none")
    assert DISK.free(tmp_path) > 0


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    lock = DISK.lock(tmp_path / "lock")
    with pytest.raises(FolderInUse):
        DISK.lock(tmp_path / "lock")
    lock.release()
    DISK.lock(tmp_path / "lock").release()
