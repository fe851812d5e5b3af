"""The state folder belongs to one process at a time: to the daemon, or to a command that changes what lies in it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from backends.files import FolderInUse, FolderLock
from daemon.core.outcome import CommandFailed, fix_of, reason_of
from daemon.core.outside import SystemDisk

LOCK = "lock"
RESTORING = "restoring"
"""A folder in it where files wait while `triggerlog restore` fills the database: until then neither is whole."""


class StateFolderInUse(CommandFailed):
    """Another process has it."""


def removal_of_half(state_dir: Path) -> str:
    """Say what to do where half a restore is left."""
    return (
        f"drop what it made there (an embedded one: remove {state_dir / 'postgresql'}), remove {state_dir / RESTORING},"
        " and restore again"
    )


def close_to_others() -> None:
    """Keep from other users what this process and its children write, as far as that is not so already.

    Folders can be passed through, not listed: root runs the embedded PostgreSQL in one of them under another account.
    """
    os.umask(os.umask(0o077) | 0o026)


def is_in_use(state_dir: Path) -> bool:
    """Return whether a process has the state folder, or may have it: it is another user's."""
    try:
        if (state_dir / LOCK).exists():
            FolderLock(state_dir / LOCK, shared=True).release()
    except (FolderInUse, PermissionError):
        return True
    return False


@contextlib.contextmanager
def only_one(state_dir: Path) -> Iterator[None]:
    """Hold the state folder: two daemons in one folder would both write its dead letters and run its database.

    Raises:
        StateFolderInUse: another process has it.
        CommandFailed: it cannot be used, or holds a restore that was interrupted.
    """
    try:
        disk = SystemDisk()
        disk.make_folder(state_dir)
        # An earlier process may have made it, and ended before its name was on the disk.
        disk.sync_folder(state_dir.parent)
        lock = FolderLock(state_dir / LOCK)
    except FolderInUse:
        raise StateFolderInUse(
            f"state_dir: another daemon uses {state_dir}; stop it, or give this one a folder of its own"
        ) from None
    except OSError as error:
        fix = fix_of(error, "name a folder the daemon may write to")
        raise CommandFailed(f"state_dir: {state_dir} cannot be used ({reason_of(error)}); {fix}") from None
    with lock:
        if (state_dir / RESTORING).exists():
            raise CommandFailed(
                f"state_dir: a restore into {state_dir} was interrupted, and the database is not whole;"
                f" {removal_of_half(state_dir)}"
            )
        yield
