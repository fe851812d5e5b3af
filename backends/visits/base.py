"""The store of mock DIA visits: what each database implements.

Like a `Store` it only writes and reads: no retry, no sleep, no geometry. Everything is columnar: answers and writes are
structured arrays of `schemas.visits.tables`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from backends.base import StoreError, StoreUnavailable
from schemas.api.visits import TableSize
from schemas.readings import Array
from schemas.visits.records import Compacted, History, Region, Seconds, TileWrite, VisitRecord
from schemas.visits.tables import Step


class VisitDone(StoreError):
    """The visit is done already: a process that was killed had asked for its end, and the server got to it since."""

    def __init__(self, visit: int) -> None:
        super().__init__(f"visit {visit} is done already")


class VisitsLost(StoreUnavailable):
    """The server crashed and kept less than it had acknowledged, or it is another copy now: visits are done again."""

    def __init__(self, visit: int) -> None:
        super().__init__(
            f"the server has lost what it had acknowledged of visit {visit} or before it; it is done again"
        )


class StatementTooLong(StoreError):
    """A select or a transaction took longer than `statement_timeout_s`, and the server answers: this is no outage.

    It was given up, by the server too.

    limit_s: the limit, in seconds.
    """

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"visits.statement_timeout_s: a statement took longer than {limit_s:g} s, and was given up")
        self.limit_s = limit_s


class VisitsLocked(StoreUnavailable):
    """Another run writes visits into this schema now."""

    def __init__(self, schema: str, target: str, who: str, ends_s: float) -> None:
        super().__init__(
            f"another run writes visits into schema {schema!r} of {target} ({who}); stop that one; if it is gone, the"
            f" server ends its session within {ends_s:g} s: try again then"
        )


def see_nothing_lost(visit: int, follows: bool, marked: int, steps: int | None) -> None:
    """See that a visit may be marked as done.

    follows: it is the first one, or the one before it is done; marked, steps: as the server has it, as it should be.

    Raises:
        VisitsLost: the server has lost some of it.
    """
    if not follows or (steps is not None and marked < steps):
        raise VisitsLost(visit)


class VisitStore(Protocol):
    """The tables of visits in one schema, over one connection: each worker has a store of its own.

    Every method raises StoreUnavailable (backends.base) when the database does not answer; after that `connect` makes
    the store usable again. Every method of a visit raises StatementTooLong when it takes longer than
    `statement_timeout_s` of a server that does answer.
    """

    async def create(self) -> None:
        """Create the schema and the tables of the index mode, or check those that are there.

        Raises:
            SchemaMismatch: they are of another survey, index mode or scale; the message names the setting that differs.
        """

    async def check(self) -> None:
        """See that `create` would do, and change nothing; raises what it would."""

    async def connect(self) -> None:
        """Connect, if that is not so already; the tables are there."""

    async def close(self) -> None:
        """Give back the connection; `connect` makes another."""

    async def hold(self) -> None:
        """Keep every other store from holding the schema, over this connection and all that come after it.

        Whoever runs visits holds it; workers write for a run that does. MongoDB has no lock that goes with a
        connection: there, and in memory, nothing happens, and two runs write the same documents under the same ids.

        Raises:
            VisitsLocked: another store holds it, and has for some seconds.
        """

    async def release(self) -> None:
        """Hold the schema no longer; gives back the connection."""

    async def last_visit(self) -> VisitRecord | None:
        """The last visit that is done, None before the first."""

    async def first_visit_since(self, time_ns: int) -> int | None:
        """Number of the first visit that is done and was taken at `time_ns` or later; None if there is none."""

    async def pointings(self, most: int) -> Array:
        """Where the newest visits that are done looked, `most` at most: POINTING_DTYPE, the newest first.

        None before the first visit, nor where nothing was created yet.
        """

    async def begin(self, visit: int, time_ns: int) -> frozenset[tuple[int, Step]]:
        """Prepare what a visit needs, such as its period's partition; return what an earlier try committed of it.

        The set has (tile, step); an empty one is what to expect.

        Raises:
            VisitDone: nothing of it may be written again.
            VisitsLost: the visit before it is not done any more.
        """

    async def objects(self, region: Region) -> Array:
        """Last version of every object of a region, at least the fields of LAST_DTYPE; each object once.

        In `partitioned` the version of its last detection. Those that forced photometry wrote since are in DIAObject
        alone: what a visit needs of them (id, place, last detection) they took over from that one.
        """

    async def sources(self, history: History) -> Array:
        """DIASource rows of a history, SOURCE_DTYPE, in any order."""

    async def forced_sources(self, history: History) -> Array:
        """DIAForcedSource rows of a history, FORCED_DTYPE, in any order."""

    async def write(self, write: TileWrite) -> Seconds:
        """Commit a tile's steps and the mark that they are done, all or nothing; tell how long each part took.

        Without transactions (MongoDB) writing the same again changes nothing, and the mark comes last.
        Returns when the server has acknowledged it at the durability asked for.
        """

    async def finish(self, record: VisitRecord, steps: int | None = None) -> None:
        """Mark a visit as done, and forget the marks of its steps; doing it again changes nothing.

        steps: so many steps of its tiles were committed, in this try and before; None is not looked at.

        Raises:
            VisitsLost: fewer are marked, or the visit before it is not done any more. It is not marked as done.
        """

    async def expire(self, before_ns: int) -> bool:
        """In `partitioned`: drop the partitions of periods that end before a time; else nothing, as in the paper.

        False where somebody's reading stands in the way, and some are left for another time: whoever comes to read
        waits behind a drop, so that it waits for a moment only.
        """

    async def prepare(self, time_ns: int) -> bool:
        """In `partitioned`: make ahead what visits of the periods after that of a time need.

        Only where it has to wait for who reads (MariaDB, MySQL): a visit would, at the edge of a period. No visit may
        be under way. False where somebody's reading stands in the way; another time it may work.
        """

    async def uncompacted(self, before_ns: int) -> Sequence[tuple[str, int]]:
        """In `partitioned`: tables that visits read, and periods, that ended before a time and can be compacted.

        In order of time; without those that were compacted, or whose packs are large enough as they are. Elsewhere,
        and in MongoDB, none.
        """

    async def compact(self, table: str, period: int) -> Compacted | None:
        """Rewrite a table's packs of a period: few, by pixel, in full pages; of DIAObjectLast the newest versions.

        No visit may be under way; others may read meanwhile, and find the same as ever. Cut short, also by a crash, it
        leaves the packs as they were. None where somebody's reading stands in the way of putting the new ones in the
        place of the old; another time it may work.
        """

    async def counts(self) -> Mapping[str, int]:
        """Rows of each table, counted exactly, by its name in the paper; in packs, of what is packed in them."""

    async def sizes(self) -> Mapping[str, TableSize]:
        """Rows (estimated) and bytes of each table, by its name in the paper."""

    async def whole(self, table: str) -> Array:
        """All rows of a table, by its name in the paper, in the order of its key: for checks of what is small.

        DIAObject and DIASource without their columns that stay NULL.
        """

    async def drop(self) -> None:
        """Remove the schema with everything in it; nothing happens when it is not there."""
