"""Moving a period into another tablespace of PostgreSQL: its leaf is copied in steps, and exchanged for the copy.

The copy is made beside the readers and the writing; only the exchange needs the period's own table, and never the
group's, for some milliseconds. A trigger on the leaf notes in a table what is written there meanwhile: then the copy
is thrown away, and never a reading. What is there says how far a move is (the copy's comment how much of it is
copied), so that whoever comes after a kill goes on: a step and its note are one transaction.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from backends.base import Move, Pace, StoreBusy, StoreError
from backends.diagnosis import no_such
from backends.postgresql.protocol.connection import Connection, report_counts
from backends.postgresql.protocol.sql import LEAF, attach, lie_in, literal, quoted
from backends.postgresql.server.driver import DRIVER
from backends.sql.moving import Found, Moving, changed
from backends.sql.tables import GroupTables
from schemas.retention import Period

STEP_PAGES = 1024
"""Pages copied by one transaction: 8 MiB."""

COPY, TOUCHED, WITHIN = "$copy", "$touched", "within_period"
"""End the names of the copy, and of the table that has a row once something was written; the copy's CHECK."""
NOTE_TOUCHED = "note_touched"
"""The function of the schema that the trigger calls, with the rights of the tables' owner."""
FUNCTION = """
    CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        EXECUTE format('INSERT INTO %1$I.%2$I SELECT true WHERE NOT EXISTS (SELECT FROM %1$I.%2$I)',
                       TG_TABLE_SCHEMA, TG_ARGV[0]);
        RETURN NULL;
    END $$
"""
FOUND = """
    SELECT pg_relation_filenode(leaf.oid) AS filenode, pg_relation_size(leaf.oid) / $4::int8 AS pages,
           leaf.relispartition AND period.relispartition AS is_whole, t.spcname AS place,
           copied.oid IS NOT NULL AS is_begun, copied_t.spcname AS copied_to,
           obj_description(copied.oid, 'pg_class') AS note
    FROM pg_class period LEFT JOIN pg_class leaf ON leaf.oid = to_regclass($2)
    LEFT JOIN pg_tablespace t ON t.oid = leaf.reltablespace
    LEFT JOIN pg_class copied ON copied.oid = to_regclass($3)
    LEFT JOIN pg_tablespace copied_t ON copied_t.oid = copied.reltablespace
    WHERE period.oid = to_regclass($1)
"""
"""No place is the database's own tablespace."""
INDEXES = """
    SELECT indisunique AS is_unique, pg_get_indexdef(indexrelid) AS text FROM pg_index WHERE indrelid = to_regclass($1)
"""
RIGHTS = """
    SELECT privilege_type AS name, is_grantable,
           CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS grantee
    FROM pg_class, aclexplode(relacl) WHERE oid = to_regclass($1) AND grantee <> relowner
"""
UNDER_WAY = """
    SELECT split_part(c.relname, '$', 2) AS name, t.spcname AS place, c.relname LIKE '%$copy' AS is_copy
    FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace
    WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND relname ~ ('^' || $2 || '\\$[^$]+\\$(copy|touched)$')
    ORDER BY name, is_copy DESC
"""
ALL = "all"
IS_SEEN_BY_ALL = """
    SELECT age(relfrozenxid) < (
        SELECT age(xmin) FROM pg_description
        WHERE objoid = to_regclass($2) AND classoid = 'pg_class'::regclass AND objsubid = 0
    ) FROM pg_class WHERE oid = to_regclass($1)
"""
"""Whether what wrote the note of the copy's last step is older than each snapshot that was there when a table was
vacuumed. So is then what was removed from the leaf before its copy was begun, also where no row is left of it."""
SNAPSHOTS_WITHIN_S = 5.0
"""So long a copy waits at once for older snapshots to end; nobody waits behind that."""
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, kw_only=True)
class _Found(Found):
    """A period as it lies there.

    pages: of its leaf; filenode: the file they are in. copied: pages that the copy has, ALL once it is complete; None
    without a copy of the leaf as it is.
    """

    filenode: int
    pages: int
    copied: int | str | None


