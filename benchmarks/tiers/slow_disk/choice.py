"""The slow disk that can be had here."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# --- a device that the kernel holds back -----------------------------------------------------------------------------
# The limits of the root group cover what the kernel writes later, too. Everything is undone, whatever happens.

LIMITS_FOLDER = Path("/sys/fs/cgroup/blkio")
LIMITS = {
    "read_iops": 73,
    "read_bps": 140_000_000,
    "write_iops": 157,
    "write_bps": 129_000_000,
}
"""The blog's disk: 68 and 157 random accesses a second, 140 and 129 MB/s."""
PROGRAMS = ("losetup", "mkfs.ext4", "mount", "umount")
INODES = 16_384
UNMOUNT_S = 30.0
POLL_S = 0.2


class NotThrottled(Exception):
    """The device cannot be had; the message is one line."""


def loop_lacking() -> str | None:
    """What is missing here for such a device, in words; None where nothing is."""
    if os.geteuid() != 0:
        return "it takes root"
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"there is no {program}"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices (/dev/loop-control)"
    if not all(_limit(name).exists() for name in LIMITS):
        return f"there are no limits of devices ({_limit('read_iops')}), which are those of control groups 1"
    return None


@contextmanager
def throttled(image: Path, mount: Path, mib: int) -> Iterator[None]:
    """Have such a device, with an ext4, under a folder; it is gone afterwards.

    image: its file, which takes the room that is written. mount: an empty folder. mib: its size.

    Raises:
        NotThrottled: the machine does not let it.
    """
    with ExitStack() as undo:
        # Each is undone by what is found then: a ^C may come between a step and what notes it.
        undo.callback(image.unlink, missing_ok=True)
        undo.callback(_detach, image)
        undo.callback(_unmount, mount)
        with image.open("wb") as file:
            file.truncate(mib * 2**20)
        # All of it is made now: what ext4 does later, on its own, would be paid by whoever measures then.
        at_once = ["-E", "lazy_itable_init=0,lazy_journal_init=0", "-N", str(INODES)]
        _run("mkfs.ext4", "-q", *at_once, str(image))
        device = _run("losetup", "--find", "--show", "--direct-io=on", str(image))
        number = _number(device)
        undo.callback(_hold, number, dict.fromkeys(LIMITS, 0))
        _run("mount", "-o", "noatime", device, str(mount))
        _hold(number, LIMITS)
        yield


def devices_of(image: Path) -> list[str]:
    """The loop devices that a file is attached to."""
    return _run("losetup", "--associated", str(image), "--output", "NAME", "--noheadings").split()


def _limit(name: str) -> Path:
    return LIMITS_FOLDER / f"blkio.throttle.{name}_device"


def _number(device: str) -> str:
    return Path(f"/sys/block/{Path(device).name}/dev").read_text(encoding="ascii").strip()


def _hold(number: str, limits: dict[str, int]) -> None:
    """Limit a device; 0 is no limit."""
    for name, value in limits.items():
        try:
            _limit(name).write_text(f"{number} {value}", encoding="ascii")
        except OSError as error:
            raise NotThrottled(f"{_limit(name)} cannot be set: {error.strerror}") from None


def _unmount(mount: Path) -> None:
    deadline = time.monotonic() + UNMOUNT_S
    while mount.is_mount():
        try:
            _run("umount", str(mount))
        except NotThrottled:
            # The server's last processes may still be ending.
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def _detach(image: Path) -> None:
    for device in devices_of(image):
        _run("losetup", "--detach", device)


def _run(program: str, *arguments: str) -> str:
    try:
        done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise NotThrottled(f"{program}: {said[-1] if said else 'it failed'}") from None
    return done.stdout.strip()


# --- a library in front of a folder ----------------------------------------------------------------------------------

SOURCE = Path(__file__).with_name("shim.c")
COMPILERS = ("cc", "gcc", "clang")
IOPS, READ_BYTES, WRITE_BYTES = 67, 77_000_000, 129_000_000
"""A seek and its page 67 times a second; 77 MB/s is what the throttled device gives to a scan."""
CLOCK_BYTES = 4096
SERVER_SETTINGS = {"io_method": "sync"}
"""The server's processes read themselves: what the kernel reads for them is not slowed down."""


class NotShimmed(Exception):
    """The library cannot be made; the message is one line."""


