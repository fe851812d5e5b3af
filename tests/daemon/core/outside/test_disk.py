"""The disk of the machine: what is appended, replaced and made is there, and what fails leaves what was there."""

import os
import resource
from pathlib import Path

import pytest

from backends.folder_lock import FolderInUse
from daemon.core.outside import SystemDisk

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
    with DISK.open_view(path) as view:
        assert view[:] == whole
        assert view.find(b"two") == 3
    with pytest.raises(FileExistsError):
        DISK.create(path)


def test_an_empty_file_has_an_empty_view(tmp_path: Path) -> None:
    DISK.create(tmp_path / "a").close()
    with DISK.open_view(tmp_path / "a") as view:
        assert view == b""


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
