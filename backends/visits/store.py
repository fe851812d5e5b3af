"""What the databases' stores of visits have in common: a session, and in it the tables of the index mode."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

from backends.visits.rows import tables_by_name
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class ReadTables(Protocol[S_contra]):
    """The tables of an index mode, as far as they are read; each method uses the session it is given."""

    async def objects(self, session: S_contra, region: Region) -> Array:
        """Last versions, each object once."""

    async def history(self, session: S_contra, table: str, history: History) -> Array:
        """Rows of DIASource or DIAForcedSource."""

    async def count(self, session: S_contra, table: str) -> int:
        """Rows of a table, counted."""

    async def whole(self, session: S_contra, table: str) -> Array:
        """All rows of a table, in the order of its key."""


class SessionVisitStore(ABC, Generic[S]):
    """What is alike in every database; see `backends.visits.base.VisitStore` for what the methods promise."""

    def __init__(self, visits: VisitsConfig, tables: ReadTables[S]) -> None:
        self._visits = visits
        self._tables = tables
        self._names = tuple(tables_by_name(visits))

    @abstractmethod
    def _session(self) -> AbstractAsyncContextManager[S]:
        """A session of one step of a visit."""

    @abstractmethod
    def _long_session(self) -> AbstractAsyncContextManager[S]:
        """A session for what goes through whole tables."""

    async def connect(self) -> None:
        """Connect, if that is not so already."""
        async with self._session():
            pass

    async def prepare(self, time_ns: int) -> bool:
        """Nothing has to be made ahead."""
        return True

    async def objects(self, region: Region) -> Array:
        """Last versions of the objects of a region."""
        async with self._session() as session:
            return await self._tables.objects(session, region)

    async def sources(self, history: History) -> Array:
        """DIASource rows of a history."""
        async with self._session() as session:
            return await self._tables.history(session, "DIASource", history)

    async def forced_sources(self, history: History) -> Array:
        """DIAForcedSource rows of a history."""
        async with self._session() as session:
            return await self._tables.history(session, "DIAForcedSource", history)

    async def counts(self) -> Mapping[str, int]:
        """Rows of each table, counted."""
        async with self._long_session() as session:
            return {name: await self._tables.count(session, name) for name in self._names}

    async def whole(self, table: str) -> Array:
        """All rows of a table, in the order of its key."""
        async with self._long_session() as session:
            return await self._tables.whole(session, table)
