"""A library that programs preload, which makes one folder as slow as a hard disk: it takes a C compiler."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
COMPILERS = ("cc", "gcc", "clang")
IOPS, READ_BYTES, WRITE_BYTES = 67, 77_000_000, 129_000_000
"""A seek and its page 67 times a second; 77 MB/s is what the throttled device gives to a scan."""
CLOCK_BYTES = 4096
SERVER_SETTINGS = {"io_method": "sync"}
"""The server's processes read themselves: what the kernel reads for them is not slowed down."""


class NotShimmed(Exception):
    """The library cannot be made; the message is one line."""


def lacking() -> str | None:
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
        raise NotShimmed(str(lacking()))
    command = [compiler, *options, "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise NotShimmed(f"{SOURCE.name} does not compile: {lines[-1] if lines else compiler}")
