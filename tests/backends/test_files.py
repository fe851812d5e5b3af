"""Files and folders that are whole or not there, and planted links that are not followed."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.files import Folder, FolderLock, NotPlain, replace_file, sync_tree, whole_file, whole_folder
from backends.throwaway.mariadb import ThrowawayMariadb
from daemon.core.process.children import Child
from tests.support.servers import installed, server_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root works in the folder of another account")
STRANGER = 12_345


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "outside"
    path.write_text("outside")
    before = path.stat()
    yield path
    after = path.stat()
    assert (path.read_text(), after.st_uid, after.st_mode, after.st_nlink) == (
        "outside",
        before.st_uid,
        before.st_mode,
        1,
    )


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    folder = tmp_path / "foreign"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    return folder


@pytest.mark.parametrize("plant", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("name", ["file", "file.partial"])
def test_a_file_is_replaced_and_a_planted_link_not_followed(
    tmp_path: Path, outside: Path, name: str, plant: Callable[[Path, Path], None]
) -> None:
    plant(tmp_path / name, outside)
    replace_file(tmp_path / "file", b"new", mode=0o600)
    found = (tmp_path / "file").lstat()
    assert ((tmp_path / "file").read_bytes(), found.st_nlink, found.st_mode & 0o777) == (b"new", 1, 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "outside"]


def test_a_file_that_cannot_be_replaced_stays_and_is_named_in_full(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError) as refused:
        replace_file(tmp_path / "file", b"new")
    assert refused.value.filename == str(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@as_root
def test_what_root_writes_in_a_foreign_folder_is_its_owners(foreign: Path) -> None:
    with Folder(foreign) as folder:
        folder.replace("file", b"new")
        assert folder.read("file") == "new"
        (foreign / "edited").write_text("by root")
        assert folder.read("edited") == "by root"
    assert (foreign / "file").stat().st_uid == STRANGER


@as_root
@pytest.mark.parametrize("plant", [Path.symlink_to, Path.hardlink_to, lambda path, _: os.mkfifo(path)])
def test_root_reads_only_plain_files_of_the_owner_of_a_foreign_folder(
    foreign: Path, outside: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(foreign / "file", outside)
    with Folder(foreign) as folder, pytest.raises(OSError) as refused:  # noqa: PT011 - which one is compared below
        folder.read("file")
    assert isinstance(refused.value, NotPlain) or refused.value.errno == errno.ELOOP
    assert refused.value.filename == str(foreign / "file")
    (foreign / "file").unlink()


def test_a_folder_that_became_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        Folder(tmp_path / "link", follow=False)
    with Folder(tmp_path / "link") as folder:
        assert folder.read("nothing") is None


def test_the_end_of_a_long_file_and_what_was_written_last(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    os.utime(tmp_path / "old", (1, 1))
    (tmp_path / "long").write_bytes(b"a" * 2**20 + b"the end")
    with Folder(tmp_path) as folder:
        assert (folder.read("long", end=True) or "").endswith("athe end")
        assert set(folder.read("long") or "") == {"a"}
        assert folder.written_since(2) == ["long"]


def test_a_file_that_is_written_in_steps_is_whole_or_as_it_was(tmp_path: Path, outside: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    (tmp_path / "file.partial").symlink_to(outside)
    with pytest.raises(ZeroDivisionError), whole_file(path) as partial:  # noqa: PT012
        partial.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    with whole_file(path) as partial:
        partial.write_text("whole")
    assert path.read_text() == "whole"
    with whole_file(path, is_optional=True):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["outside"]


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    (tmp_path / "folder.partial").mkdir()
    (tmp_path / "folder.partial" / "of a start that was killed").touch()
    with pytest.raises(ZeroDivisionError), whole_folder(path) as partial:  # noqa: PT012
        (partial / "file").touch()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with whole_folder(path) as partial:
        (partial / "file").touch()
        (partial / "link").symlink_to("nowhere")
        sync_tree(partial)
        assert not path.exists()
    assert sorted(each.name for each in path.iterdir()) == ["file", "link"]
    with pytest.raises(OSError, match="not empty"), whole_folder(path):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_partial_folder_that_is_a_link_is_removed_not_followed(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "folder.partial").symlink_to(tmp_path)
    with whole_folder(tmp_path / "folder"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "outside"]


def test_a_lock_that_is_a_link_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match=f"{tmp_path / 'lock'}"):
        FolderLock(tmp_path / "lock")
    assert not (tmp_path / "made").exists()


async def test_the_log_of_a_child_overwrites_no_linked_file(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "log").symlink_to(outside)
    child = await Child.start("child", [sys.executable, "-c", "print('said')"], tmp_path / "log")
    await child.ended()
    assert (tmp_path / "log").read_text() == "said\n"


@pytest.mark.slow
@pytest.mark.parametrize("made", ["aria_log_control", "ibdata1", "mysql"])
def test_a_mariadb_whose_making_was_killed_is_made_again(made: str) -> None:
    text = (
        "import sys\nfrom pathlib import Path\nfrom backends.throwaway.mariadb import ThrowawayMariadb\n"
        "ThrowawayMariadb(Path(sys.argv[1])).start()\n"
    )
    with installed(), server_folder() as folder:
        server = ThrowawayMariadb(folder)
        process = subprocess.Popen(
            [sys.executable, "-c", text, str(folder)], cwd=Path(__file__).parents[2], start_new_session=True
        )
        deadline = time.monotonic() + 120
        while not any((folder / data / made).exists() for data in ("data", "data.partial")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        try:
            assert server.start().startswith("mysql://")
        finally:
            server.stop()
