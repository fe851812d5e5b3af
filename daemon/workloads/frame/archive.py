"""The archive of a workload's runs: `folder/ID.json` is the record of each, `folder/ID.*` are its other files."""

import contextlib
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from backends.files import replace_file
from daemon.core.outcome import reason_of

MOST = 100
"""Runs that are kept; older ones go with all of their files."""
ID = re.compile(r"\d{8}T\d{6}Z(-\d+)?")

Files = dict[str, tuple[int, int]]
"""The files of a run by their endings, with the time of their last change, in ns, and their size."""


R = TypeVar("R", bound=BaseModel)
S = TypeVar("S", bound=BaseModel)


class RecordDamaged(ValueError):
    """A file is no record that this version can read; the message is one line that names it."""


class RunArchive(Generic[R, S]):
    """Reads and writes files; nothing here is for the event loop.

    Args:
        folder: made with the first record.
        record: the model of a record.
        summary: makes the line of the list of a record and of the endings of its files.
    """

    def __init__(self, folder: Path, record: type[R], summary: Callable[[R, Files], S]) -> None:
        self.folder = folder
        self.damaged: list[str] = []
        self._record = record
        self._summary = summary
        self._summaries: dict[str, tuple[Files, S]] = {}

    def new_id(self) -> str:
        """An id that no run has: the time, in UTC."""
        began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        tried = itertools.chain([began], (f"{began}-{i}" for i in itertools.count(2)))
        return next(name for name in tried if not self.path(name).exists())

    def path(self, name: str, ending: str = ".json") -> Path:
        """A file of a run."""
        return self.folder / f"{name}{ending}"

    def names(self) -> list[str]:
        """The runs that there are, the newest first."""
        return list(self._files())

    def summaries(self) -> list[S]:
        """A line each, the newest first; the records that cannot be read are in `damaged` instead."""
        found: dict[str, tuple[Files, S]] = {}
        self.damaged = []
        for name, files in self._files().items():
            known = self._summaries.get(name)
            try:
                # A page asks every few seconds, and a record may have megabytes.
                if known is None or known[0] != files:
                    known = files, self._summary(self.read(name), files)
                found[name] = known
            except FileNotFoundError:
                continue
            except OSError as error:
                self.damaged.append(f"{self.path(name)} cannot be read ({reason_of(error)})")
            except ValueError as error:
                self.damaged.append(str(error))
        self._summaries = found
        return [summary for _, summary in found.values()]

    def read(self, name: str) -> R:
        """Read a record.

        Raises:
            OSError: it is not there.
            RecordDamaged: it is none of this version.
        """
        return read_record(self.path(name), self._record)

    def write(self, name: str, record: R) -> None:
        """Write a record: whole, or it stays as it was before.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.path(name), record.model_dump_json(indent=1, by_alias=True).encode(), mode=0o644)

    def remove_old(self, most: int = MOST) -> list[str]:
        """Remove all but the newest runs; return which went."""
        old = self.names()[most:]
        for name in old:
            self.remove(name)
        return old

    def remove(self, name: str) -> None:
        """Remove a run's files."""
        for path in self.folder.glob(f"{name}.*"):
            path.unlink(missing_ok=True)

    def _files(self) -> dict[str, Files]:
        """The files of each run that has a record, the newest run first."""
        found: dict[str, Files] = {}
        for name, ending, entry in self._entries():
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                state = entry.stat()
                found.setdefault(name, {})[ending] = state.st_mtime_ns, state.st_size
        return {name: found[name] for name in sorted(found, key=_age, reverse=True) if ".json" in found[name]}

    def _entries(self) -> Iterator[tuple[str, str, os.DirEntry[str]]]:
        if not self.folder.exists():
            return
        with os.scandir(self.folder) as entries:
            for entry in entries:
                name, dot, ending = entry.name.partition(".")
                if ID.fullmatch(name):
                    yield name, dot + ending, entry


def read_record(path: Path, record: type[R]) -> R:
    """Read a record from a file anywhere.

    Raises:
        OSError: it is not there.
        RecordDamaged: it is none of this version.
    """
    try:
        return record.model_validate_json(path.read_bytes())
    except ValidationError as error:
        reason = str(error).splitlines()[0]
        raise RecordDamaged(
            f"{path} is no record of a run that this version can read ({reason}); read it with the version that wrote "
            "it, or remove it"
        ) from None


def _age(name: str) -> tuple[str, int]:
    began, _, number = name.partition("-")
    return began, int(number or 1)
