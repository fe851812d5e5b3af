"""Copies of what a database has, made by its own tools: the interface, and how these programs are run.

Each database's package has `backup_tools`, a context that gives `DatabaseTools`. A password never stands on a command
line, where everybody on the machine can read it.
"""

import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Protocol

from backends.base import StoreError, StoreUnavailable

BLOCK_BYTES = 1 << 20
"""So much is read of a program at once."""


class SchemaChanged(StoreUnavailable):
    """Tables were made, moved or dropped meanwhile, so that the copy is not of one moment: begin again."""


class ToolMissing(StoreError):
    """A program is not there; the message names the package that has it."""


class DatabaseTools(Protocol):
    """The tools of one database, which ask its server when they are used.

    Attributes:
        at_one_moment: a dump shows one moment while others write; else nobody may write meanwhile.
        description: server and tools with their versions, for a person.
    """

    at_one_moment: bool
    description: str

    def filled(self, schemas: Sequence[str]) -> list[str]:
        """Return those schemas (or databases) that are on the server and have something in them."""

    def nbytes(self, schemas: Sequence[str]) -> int:
        """Estimate the length of a dump, in bytes; 0 where the server does not tell."""

    def dumps(self, schemas: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the dumps that hold these schemas: a file name each, and the schemas that are in it."""

    def dump(self, schemas: Sequence[str]) -> Iterator[bytes]:
        """Write one of these dumps, block by block.

        Raises:
            SchemaChanged: it has to be begun again.
            StoreError: the server or the program refuses.
        """

    def restore(self, schemas: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Read one of these dumps into a server that has nothing in its schemas.

        Where `blocks` raises, what was read so far may be in the server, or not.

        Raises:
            StoreError: the server or the program refuses.
        """

    def drop(self, schemas: Sequence[str]) -> None:
        """Remove what a restore that failed has made."""

    def removal(self, schemas: Sequence[str]) -> str:
        """Return what a person would type to remove schemas."""


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, stdin: int | None = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program whose output is read from `stdout`; an error in here kills it.

    Raises:
        StoreError: it fails; with what it said.
    """
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603 - the database's own programs, our own arguments
            command, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=said
        )
        try:
            yield process
            _close(process)
            code = process.wait()
        except BrokenPipeError:  # it ended before it had read all, and says why
            code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            _close(process)
        if code:
            said.seek(0)
            name = command[0].rpartition("/")[2]
            raise StoreError(f"{name}: {reason_in(said.read(), code).removeprefix(f'{name}: ')}")


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what it had not read is of no use to a program that has ended


def output_of(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, given: bytes | None = None
) -> bytes:
    """Run a program that reads `given`, a few lines, and return what it writes.

    Raises:
        StoreError: it fails.
    """
    with running(command, environment, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given or b"")
        process.stdin.close()
        return process.stdout.read()


def blocks_of(pipe: IO[bytes] | None) -> Iterator[bytes]:
    """Read a pipe to its end."""
    assert pipe is not None
    while block := pipe.read(BLOCK_BYTES):
        yield block


@contextmanager
def fed(process: subprocess.Popen[bytes], blocks: Iterable[bytes]) -> Iterator[None]:
    """Write blocks into a program from a thread, while in here its output is read.

    Where a block cannot be had, the program is killed before it can take what came for all, and that error is raised.
    """
    assert process.stdin is not None
    pipe, failed = process.stdin, list[BaseException]()

    def feed() -> None:
        try:
            for block in blocks:
                pipe.write(block)
            pipe.close()
        except BrokenPipeError:
            return  # the program has ended, and says why
        except BaseException as error:
            failed.append(error)
            process.kill()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    except BaseException:
        process.kill()
        raise
    finally:
        thread.join()
        if failed:
            raise failed[0]


def reason_in(said: bytes, code: int) -> str:
    """Find the line that says why a program failed."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    wrong = [line for line in lines if re.search(r"\b(error|fatal|failed|denied)\b", line, re.IGNORECASE)]
    wrong = [line for line in wrong if not re.search(r"\b(warning|notice):", line, re.IGNORECASE)]
    return (wrong or lines or [f"it ended with {code}"])[0]


def found(names: Sequence[str], package: str, find: Callable[[str], str | None]) -> str:
    """Return the path of a program by the first of its names that there is.

    Raises:
        ToolMissing: there is none.
    """
    for name in names:
        path = find(name)
        if path is not None:
            return path
    raise ToolMissing(f"{' or '.join(names)} is not on this machine; install {package}")
