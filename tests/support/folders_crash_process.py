"""A process that loads a folder or reports on change until killed, and what it does."""

import asyncio
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from backends import open_folders_store
from backends.folders.base import FoldersStore
from backends.kinds import KINDS
from schemas.batch import JournalPosition
from schemas.config import DatabaseConfig
from schemas.folders.blocks import OPEN, Insertion
from schemas.folders.folders import Column, Folder, FolderKind
from tests.support.folders import new_folder
from tests.support.lives import SQL_SERVERS

# Imported once, for all that are forked.
for _backend in SQL_SERVERS.values():
    KINDS[_backend].implementation("folders")

CHANNELS = 20
EACH = 3
"""Intervals of each channel that one order inserts."""
FOLDERS = {
    "load": FolderKind.SINGLE,
    "follow": FolderKind.SINGLE,
    "version": FolderKind.MULTI,
    "report": FolderKind.SINGLE,
}
"""What orders there are: closed intervals; open ones, which end those before; new versions; reports."""


def live(dsn: str, schema: str, what: str, first: int, said: Connection) -> None:
    """Give orders of one kind, numbered from `first` on, until killed; say the number of each that was acknowledged."""

    async def orders() -> None:
        store = open_folders_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=Path())
        said.send(-1)
        for number in count(first):
            await insert(store, what, number)
            said.send(number)

    asyncio.run(orders())


async def prepare(store: FoldersStore) -> None:
    """Make a folder for each kind of orders."""
    await store.create()
    columns = (Column(name="number", dtype="int64"), Column(name="text", dtype="text", width=200))
    for what, kind in FOLDERS.items():
        channels = {k: f"c{k}" for k in range(CHANNELS)}
        await store.add_folder(new_folder(f"/{what}", kind, columns=columns, channels=channels))


async def insert(store: FoldersStore, what: str, number: int) -> bool:
    """Give an order: all of its intervals, or none. Return whether any are new."""
    insertion = Insertion(
        block=intervals(await store.folder(f"/{what}"), what, number),
        source="crashing",
        position=JournalPosition(sequence=number + 1),
    )
    if what != "report":
        return await store.insert(f"/{what}", insertion)
    reported = await store.report(f"/{what}", insertion)
    assert not reported.conflicts
    assert reported.stored + reported.duplicates == len(insertion.block)
    return reported.stored > 0


def intervals(folder: Folder, what: str, number: int) -> np.ndarray:
    """What an order inserts: intervals that follow each other, by number and channel.

    Of reports every second order is late, so that it shortens what there is, and the last of some channels is an end.
    """
    place = number ^ 1 if what == "report" else number
    block = np.zeros(CHANNELS * EACH, folder.dtype)
    block["channel"] = np.repeat(np.arange(CHANNELS), EACH)
    block["since"] = np.tile(np.arange(EACH), CHANNELS) + EACH * place
    block["until"] = OPEN if what != "load" else block["since"] + 1
    if what == "report":
        ends = (block["channel"] % 2 == 1) & (block["since"] % EACH == EACH - 1)
        block["until"][ends] = block["since"][ends]
    if what == "version":
        block["until"] = block["since"] + EACH * 1000
        block = block[::EACH]
    block["number"] = number
    block["text"] = b"x" * (number % 200)
    if what == "report":
        block["number"][ends], block["text"][ends] = 0, b""
    return block
