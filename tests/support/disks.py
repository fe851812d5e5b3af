"""A disk that fails as asked, and shows what a power cut would leave of it."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.core.outside import Instant, Outside, Stepper, SystemDisk
from daemon.core.outside.disk import Buffer, SystemFile
from daemon.core.outside.workers import Step


@dataclass(kw_only=True)
class _Kept:
    """A file: what of it is on the disk, and which bytes are still to be written back."""

    synced: bytearray
    dirty: tuple[int, int] = (0, 0)


class FaultyDisk(SystemDisk):
    """A real file system that keeps account of what is durable.

    failing: by the name of an operation, what it raises, for as long as it is there. calls: how often each was called.
    A failed sync marks what it was to write as clean: it can be read, and no later sync writes it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failing: dict[str, OSError] = {}
        self.calls: dict[str, int] = defaultdict(int)
        self.before: Callable[[str, Path], None] = lambda operation, path: None
        self._files: dict[int, _Kept] = {}  # by inode
        self._names: dict[Path, dict[str, int]] = defaultdict(dict)

    def note(self, operation: str, path: Path) -> None:
        self.before(operation, path)
        self.calls[operation] += 1
        if operation in self.failing:
            raise self.failing[operation]

    def kept(self, path: Path) -> _Kept:
        return self._files[path.stat().st_ino]

    def keep(self, path: Path) -> None:
        """Take a file that is there for one that is on the disk."""
        self._files[path.stat().st_ino] = _Kept(synced=bytearray(path.read_bytes()))
        self._names[path.parent][path.name] = path.stat().st_ino

    def create(self, path: Path) -> "FaultyFile":
        self.note("create", path)
        file = super().create(path)
        self._files[path.stat().st_ino] = _Kept(synced=bytearray())
        return FaultyFile(self, path, file)

    def remove(self, path: Path) -> None:
        self.note("remove", path)
        super().remove(path)

    def replace(self, path: Path, data: bytes) -> None:
        self.note("replace", path)
        super().replace(path, data)
        self._files[path.stat().st_ino] = _Kept(synced=bytearray(data))

    def sync_folder(self, folder: Path) -> None:
        self.note("sync_folder", folder)
        super().sync_folder(folder)
        self._names[folder] = {each.name: each.stat().st_ino for each in folder.iterdir()}

    def after_power_cut(self, folder: Path, to: Path) -> None:
        """Write down in another folder what of this one is durable."""
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for name, inode in self._names[folder].items():
            if inode in self._files:
                (to / name).write_bytes(self._files[inode].synced)


class FaultyFile:
    def __init__(self, disk: FaultyDisk, path: Path, file: SystemFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self._kept = disk.kept(path)
        self._nbytes = 0
        self.is_bad = False

    def append(self, buffers: Sequence[Buffer]) -> None:
        assert not self.is_bad, "only close is allowed after a failure"
        try:
            self._disk.note("append", self._path)
        except OSError:
            self.is_bad = True
            # As much as was written before it failed, and could not be taken back.
            whole = b"".join(bytes(buffer) for buffer in buffers)
            self._file.append([whole[: len(whole) // 2]])
            raise
        self._file.append(buffers)
        start, self._nbytes = self._nbytes, self._nbytes + sum(len(buffer) for buffer in buffers)
        kept = self._kept
        kept.dirty = (kept.dirty[0] if kept.dirty[1] > kept.dirty[0] else start, self._nbytes)

    def sync(self) -> None:
        assert not self.is_bad, "only close is allowed after a failure"
        start, end = self._kept.dirty
        self._kept.dirty = (end, end)
        try:
            self._disk.note("sync", self._path)
        except OSError:
            self.is_bad = True
            raise
        self._file.sync()
        kept = self._kept.synced
        kept.extend(bytes(max(0, end - len(kept))))
        kept[start:end] = self._disk.read(self._path, start, end)

    def close(self) -> None:
        self._file.close()


class StoppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = Instant(1_800_000_000_000_000_000, 1_000_000_000_000)

    def now(self) -> Instant:
        return self.at

    def move(self, seconds: float) -> None:
        ns = int(seconds * 1e9)
        self.at = Instant(self.at.utc_ns + ns, self.at.monotonic_ns + ns)


class ByHand:
    """Workers that call a function at once, and a step when the test does."""

    def __init__(self) -> None:
        self.step: Step = lambda: None
        self.woken = 0

    async def call(self, function, *args, **kwargs):
        return function(*args, **kwargs)

    def begin(self, name: str, step: Step) -> Stepper:
        self.step = step
        return self

    def wake(self) -> None:
        self.woken += 1

    async def ended(self) -> None:
        while self.step() is not None:
            pass


REAL = Outside.real()


def faulty(disk: FaultyDisk | None = None, **others: object) -> Outside:
    """The machine with a disk that fails as asked."""
    return replace(REAL, disk=disk or FaultyDisk(), **others)
