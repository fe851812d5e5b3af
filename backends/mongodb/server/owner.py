"""The owner of groups: a process, described so that another of the same machine knows when it is gone."""

import os
import socket
import uuid
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")


def new_owner() -> str:
    """Name this process as an owner, another each time: `host:pid:mark`."""
    return f"{socket.gethostname()}:{os.getpid()}:{_where()}-{_born(os.getpid())}-{uuid.uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether an owner was a process of this machine, and is gone; False where nobody here can tell.

    A number alone says nothing: another process may have it by now, and a container numbers its own. So the mark has
    the boot of the kernel, the namespace of the numbers, and when the process began.
    """
    _, _, rest = owner.partition(":")
    pid, _, mark = rest.partition(":")
    parts = mark.split("-")
    if not pid.isdecimal() or len(parts) != 3 or not parts[0] or parts[0] != _where():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # somebody else's; and /proc may be hidden from us, unlike whether the number is in use
    return _born(int(pid)) not in (parts[1], None)


def _where() -> str:
    """The boot of the kernel and the namespace of process numbers; empty where it does not say."""
    try:
        return f"{BOOT.read_text().strip().replace('-', '')}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _born(pid: int) -> str | None:
    """When a process began, in ticks of the kernel's clock; `-` when it has ended all but for its number.

    None where that is not known.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in brackets, may have any character; the fields behind it are as in proc(5).
    state, *fields = text.rpartition(")")[2].split()
    return "-" if state in "ZX" else fields[18]
