"""Small folders for tests of stores: insertions in one line each, and answers as values to compare."""

from collections.abc import Awaitable, Iterable
from typing import Any

import numpy as np
import pytest

from backends.folders.base import FoldersStore
from schemas.batch import JournalPosition
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.blocks import OPEN, Insertion
from schemas.folders.folders import Column, Folder, FolderKind, FolderLayout, NewFolder
from schemas.folders.timeline import Reported
from schemas.readings import Array

COLUMNS = (Column(name="value", dtype="float64"), Column(name="note", dtype="text", width=12))
CHANNELS = {0: "T0", 1: "T1", 2: "T2", 7: "T7"}
Row = tuple[int, int, int | None, float]
"""Channel, since, until (None is open), value; the note is made of the value."""
Report = tuple[int, int, float | None]
"""Channel, time, value; None is an end."""


def new_folder(
    path: str = "/slow/temperature",
    kind: FolderKind = FolderKind.SINGLE,
    layout: FolderLayout = FolderLayout.WINDOW,
    columns: tuple[Column, ...] = COLUMNS,
    channels: dict[int, str] | None = None,
) -> NewFolder:
    """A folder of a few channels."""
    return NewFolder(
        path=path, kind=kind, layout=layout, columns=columns, channels=CHANNELS if channels is None else channels
    )


def block(folder: Folder | NewFolder, rows: Iterable[Row]) -> Array:
    """Intervals of a folder that has COLUMNS."""
    made = [
        (channel, since, OPEN if until is None else until, value, note(value)) for channel, since, until, value in rows
    ]
    return np.array(made, folder.dtype)


def note(value: float) -> bytes:
    """Texts of several lengths, one of them empty."""
    return b"" if value == 0 else f"µ{value:g}".encode()[:12]


def rows(found: Array) -> list[Row]:
    """Intervals that a store answered, which have the notes of their values."""
    assert [each["note"] for each in found] == [note(each["value"]) for each in found]
    return [
        (channel, since, None if until == OPEN else until, value) for channel, since, until, value, _ in found.tolist()
    ]


def reports(folder: Folder | NewFolder, given: Iterable[Report]) -> Array:
    """Reports of a folder that has COLUMNS; of ends the values are not looked at."""
    rows = [
        (channel, since, since if value is None else None, np.nan if value is None else value)
        for channel, since, value in given
    ]
    return block(folder, rows)


class Source:
    """Numbers its insertions."""

    def __init__(self, store: FoldersStore, name: str = "test") -> None:
        self._store, self._name, self._last = store, name, 0

    def next(self, of: Array) -> Insertion:
        """The next insertion."""
        self._last += 1
        return Insertion(block=of, source=self._name, position=JournalPosition(sequence=self._last))

    async def report(self, folder: Folder, *given: Report) -> Reported:
        """Report values."""
        return await self._store.report(folder.path, self.next(reports(folder, given)))

    async def insert(self, folder: Folder, *given: Row) -> None:
        """Insert intervals that are not there yet."""
        assert await self._store.insert(folder.path, self.next(block(folder, given)))


async def refused(order: Awaitable[object], kind: RefusalKind, field: str) -> ConditionsRefused:
    """See that an order is refused, names a field, and says why."""
    with pytest.raises(ConditionsRefused) as caught:
        await order
    assert caught.value.kind is kind, caught.value
    assert caught.value.field == field, caught.value
    assert all((caught.value.problem, caught.value.fix))
    return caught.value


async def everything(store: FoldersStore) -> list[Any]:
    """All that a store answers, for folders of few intervals."""
    folders = await store.folders()
    return [
        list(await store.sets()),
        list(folders),
        [dict(await store.channels(each.path)) for each in folders],
        [list(await store.tags(each.path)) for each in folders],
        [(await store.changes(each.path, -1, OPEN - 1)).tolist() for each in folders],
    ]