class PostgresqlMoving(Moving[Connection, _Found]):
    """Moves periods of one group over one connection.

    first: tablespace in which new periods are made, and all indexes lie. patience_s: how long others may wait behind
    what needs a table alone.
    """

    driver = DRIVER

    def __init__(
        self, connection: Connection, tables: GroupTables, *, first: str | None = None, patience_s: float
    ) -> None:
        super().__init__(connection, tables, patience_s=patience_s)
        self._first = first

    async def under_way(self) -> list[Move]:
        """The moves that were begun and have not ended."""
        group = self._tables.group.name
        rows = await self._connection.fetch(UNDER_WAY, quoted(self._schema), self._tables.data.name)
        found: dict[str, Move] = {}
        for row in rows:
            found.setdefault(row["name"], Move(group=group, name=row["name"], place=row["place"]))
        return [*found.values()]

    async def _found(self, period: Period) -> _Found:
        page = int(await self._connection.fetchval("SELECT current_setting('block_size')::int"))
        names = (self._table(period.name, end) for end in ("", LEAF, COPY))
        row = await self._connection.fetchrow(FOUND, *names, page)
        if row is None:
            raise no_such(period)
        if not row["is_whole"]:
            raise StoreError(
                f"{period.name} of group {period.group} has no leaf that could be moved: an older triggerlog made it,"
                " or somebody has taken it apart"
            )
        see_size(row["pages"], period)
        copied = _copied(row["note"] or "", row["filenode"]) if row["is_begun"] else None
        return _Found(
            filenode=row["filenode"],
            pages=row["pages"],
            place=row["place"],
            copied_to=row["copied_to"],
            is_begun=copied is not None,
            copied=copied,
        )

    async def _begin(self, period: Period, found: _Found, place: str | None) -> None:
        """Make an empty copy, and have it noted from now on what is written into the leaf."""
        leaf, copy, touched = (self._table(period.name, end) for end in (LEAF, COPY, TOUCHED))
        ends = f"time_ns >= '{period.start_ns}'::int8 AND time_ns < '{period.end_ns}'::int8"
        like = f"LIKE {leaf} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING CONSTRAINTS"
        async with self._patient():
            # Who writes now ends first, and who writes later is noted.
            lock = f"LOCK TABLE {leaf} IN SHARE ROW EXCLUSIVE MODE"
            await self._connection.execute(f"{lock}; DROP TABLE IF EXISTS {copy}")
            await self._have_noted(period.name)
            await self._connection.execute(
                f"DELETE FROM {touched}; {lie_in(place)};"
                f"CREATE TABLE {copy} ({like}, CONSTRAINT {WITHIN} CHECK ({ends})); {lie_in(self._first)}"
            )
            for row in await self._connection.fetch(INDEXES, leaf):
                unique, of = "UNIQUE " if row["is_unique"] else "", row["text"].split(" USING ", 1)[1]
                await self._connection.execute(f"CREATE {unique}INDEX ON {copy} USING {of}")
            for row in await self._connection.fetch(RIGHTS, leaf):
                more = " WITH GRANT OPTION" if row["is_grantable"] else ""
                await self._connection.execute(f"GRANT {row['name']} ON {copy} TO {row['grantee']}{more}")
            await self._connection.execute(_note(copy, found, 0))

    async def _have_noted(self, name: str) -> None:
        leaf, touched, function = self._table(name, LEAF), self._table(name, TOUCHED), self._function()
        if await self._connection.fetchval("SELECT to_regproc($1) IS NULL", function):
            await self._connection.execute(FUNCTION.format(name=function))
        if await self._connection.fetchval("SELECT to_regclass($1) IS NULL", touched):
            call = f"EXECUTE FUNCTION {function}({literal(f'{self._tables.data.name}${name}{TOUCHED}')})"
            await self._connection.execute(
                f"CREATE TABLE {touched} (is_touched bool);"
                f"CREATE TRIGGER touched AFTER INSERT OR UPDATE OR DELETE ON {leaf} FOR EACH ROW {call};"
                f"CREATE TRIGGER emptied AFTER TRUNCATE ON {leaf} FOR EACH STATEMENT {call}"
            )

    async def _copy(self, period: Period, found: _Found, pace: Pace) -> None:
        """Copy what is not copied yet, in the order in which it lies there, and make the copy fit to be read."""
        if found.copied == ALL:
            return
        leaf, copy = self._table(period.name, LEAF), self._table(period.name, COPY)
        assert isinstance(found.copied, int)
        for first in range(found.copied, found.pages, STEP_PAGES):
            await pace(first / found.pages)
            end = min(first + STEP_PAGES, found.pages)
            async with self._connection.transaction():
                await self._see_untouched(period, found)
                # A scan of a range of pages is none that counts as a reader's: `ReadCounters.scans`.
                await self._connection.execute(
                    f"SET LOCAL enable_seqscan = off;"
                    f"INSERT INTO {copy} SELECT * FROM {leaf} WHERE ctid >= '({first},0)' AND ctid < '({end},0)';"
                    f"{_note(copy, found, end)}"
                )
        if await self.rows_beyond(period, found.pages):
            raise changed(period)
        await pace(1.0)
        await self._await_snapshots(period)
        # Without statistics, and with pages that are not all visible, plans fall back to scans. At its usual cost it
        # would take all that the disk gives.
        await report_counts(self._connection)
        await self._connection.execute("SET vacuum_cost_delay = 2")
        await self._connection.execute(f"VACUUM (FREEZE, ANALYZE) {copy}")
        await self._connection.execute("RESET vacuum_cost_delay")
        await report_counts(self._connection)  # that BRIN was summarized counts as scans, which are no reader's
        await self._connection.execute(_note(copy, found, ALL))

    async def rows_beyond(self, period: Period, pages: int) -> bool:
        """Whether a leaf has rows beyond so many pages, which the server says that it has.

        It says 0 where it cannot find the file, as where the disk of a tablespace is not mounted: to read it fails
        then, or finds what the server has open yet.

        Raises:
            StoreError: it cannot be read.
        """
        async with self._connection.transaction():
            await self._connection.execute("SET LOCAL enable_seqscan = off")
            leaf = self._table(period.name, LEAF)
            return bool(
                await self._connection.fetchval(f"SELECT EXISTS (SELECT FROM {leaf} WHERE ctid >= '({pages},0)')")
            )

    async def _await_snapshots(self, period: Period) -> None:
        """Wait until nobody reads by a snapshot from before the copy was complete, who would not see all of it.

        Nor would they see what was there when that was taken, and was reduced since. A backup takes its snapshot first
        and locks the tables then: after an exchange in between it would save none of the period. To vacuum a table
        without rows says how old the oldest snapshot is.

        Raises:
            StoreBusy: somebody does.
        """
        copy, touched = (self._table(period.name, end) for end in (COPY, TOUCHED))
        until_s = monotonic() + SNAPSHOTS_WITHIN_S
        while True:
            await self._connection.execute(f"VACUUM (FREEZE) {touched}")
            if await self._connection.fetchval(IS_SEEN_BY_ALL, touched, copy):
                return
            if monotonic() > until_s:
                raise StoreBusy(
                    f"{period.name} of group {period.group} is copied, and waits for who reads by an older snapshot"
                )
            await asyncio.sleep(LOOK_EVERY_S)

    async def _exchange(self, period: Period, found: _Found) -> None:
        table, leaf, copy, touched = (self._table(period.name, end) for end in ("", LEAF, COPY, TOUCHED))
        name = quoted(f"{self._tables.data.name}${period.name}{LEAF}")
        async with self._patient():
            await self._connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            await self._see_untouched(period, found)
            await self._connection.execute(
                f"ALTER TABLE {table} DETACH PARTITION {leaf}; DROP TABLE {leaf}, {touched};"
                f"ALTER TABLE {copy} RENAME TO {name}; {attach(table, leaf, period.start_ns, period.end_ns)};"
                f"ALTER TABLE {leaf} DROP CONSTRAINT {WITHIN}; COMMENT ON TABLE {leaf} IS NULL"
            )

    async def _see_untouched(self, period: Period, found: _Found) -> None:
        """See that the leaf is as it was when its copy was begun.

        Raises:
            PeriodTouched: it is not.
        """
        leaf, touched = self._table(period.name, LEAF), self._table(period.name, TOUCHED)
        seen = f"SELECT pg_relation_filenode(to_regclass($1)) = $2 AND NOT EXISTS (SELECT FROM {touched})"
        if not await self._connection.fetchval(seen, leaf, found.filenode):
            raise changed(period)

    async def _give_up(self, name: str) -> None:
        leaf, copy, touched = (self._table(name, end) for end in (LEAF, COPY, TOUCHED))
        async with self._patient():
            await self._connection.execute(f"DROP TABLE IF EXISTS {copy}")
            if await self._connection.fetchval("SELECT to_regclass($1) IS NULL", touched):
                return
            if await self._connection.fetchval("SELECT to_regclass($1) IS NOT NULL", leaf):
                drop = (f"DROP TRIGGER IF EXISTS {trigger} ON {leaf}" for trigger in ("touched", "emptied"))
                await self._connection.execute(";".join(drop))
            await self._connection.execute(f"DROP TABLE {touched}")

    @asynccontextmanager
    async def _patient(self) -> AsyncIterator[None]:
        """A transaction that waits for no lock longer than others may wait behind it."""
        async with self._connection.transaction():
            await self._connection.execute(f"SET LOCAL lock_timeout = '{round(1000 * self._patience_s)}ms'")
            yield

    def _table(self, name: str, end: str) -> str:
        return quoted(self._schema, f"{self._tables.data.name}${name}{end}")

    def _function(self) -> str:
        return quoted(self._schema, NOTE_TOUCHED)


def see_size(pages: int | None, period: Period) -> None:
    """See that a leaf has a size; it has none where it was exchanged while the server looked.

    Raises:
        StoreBusy: it was.
    """
    if pages is None:
        raise StoreBusy(f"{period.name} of group {period.group} is being moved by somebody else")


def _note(copy: str, found: _Found, copied: int | str) -> str:
    """The statement that writes down how much of a leaf the copy has."""
    return f"COMMENT ON TABLE {copy} IS '{copied} of {found.pages} pages of file {found.filenode}'"


def _copied(note: str, filenode: int) -> int | str | None:
    """What a note says; nothing where it is of another leaf, as after a VACUUM FULL."""
    found = re.fullmatch(rf"(\d+|{ALL}) of \d+ pages of file {filenode}", note)
    if found is None:
        return None
    return ALL if found[1] == ALL else int(found[1])
