"""A loop device that the kernel holds to the figures of a hard disk (control groups, version 1). Root only.

The limits of the root group cover what the kernel writes later, too. Everything is undone, whatever happens.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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


def lacking() -> str | None:
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
