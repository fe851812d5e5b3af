"""The id of a folder, and the numbers that are given out under it."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

import daemon.pipeline.files.identity as identity_module
from daemon.pipeline.files.identity import AHEAD, Identity, read_ids
from tests.support.disks import REAL, FaultyDisk


def started(folder: Path, *wanted: int, disk: FaultyDisk | None = None) -> Identity:
    """An identity as a start leaves it."""
    identity = Identity(folder, REAL if disk is None else replace(REAL, disk=disk))
    identity.load()
    identity.succeed(wanted)
    identity.take(1)
    return identity


def test_each_start_has_another_id_and_knows_those_before(tmp_path: Path) -> None:
    first, second, third = (started(tmp_path) for _ in range(3))
    assert len({first.id, second.id, third.id}) == 3
    assert all(0 < each.id < 2**63 for each in (first, second, third))
    assert third.former == (first.id, second.id)
    assert third.ids == {first.id, second.id, third.id}


def test_no_number_is_given_out_twice_whatever_is_lost(tmp_path: Path) -> None:
    first = started(tmp_path)
    first.take(17)
    assert started(tmp_path).next > 17


def test_the_file_is_written_once_for_many_numbers(tmp_path: Path) -> None:
    disk = FaultyDisk()
    identity = started(tmp_path, disk=disk)
    for number in range(1, 1000):
        identity.take(number)
    assert disk.calls["replace"] == 1
    identity.take(AHEAD + 1)
    assert disk.calls["replace"] == 2


def test_ids_are_known_for_as_long_as_they_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity_module, "FORMER_MOST", 1)
    first = started(tmp_path)
    for _ in range(5):
        last = started(tmp_path, first.id)
        assert first.id in last.ids
    assert len(last.former) == 2
    assert first.id not in started(tmp_path).ids


@pytest.mark.parametrize("text", ["", "17", "17 x", "\0" * 40])
def test_a_file_that_nobody_wrote_gives_no_id(tmp_path: Path, text: str) -> None:
    (tmp_path / "id").write_text(text)
    assert read_ids(tmp_path, REAL.disk) == []
    assert started(tmp_path).former == ()


def test_a_start_that_the_disk_does_not_take_leaves_what_was_there(tmp_path: Path) -> None:
    first, disk = started(tmp_path), FaultyDisk()
    disk.failing["replace"] = OSError(errno.EROFS, "read-only file system")
    with pytest.raises(OSError, match="read-only"):
        started(tmp_path, disk=disk)
    assert started(tmp_path).former == (first.id,)
