"""The interface every store implements, and how it fails.

A store only writes and reads: no retry, sleep or batching.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from schemas.batch import Batch, JournalPosition
from schemas.queries import Query
from schemas.readings import Array


class StoreError(Exception):
    """Something went wrong between the daemon and the database; the message is one line for an operator."""


class StoreUnavailable(StoreError):
    """The database does not answer, or not now: try the same again later."""


class BatchRejected(StoreError):
    """The database will never take this batch: trying again cannot help."""


class SchemaMismatch(StoreError):
    """What is in the database does not fit the configuration; the message names the difference and the mend."""


@dataclass(frozen=True, kw_only=True)
class StoreFacts:
    """What a store says of itself, asked of the server and not of the configuration.

    rows, size_bytes: by group; rows is the server's estimate where counting would be dear.
    """

    backend: str
    version: str
    durability: str
    target: str
    embedded: bool = False
    rows: Mapping[str, int] = field(default_factory=dict)
    size_bytes: Mapping[str, int] = field(default_factory=dict)


class Store(Protocol):
    """A database. One store serves all the groups of a logger; calls for different groups may overlap.

    Every method raises StoreUnavailable when the database does not answer in time. After that the store is still
    usable: the next call connects again.
    """

    async def open(self) -> None:
        """Create the schema, or check the one that is there.

        Raises:
            SchemaMismatch: it does not fit the configuration, or another logger owns it. Nothing was changed.
        """

    async def commit(self, batch: Batch) -> None:
        """Commit all of the batch or none; return when the server has acknowledged it at `batch.durability`.

        Committing the same batch again changes nothing: the position tells that it is there already.

        Raises:
            BatchRejected: the server will never take it.
        """

    async def position(self, group: str) -> JournalPosition | None:
        """Up to where this store holds what this logger closed for the group; None before the first batch."""

    async def ask(self, query: Query) -> Array:
        """Answer one of `schemas.queries` as a structured array; an empty one when there is nothing."""

    async def facts(self) -> StoreFacts:
        """Version, durability really in force, row counts and sizes."""

    async def close(self) -> None:
        """Give back connections; an embedded server stops when its last user closes."""
