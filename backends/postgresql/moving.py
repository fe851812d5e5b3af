"""Moving a period into another tablespace of PostgreSQL: its leaf is copied in steps, and exchanged for the copy.

The copy is made beside the readers and the writing; only the exchange needs the period's own table, and never the
group's, for some milliseconds. A trigger on the leaf notes in a table what is written there meanwhile: then the copy
is thrown away, and never a reading. What is there says how far a move is (the copy's comment how much of it is
copied), so that whoever comes after a kill goes on: a step and its note are one transaction.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from backends.base import Move, Pace, PeriodTouched, StoreBusy, StoreError
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import LEAF, attach, lie_in, literal, quoted
from backends.postgresql.retention import DURABLY
from backends.postgresql.server import locks
from backends.sql.connection import LockNotGranted
from backends.sql.retention import no_such
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


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A period as it lies there.

    pages: of its leaf; filenode: the file they are in. place, copied_to: where the leaf and its copy are.
    copied: pages that the copy has, ALL once it is complete; None without a copy of the leaf as it is.
    """

    filenode: int
    pages: int
    place: str | None
    copied_to: str | None
    copied: int | str | None


class PostgresqlMoving:
    """Moves periods of one group over one connection.

    first: tablespace in which new periods are made, and all indexes lie. patience_s: how long others may wait behind
    what needs a table alone.
    """

    def __init__(
        self, connection: Connection, tables: GroupTables, *, first: str | None = None, patience_s: float
    ) -> None:
        self._first = first
        self._connection = connection
        self._tables = tables
        self._schema = str(tables.data.schema)
        self._patience_s = patience_s

    async def move(self, period: Period, place: str | None, pace: Pace) -> None:
        """Move a period, or go on where that was begun; see `backends.base.Tiered.move`."""
        async with self._alone():
            found = await self._found(period)
            if found.place == place and (found.copied is None or found.copied_to != place):
                await self._give_up(period.name)
                return
            await self._move(period, found, place, pace)

    async def write_again(self, period: Period, pace: Pace) -> None:
        """Move a period to where it lies: what was removed from it takes no room there.

        Raises:
            PeriodTouched, StoreBusy, StoreError: as `backends.base.Tiered.move`.
        """
        async with self._alone():
            found = await self._found(period)
            await self._move(period, found, found.place, pace)

    async def _move(self, period: Period, found: _Found, place: str | None, pace: Pace) -> None:
        if found.copied is None or found.copied_to != place:
            await self._begin(period, found, place)
            found = await self._found(period)
        try:
            await self._copy(period, found, pace)
            await self._exchange(period, found)
        except PeriodTouched:
            await self._give_up(period.name)
            raise

    async def under_way(self) -> list[Move]:
        """The moves that were begun and have not ended."""
        group = self._tables.group.name
        rows = await self._connection.fetch(UNDER_WAY, quoted(self._schema), self._tables.data.name)
        found: dict[str, Move] = {}
        for row in rows:
            found.setdefault(row["name"], Move(group=group, name=row["name"], place=row["place"]))
        return [*found.values()]

    async def give_up(self, name: str) -> None:
        """Remove all that a move has made; the period stays where it is."""
        async with self._alone():
            await self._give_up(name)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Nobody else moves periods of the group; after an error the lock goes with the connection."""
        group = self._tables.group.name
        lock = f"moves {self._schema}.{group}"
        try:
            await locks.take(self._connection, lock, self._patience_s)
        except LockNotGranted:
            raise StoreBusy(f"a period of group {group!r} is being moved by somebody else") from None
        yield
        await locks.release(self._connection, lock)

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
        copied = _copied(row["note"] or "", row["filenode"]) if row["is_begun"] else None
        return _Found(
            filenode=row["filenode"],
            pages=row["pages"],
            place=row["place"],
            copied_to=row["copied_to"],
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
                await self._connection.execute(
                    f"INSERT INTO {copy} SELECT * FROM {leaf} WHERE ctid >= '({first},0)' AND ctid < '({end},0)';"
                    f"{_note(copy, found, end)}"
                )
        await pace(1.0)
        # Without statistics, and with pages that are not all visible, plans fall back to scans. At its usual cost it
        # would take all that the disk gives.
        await self._connection.execute("SET vacuum_cost_delay = 2")
        await self._connection.execute(f"VACUUM (FREEZE, ANALYZE) {copy}")
        await self._connection.execute("RESET vacuum_cost_delay")
        await self._connection.execute(_note(copy, found, ALL))

    async def _exchange(self, period: Period, found: _Found) -> None:
        table, leaf, copy, touched = (self._table(period.name, end) for end in ("", LEAF, COPY, TOUCHED))
        name = quoted(f"{self._tables.data.name}${period.name}{LEAF}")
        async with self._patient():
            await self._connection.execute(f"{DURABLY}; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
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
            raise PeriodTouched(f"{period.name} of group {period.group} was changed while it was copied")

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


def _note(copy: str, found: _Found, copied: int | str) -> str:
    """The statement that writes down how much of a leaf the copy has."""
    return f"COMMENT ON TABLE {copy} IS '{copied} of {found.pages} pages of file {found.filenode}'"


def _copied(note: str, filenode: int) -> int | str | None:
    """What a note says; nothing where it is of another leaf, as after a VACUUM FULL."""
    found = re.fullmatch(rf"(\d+|{ALL}) of \d+ pages of file {filenode}", note)
    if found is None:
        return None
    return ALL if found[1] == ALL else int(found[1])
