"""The part of a store of visits that all databases share: a session, and in it the tables of the index mode.

What must not change between runs into one schema is kept as JSON in VisitSettings, and compared. What takes long is no
outage, as long as the server answers another connection (decision 0065).
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from backends.base import SchemaMismatch, StoreError
from backends.ending import end_tasks
from backends.visits.rows import tables_by_name
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region
from schemas.visits.tables import IndexMode


def settings_of(visits: VisitsConfig) -> str:
    """The settings that everything in the schema follows from, as one JSON object by their names in `[visits]`."""
    settings = {f"survey.{name}": value for name, value in visits.survey.model_dump(mode="json").items()}
    settings["index_mode"] = visits.index_mode.value
    if visits.index_mode is IndexMode.LAST_OBJECT_TABLE:
        settings["last_columns"] = visits.last_columns.value
    if visits.index_mode is IndexMode.PARTITIONED:
        settings |= {"pixel_level": visits.pixel_level, "period_days": visits.period_days}
    return json.dumps(settings)


def check_settings(stored: str, visits: VisitsConfig) -> None:
    """See that visits that are there were made with these settings.

    stored: what `settings_of` gave when the schema was made.

    Raises:
        SchemaMismatch: one differs; the message names it and the fix.
    """
    there: dict[str, Any] = json.loads(stored)
    here: dict[str, Any] = json.loads(settings_of(visits))
    # The mode comes first: other settings differ because it does.
    for name in sorted(there.keys() | here.keys(), key=lambda name: (name != "index_mode", name)):
        if there.get(name) != here.get(name):
            raise SchemaMismatch(
                f"visits.{name}: the visits in schema {visits.schema_name!r} were made with {_words(there, name)},"
                f" the configuration has {_words(here, name)}; set it to what it was, or take another `schema` in"
                " [visits]"
            )


def _words(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name]) if name in settings else "none"


WhyEnd = Callable[[float | None, asyncio.Event], Awaitable[StoreError | None]]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How patient a store of visits is, in seconds.

    answer_s: for connecting, and how long a statement takes before the server is asked whether it still answers, and
        from then on as often. Of a store that only reads: for each of its questions.
    statement_s: for a select or a transaction of a visit; None of a store that only reads.
    """

    answer_s: float
    statement_s: float | None

    @property
    def session_s(self) -> float:
        """For a select or a transaction, whoever asks."""
        return self.answer_s if self.statement_s is None else self.statement_s


@asynccontextmanager
async def watched(
    answer_s: float, timeout_s: float | None, why_end: WhyEnd, terminate: Callable[[], None] | None = None
) -> AsyncIterator[None]:
    """Look after what is done meanwhile, from the moment on in which it takes long: before, it costs a timer.

    Args:
        answer_s: after so long the server is asked, and from then on as often.
        timeout_s: the limit; None for none.
        why_end: asks over another connection; takes the limit where it is over, and None before, and ends the statement
            at the server then. Sets the event before it does: the statement fails by it. Gives why the statement is to
            be ended here.
        terminate: ends the connection: what is under way could otherwise wait for a server that does not answer.

    Raises:
        StoreError: what `why_end` gave.
    """
    loop = asyncio.get_running_loop()
    late_s = None if timeout_s is None else loop.time() + timeout_s
    watch: asyncio.Task[StoreError] | None = None
    ending, failed = asyncio.Event(), False

    async def look() -> StoreError:
        while True:
            is_late = late_s is not None and loop.time() >= late_s
            why = await why_end(timeout_s if is_late else None, ending)
            if why is not None:
                ending.set()
                if terminate is not None:
                    terminate()
                if not failed:
                    limit.reschedule(loop.time())
                return why
            left_s = answer_s if late_s is None or is_late else max(late_s - loop.time(), 0.0)
            await asyncio.sleep(min(answer_s, left_s))

    def begin() -> None:
        nonlocal watch
        watch = asyncio.create_task(look())

    timer = loop.call_later(answer_s if timeout_s is None else min(answer_s, timeout_s), begin)
    try:
        async with asyncio.timeout(None) as limit:
            yield
    except Exception as error:
        failed = True
        if watch is not None and ending.is_set():
            raise await watch from error
        raise
    finally:
        timer.cancel()
        if watch is not None:
            await end_tasks(watch)


def is_away(error: BaseException | None) -> bool:
    """Whether a server did not answer at all: any other answer is one, as that it has no connection left."""
    return error is not None and (isinstance(error, OSError) or is_away(error.__cause__))


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