def shim_lacking() -> str | None:
    """What is missing here for it, in words; None where nothing is."""
    if _compiler() is None:
        return f"there is no C compiler ({', '.join(COMPILERS)})"
    return None


@contextmanager
def shimmed(folder: Path, slow: Path) -> Iterator[None]:
    """Make a folder slow for all programs that are started meanwhile.

    folder: for the library and its clock; the programs' accounts can pass it. slow: as its files are really named.

    Raises:
        NotShimmed: the library cannot be made.
    """
    library, clock = folder / "shim.so", folder / "clock"
    _compile(library)
    clock.write_bytes(bytes(CLOCK_BYTES))
    clock.chmod(0o666)
    changed = {
        "LD_PRELOAD": os.pathsep.join(filter(None, (str(library), os.environ.get("LD_PRELOAD")))),
        "TRIGGERLOG_SLOW_FOLDER": str(slow.resolve()),
        "TRIGGERLOG_SLOW_CLOCK": str(clock),
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _compiler() -> str | None:
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def _compile(library: Path) -> None:
    figures = {"IOPS": f"{IOPS}", "READ_BYTES": f"{READ_BYTES}LL", "WRITE_BYTES": f"{WRITE_BYTES}LL"}
    options = ["-O2", "-shared", "-fPIC", *(f"-D{name}={value}" for name, value in figures.items())]
    compiler = _compiler()
    if compiler is None:
        raise NotShimmed(str(shim_lacking()))
    command = [compiler, *options, "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise NotShimmed(f"{SOURCE.name} does not compile: {lines[-1] if lines else compiler}")


# --- the choice ------------------------------------------------------------------------------------------------------

LOOP, SHIM = KINDS = ("loop", "shim")
WORDS = {LOOP: "a loop device with limits of the kernel", SHIM: "a preloaded library that waits as a hard disk does"}
IMAGE_MIB = 6144


class NoSlowDisk(Exception):
    """There is none to be had; the message is one line with what is lacking."""


@dataclass(frozen=True, kw_only=True)
class SlowDisk:
    """A slow disk. folder: on it. settings: of a PostgreSQL that uses it. note: why it is not the better one, or ""."""

    kind: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def words(self) -> str:
        """What it is."""
        return WORDS[self.kind]


def chosen(wanted: str | None, loop_lacks: str | None, shim_lacks: str | None) -> tuple[str, str]:
    """The kind that is used, and a sentence that says why where it is not the better one; pure.

    wanted: a kind, or None for the best one. loop_lacks, shim_lacks: what is missing for either, None where nothing is.

    Raises:
        NoSlowDisk: there is none.
    """
    lacks = {LOOP: loop_lacks, SHIM: shim_lacks}
    for kind in KINDS if wanted is None else (wanted,):
        if lacks[kind] is None:
            is_second = wanted is None and kind == SHIM
            return kind, f"The slow disk is {WORDS[SHIM]}: for {WORDS[LOOP]}, {loop_lacks}." if is_second else ""
    missing = "; ".join(f"for {WORDS[kind]}, {lacks[kind]}" for kind in KINDS if wanted in (None, kind))
    raise NoSlowDisk(f"there is no slow disk: {missing}")


@contextmanager
def slow_disk(folder: Path, wanted: str | None, print_line: Callable[[str], None]) -> Iterator[SlowDisk]:
    """Have a slow disk; nothing is left of it afterwards.

    folder: on a fast disk, for the file of a device. wanted: as `chosen` takes it.

    Raises:
        NoSlowDisk: there is none; the message says what is lacking.
    """
    kind, note = chosen(wanted, loop_lacking(), shim_lacking())
    if note:
        print_line(note)
    with ExitStack() as stack:
        # A server of another account has to pass the folders above.
        place = Path(tempfile.mkdtemp(prefix="triggerlog-slow-"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o711)
        slow = place / "disk"
        slow.mkdir(mode=0o711)
        try:
            if kind == LOOP:
                stack.enter_context(throttled(folder / "slow.img", slow, IMAGE_MIB))
                yield SlowDisk(kind=kind, folder=slow)
            else:
                stack.enter_context(shimmed(place, slow))
                yield SlowDisk(kind=kind, folder=slow, settings=SERVER_SETTINGS, note=note)
        except (NotThrottled, NotShimmed) as error:
            raise NoSlowDisk(f"there is no slow disk: {error}") from None
