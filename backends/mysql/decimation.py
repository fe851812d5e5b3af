"""Reducing a period in MariaDB and MySQL: some rows of its partition a step, in the order of the key.

A step reads its rows FOR UPDATE, which nobody else can then change, and takes them out by the same condition: where
others have put rows there in between, as a server may let them whose isolation is not its default, all of it is rolled
back. A partition is written again in less room only where little is left: others wait for their table meanwhile.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from backends.base import Pace, StoreBusy
from backends.decimation import together
from backends.mysql.protocol.bulk import Insert, Inserter
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import lay_reduced, parse_arrays, read_arrays, read_reduced, read_rows
from backends.mysql.protocol.sql import BEGIN, COMMIT, insert_into, quoted
from backends.mysql.reading.figures import select_reduced
from backends.mysql.retention import MysqlAccounting, tables_there
from backends.mysql.schema.partitions import MOVED_AT_MOST, Range, how_full, range_name
from backends.mysql.schema.tables import create_reduced
from backends.mysql.server.driver import LEAST_PATIENCE_S, release, take
from backends.sql.connection import LockNotGranted
from backends.sql.decimation import Reducing
from schemas.batch import Layout
from schemas.decimation import Decimated
from schemas.readings import Array

STEP_READINGS = 100_000
"""Readings, present or missing, of one transaction."""


class MysqlReducing(MysqlAccounting, Reducing[Connection]):
    """Reduces periods of one group."""

    async def reduce(self, *period: object, **more: object) -> Decimated:
        """Reduce a period, under a lock: a statement of a client that was killed goes on, and may change rows yet."""
        name = f"reducing {self._schema}.{self._tables.data.name}"
        try:
            await take(self._connection, name, LEAST_PATIENCE_S)
        except LockNotGranted:
            table = self._tables.data.name
            raise StoreBusy(f"something of table {table!r} is being reduced over another connection") from None
        # When something goes wrong the connection ends, and the lock goes with it.
        done = await super().reduce(*period, **more)  # type: ignore[arg-type]
        await release(self._connection, name)
        return done

    async def _prepare(self) -> None:
        if not await tables_there(self._connection, self._schema, [self._tables.reduced.name]):
            # An older triggerlog has made the group.
            await self._connection.run(create_reduced(self._tables))

    async def _set_out(self, begun: Decimated) -> None:
        await self._durably([self._begin(begun, await self._size_of(begun.period))])

    async def _pass(self, begun: Decimated, window_ns: int, pace: Pace) -> None:
        period = begun.period
        low = period.start_ns
        while low < period.end_ns:
            await pace((low - period.start_ns) / (period.end_ns - period.start_ns))
            goes = await self._goes(begun, window_ns)
            end = await self._end_of_step(begun, low, goes)
            async with self._step():
                await self._reduce(begun, f"time_ns >= {low} AND time_ns < {end} AND {goes}")
            low = end

    async def _end_of_step(self, begun: Decimated, low: int, goes: str) -> int:
        """Up to where a step goes that begins with `low`."""
        rows = STEP_READINGS if self._tables.layout is Layout.ROWS else -(-STEP_READINGS // self._tables.group.size)
        found = await self._fetch(
            f"SELECT time_ns FROM {self._from(begun)} WHERE time_ns >= {low} AND {goes}"
            f" ORDER BY time_ns LIMIT 1 OFFSET {rows}"
        )
        return max(int(found[0][0]), low + 1) if found else begun.period.end_ns

    async def _reduce(self, begun: Decimated, which: str) -> None:
        columns = ", ".join(quoted(column.name) for column in self._tables.data.c)
        packets = await self._connection.select(f"SELECT {columns} FROM {self._from(begun)} WHERE {which} FOR UPDATE")
        if not len(packets):
            return
        group, is_rows = self._tables.group, self._tables.layout is Layout.ROWS
        readings = (read_rows if is_rows else read_arrays)(packets, group)
        runs = readings["run"] if is_rows else parse_arrays(packets, group)["run"]
        gone = await self._connection.run(f"DELETE FROM {self._from(begun)} WHERE {which}")
        if gone != len(packets):
            raise StoreBusy(f"rows of {begun.period.name} of group {begun.period.group} were changed meanwhile")
        for statement in await self._put_in(begun, readings, runs):
            await self._connection.run(statement)

    async def _put_together(self, figures: Array) -> None:
        group = self._tables.group
        of = f"time_ns IN ({','.join(map(str, dict.fromkeys(figures['time_ns'].tolist())))})"
        there = read_reduced(await self._connection.select(select_reduced(self._tables, f"{of} FOR UPDATE")), group)
        table = quoted(self._schema, self._tables.reduced.name)
        await self._connection.run(f"DELETE FROM {table} WHERE {of}")
        form, rows, nulls = lay_reduced(together([there, figures], group), group, indicated=self._connection.bulk)
        into, values = insert_into(table, (quoted(field.name) for field in form.fields))
        insert = Insert(into=into, values=values, form=form, rows=rows, nulls=nulls if nulls.any() else None)
        await Inserter(self._connection).send(insert, ahead=False)

    async def _give_room_back(self, begun: Decimated, pace: Pace) -> None:
        name = range_name(begun.period.name)
        of = Range(name, begun.period.start_ns, begun.period.end_ns)
        ((left,),) = await self._fetch(how_full(self._schema, self._tables.data.name, of))
        if left <= MOVED_AT_MOST:
            table = quoted(self._schema, self._tables.data.name)
            await self._briefly(f"ALTER TABLE {table} REBUILD PARTITION {quoted(name)}")
        await pace(1.0)

    async def _durably(self, statements: Sequence[str]) -> None:
        for statement in (BEGIN, *statements, COMMIT):
            await self._connection.run(statement)

    def _from(self, begun: Decimated) -> str:
        name = range_name(begun.period.name)
        return f"{quoted(self._schema, self._tables.data.name)} PARTITION ({quoted(name)})"

    @asynccontextmanager
    async def _step(self) -> AsyncIterator[None]:
        await self._connection.run(BEGIN)
        yield
        # When something goes wrong the connection ends, and the transaction goes with it.
        await self._connection.run(COMMIT)
