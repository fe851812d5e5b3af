"""A connection to a store of folders, as the shared code needs it, and the chunks that it reads and writes.

In the layout `arrays` a row is a chunk, which has intervals of many channels as packed bytes. An insertion writes
chunks of its own, which nobody changes any more. A chunk has at most CHUNK_BYTES of intervals of one class of lengths
that begin one behind the other. It is found as an interval is: it begins where the first one does, ends where the last
one does, and has the class of that length. What is asked for is then chosen among what is in it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.sql.folders.tables import FoldersTables, FolderTables, closed_name, folder_tables, stored_fields
from backends.sql.session import Rows, SqlSession
from schemas.conditions.rules import ConditionsRefused, unknown
from schemas.folders.folders import KEY, Folder, NewFolder
from schemas.folders.timeline import length_classes
from schemas.readings import Array


@dataclass(frozen=True, kw_only=True)
class StoredFolder:
    """A folder where it is stored.

    id: its number in the tables that all share. token: what the names of its own tables are made of.
    lengths: the longest interval of each class of lengths.
    """

    id: int
    folder: Folder
    token: str
    lengths: dict[int, int]


class FoldersSession(SqlSession):
    """One connection, used by one caller at a time."""

    def __init__(self, tables: FoldersTables) -> None:
        names = (self.quoted(table.name) for table in tables.all())
        self.nodes, self.channels, self.lengths, self.positions, self.tags = names

    @abstractmethod
    def column(self, name: str) -> str:
        """Name of a column, quoted."""

    @abstractmethod
    def by_index(self, index: str) -> str:
        """What follows a table so that its primary key (`PRIMARY`) or another index is taken; may be empty."""

    @abstractmethod
    async def create_folder(self, tables: FolderTables) -> None:
        """Create the tables of a folder. Nothing was changed in the transaction before."""

    @abstractmethod
    async def drop_folder(self, tables: FolderTables) -> None:
        """Drop the tables of a folder, if they are there, and commit what was changed before if need be."""

    @abstractmethod
    async def insert_block(self, table: str, fields: Sequence[tuple[str, str]], block: Array) -> None:
        """Insert rows. fields: `stored_fields`; block: with a field for each of them."""

    @abstractmethod
    async def select_block(self, text: str, fields: Sequence[tuple[str, str]]) -> Array:
        """The rows that a query finds, packed; fields: names and dtypes of its columns, which `selected` wrote."""

    @abstractmethod
    async def select_chunks(self, text: str) -> Rows:
        """The rows that a query finds of a folder whose layout is `arrays`."""

    @abstractmethod
    def selected(self, name: str, form: str, of: str = "") -> str:
        """A column so that each of its values takes as many bytes as its dtype. of: the table's alias and a dot."""

    async def after_insert(self, stored: StoredFolder) -> None:
        """Do what a folder's layout needs at the end of an insertion."""

    def closed(self, stored: StoredFolder) -> str:
        """Table of a folder's intervals with an end."""
        return self.quoted(closed_name(stored.token))

    def opened(self, stored: StoredFolder) -> str:
        """Table of a folder's open intervals."""
        return self.quoted(f"{closed_name(stored.token)}_open")

    async def store(self, stored: StoredFolder, *, block: Array, classes: Array, is_open: bool) -> None:
        """Insert intervals of a version behind the folder's. classes: of their lengths, int16."""
        if not len(block):
            return
        fields = stored_fields(stored.folder.columns)
        rows = np.empty(len(block), np.dtype(list(fields)))
        rows["length_class"], rows["version"] = classes, stored.folder.version + 1
        for name in block.dtype.names or ():
            rows[name] = block[name]
        name = closed_name(stored.token)
        await self.insert_block(f"{name}_open" if is_open else name, fields, rows)

    async def store_chunks(self, stored: StoredFolder, block: Array) -> Array:
        """The same of intervals with an end, in the layout `arrays`; return from when until when each chunk is."""
        spans, data = cut(block)
        version, keys = (
            stored.folder.version + 1,
            zip(*(spans[name].tolist() for name in ("since", "until")), strict=True),
        )
        rows = [
            (class_, *key, version, number, each)
            for number, (class_, key, each) in enumerate(zip(length_classes(spans).tolist(), keys, data, strict=True))
        ]
        if rows:
            columns = ("length_class", "since", "until", "version", "number", "data")
            await self.insert_rows(closed_name(stored.token), columns, rows)
        return spans


def is_gone() -> ConditionsRefused:
    """A folder was removed between the questions for what it is and for what is in it."""
    return unknown("path", "the folder")


def tables_of_new(schema: str, new: NewFolder, token: str) -> FolderTables:
    """The tables of a folder that is to be added."""
    return folder_tables(schema, token, new.columns, new.layout)


CHUNK_BYTES = 100_000
"""About what is read in vain at each end of a span; of a folder of 1,000 channels of 1 kB, a snapshot has 1 MB."""


def cut(block: Array) -> tuple[Array, list[bytes]]:
    """Intervals as chunks: where each begins and ends (as `KEY`, the channel is 0), and what is in each."""
    block = block[np.lexsort((block["channel"], block["since"]))]
    classes, most = length_classes(block), max(1, CHUNK_BYTES // block.itemsize)
    alike = (block[classes == each] for each in np.unique(classes))
    parts = [some[first : first + most] for some in alike for first in range(0, len(some), most)]
    spans = np.array([(0, part["since"].min(), part["until"].max()) for part in parts], list(KEY))
    return spans, [part.tobytes() for part in parts]


def unpacked(chunks: Sequence[Sequence[Any]], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Intervals of chunks, and their versions (int64). chunks: version and bytes of each; dtype: of the intervals."""
    block = np.frombuffer(b"".join(data for _, data in chunks), dtype)
    lengths = [len(data) // dtype.itemsize for _, data in chunks]
    versions = np.array([version for version, _ in chunks], np.int64)
    return block, np.repeat(versions, np.array(lengths, np.int64))
