"""How a command ends and what it says: shared by the commands of the command line."""

import errno
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from schemas.checking.addresses import host_and_port

VISITS_NEED = {"lsst": "lsst-sphgeom"}
"""What visits need beyond the daemon (the extra `visits`): packages by the names of their modules."""


class CommandFailed(Exception):
    """A command cannot do what was asked; the message is one line that says why and what fixes it."""


def require_extra(extra: str, what: str, packages: Mapping[str, str]) -> None:
    """See that the packages of an extra are installed.

    Args:
        extra: its name in pyproject.toml.
        what: needs it.
        packages: by the names of their modules.

    Raises:
        CommandFailed: one is missing; the message says what installs it.
    """
    missing = ", ".join(package for module, package in packages.items() if find_spec(module) is None)
    if missing:
        raise CommandFailed(f"{what} needs {missing}, not installed here; {installing(extra)}")


def installing(extra: str) -> str:
    """Say how to install an extra. Whoever has the name of this project in an index may be somebody else."""
    return f"run `make setup` in the checkout of triggerlog, or: pip install '/path/to/the/checkout[{extra}]'"


def examples(*lines: str) -> str:
    """Write the examples under a command's help; a blank line between two, or they would run into one paragraph."""
    return "\n\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])


def reason_of(error: OSError) -> str:
    """Say why the system refused, in its own short words; event loops put sentences of theirs around them."""
    if isinstance(error, socket.gaierror):
        return (error.strerror or str(error)).lower()
    return os.strerror(error.errno).lower() if error.errno else str(error)


def fix_of(error: OSError, otherwise: str) -> str:
    """What to do where the system refused a file or folder; `otherwise` is for what it says nothing special of."""
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "run this as a user who may, such as the daemon's"
        case errno.ENOSPC | errno.EDQUOT:
            return "free space on its disk"
        case errno.EIO:
            return "look for errors of its disk (`dmesg`), and replace the disk"
        case errno.ENAMETOOLONG:
            return "give it a shorter path"
        case errno.EFBIG if error.strerror:
            return error.strerror
    return otherwise


def read_at_most(path: Path, most: int) -> bytes:
    """Read a file that somebody names.

    Raises:
        OSError: it cannot be read, or has more bytes (EFBIG), of which `fix_of` gives the limit.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"give one of at most {most / 2**20:g} MiB", str(path))
    return content


@contextmanager
def names_file(path: Path) -> Iterator[None]:
    """Give an error of the system the name of the file, where it has none: a write or a read gives none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def file_words(error: OSError) -> str:
    """What the system refused, as a line for an operator who knows which file it was about."""
    fix = fix_of(error, "see that it is there, and what it should be")
    return f"{error.filename} cannot be used ({reason_of(error)}); {fix}" if error.filename else reason_of(error)


def reasons_of(error: BaseException) -> Iterator[str]:
    """Why a process ends, a line for each reason: of a group of errors each of them, and of a defect that it is one."""
    # Imported here: most processes end without an error.
    from backends.base import StoreError  # noqa: PLC0415
    from schemas.checking.problems import printable  # noqa: PLC0415
    from schemas.config import ConfigError  # noqa: PLC0415

    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from reasons_of(part)
    elif isinstance(error, ConfigError):
        yield from map(str, error.problems)
    elif isinstance(error, CommandFailed | StoreError):
        yield str(error)
    elif isinstance(error, OSError):
        yield printable(file_words(error))
    else:
        yield f"{type(error).__name__}: {error} (a defect of triggerlog; TRIGGERLOG_TRACEBACK=1 shows where)"


def cannot_listen(section: str, host: str, port: int, error: OSError) -> CommandFailed:
    """Why nobody can listen there, in the words of the section that says where."""
    key, fix = "port", "stop what uses it, or give another port"
    if isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        key, fix = "host", "give an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
    elif error.errno == errno.EACCES:
        fix = "give a port above 1023"
    return CommandFailed(f"{section}.{key}: cannot listen on {host_and_port(host, port)} ({reason_of(error)}); {fix}")
