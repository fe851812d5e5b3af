"""The index modes of the paper: a row an object version, a source, a forced source.

Everything goes and comes in the binary protocol, many rows a command, without a Python object a row. The optimizer is
told which index to take: on small or fresh tables, whose statistics say nothing yet, it reads all of a table instead.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from backends.mysql.protocol.bulk import Insert
from backends.mysql.protocol.connection import HEADER, Packets
from backends.mysql.protocol.records import NULLS_OFFSET, Field, NotAsMade, ParameterFormat, ResultFormat
from backends.mysql.protocol.sql import quoted
from backends.mysql.visits.session import Session
from backends.visits.rows import in_key_order, tables_by_name, taken, written
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, Region, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, IndexMode, LastUpdate, Table


class RowTables:
    """The tables of an index mode that keeps rows."""

    def __init__(self, visits: VisitsConfig) -> None:
        self._schema = visits.schema_name
        self._mode = visits.index_mode
        self._update = visits.last_update or LastUpdate.REPLACE
        self._id_chunk = visits.id_chunk
        self._tables = tables_by_name(visits)

    async def objects(self, session: Session, region: Region) -> Array:
        """Last versions in a region; LAST_DTYPE."""
        dtype = DIA_OBJECT_LAST.dtype
        if not len(region.ranges):
            return np.empty(0, dtype)
        last = DIA_OBJECT_LAST.name in self._tables
        table = DIA_OBJECT_LAST.name if last else "DIAObject"
        index = "pixelId" if self._mode is IndexMode.BASELINE else "PRIMARY"
        ranges = " OR ".join(f"pixelId BETWEEN {begin} AND {end - 1}" for begin, end in region.ranges.tolist())
        still = "" if last else " AND validityEnd IS NULL"
        text = f"{self._select(table, dtype, index)} WHERE ({ranges}){still}"
        return rows_of(await session.select(text), dtype)

    async def history(self, session: Session, name: str, history: History) -> Array:
        """DIASource or DIAForcedSource rows of a history."""
        table = self._tables[name]
        select = self._select(name, table.dtype, "PRIMARY" if table.key[0] == "diaObjectId" else "diaObjectId")
        visits = f"ccdVisitId >= {history.since_visit} AND ccdVisitId < {history.before_visit}"
        parts = []
        for chunk in self._chunks(history.ids):
            text = f"{select} WHERE diaObjectId IN ({chunk}) AND {visits}"
            parts.append(rows_of(await session.select(text), table.dtype))
        if len(parts) == 1:
            return parts[0]
        # As plain bytes: numpy copies structured rows field by field.
        return np.frombuffer(b"".join(part.tobytes() for part in parts), table.dtype)

    async def write(self, session: Session, name: str, write: TileWrite) -> None:
        """Write what a tile has for one table, in the order of its key."""
        table = self._tables[name]
        rows, _ = written(write, table, self._mode)
        rows = in_key_order(rows, table)
        if name == DIA_OBJECT_LAST.name:
            await self._write_last(session, table, rows, write)
            return
        if name == "DIAObject" and self._mode in (IndexMode.BASELINE, IndexMode.PIX_ID_IOV):
            await self._end_versions(session, in_key_order(taken(write.objects, write.known), table), write.time_ns)
        await self._insert(session, table, rows)

    async def count(self, session: Session, name: str) -> int:
        """Rows of a table."""
        ((count,),) = await session.fetch(f"SELECT COUNT(*) FROM {self._name(name)}")
        return int(count)

    async def whole(self, session: Session, name: str) -> Array:
        """All rows of a table."""
        table = self._tables[name]
        return in_key_order(rows_of(await session.select(self._select(name, table.dtype)), table.dtype), table)

    async def _write_last(self, session: Session, table: Table, rows: Array, write: TileWrite) -> None:
        if self._update is LastUpdate.DELETE_INSERT:
            known = in_key_order(taken(write.objects, write.known), table)
            await self._by_key(session, f"DELETE FROM {self._name(table.name)}", known, table.key)
        if self._update is LastUpdate.UPSERT:
            others = (name for name in table.dtype.names or () if name not in table.key)
            sets = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in others)
            await self._insert(session, table, rows, end=f" ON DUPLICATE KEY UPDATE {sets}")
        else:
            verb = "REPLACE" if self._update is LastUpdate.REPLACE else "INSERT"
            await self._insert(session, table, rows, verb=verb)

    async def _end_versions(self, session: Session, known: Array, time_ns: int) -> None:
        """Set the validityEnd of the versions that new ones follow."""
        table = self._tables["DIAObject"]
        await session.run(f"SET @validity_end = {time_ns}")
        columns = table.key[:-1]
        update = f"UPDATE {self._name('DIAObject')} FORCE INDEX (PRIMARY) SET validityEnd = @validity_end"
        await self._by_key(session, update, known, columns, still=" AND validityEnd IS NULL")

    async def _by_key(
        self, session: Session, change: str, rows: Array, columns: tuple[str, ...], *, still: str = ""
    ) -> None:
        """Change the rows that have the values of `rows` in columns with which a key begins."""
        form = format_of(np.dtype([(name, "<i8") for name in columns]), session.bulk)
        values = form.blank(len(rows))
        for name in columns:
            values[name] = rows[name]
        if session.bulk:
            equal = " AND ".join(f"{quoted(name)} = ?" for name in columns)
            insert = Insert(into=f"{change} WHERE ", values=equal, end=still, form=form, rows=values)
        else:
            names = ", ".join(quoted(name) for name in columns)
            of_row = ", ".join("?" * len(columns))
            into = f"{change} WHERE ({names}) IN ("
            insert = Insert(into=into, values=f"({of_row})", end=f"){still}", form=form, rows=values)
        await session.insert(insert)

    async def _insert(
        self, session: Session, table: Table, rows: Array, *, verb: str = "INSERT", end: str = ""
    ) -> None:
        form = format_of(rows.dtype, session.bulk)
        values = form.blank(len(rows))
        for name in rows.dtype.names or ():
            values[name] = rows[name]
        names = ",".join(quoted(name) for name in rows.dtype.names or ())
        of_row = f"({','.join('?' * len(form.fields))})"
        into = f"{verb} INTO {self._name(table.name)} ({names}) VALUES "
        await session.insert(Insert(into=into, values=of_row, end=end, form=form, rows=values, nulls=nulls_of(rows)))

    def _select(self, name: str, dtype: np.dtype[np.void], index: str | None = None) -> str:
        columns = ", ".join(quoted(column) for column in dtype.names or ())
        force = f" FORCE INDEX ({quoted(index)})" if index else ""
        return f"SELECT {columns} FROM {self._name(name)}{force}"

    def _chunks(self, ids: Array) -> Iterator[str]:
        for start in range(0, len(ids), self._id_chunk):
            yield ",".join(map(str, ids[start : start + self._id_chunk].tolist()))

    def _name(self, name: str) -> str:
        return quoted(self._schema, name)


def fields_of(dtype: np.dtype[np.void]) -> list[Field]:
    """The columns of a structured dtype of plain numbers."""
    return [Field(name, dtype[name].str) for name in dtype.names or ()]


@lru_cache
def format_of(dtype: np.dtype[np.void], indicated: bool) -> ParameterFormat:
    """How rows of a dtype go out."""
    return ParameterFormat(fields_of(dtype), indicated=indicated)


def nulls_of(rows: Array) -> Array | None:
    """Which values are NaN, which the server does not hold; bool, shape (rows, fields), None when there are none."""
    bits, exponents = _exponents(rows.dtype)
    words = np.ascontiguousarray(rows).view("<u4").reshape(len(rows), len(bits))
    if not ((words & bits) == exponents).any():
        return None
    names = rows.dtype.names or ()
    nulls = np.zeros((len(rows), len(names)), bool)
    for k, name in enumerate(names):
        if rows.dtype[name].kind == "f":
            nulls[:, k] = np.isnan(rows[name])
    return nulls


@lru_cache
def _exponents(dtype: np.dtype[np.void]) -> tuple[Array, Array]:
    """For each 32-bit word of a row: which bits to look at, and how they are where a float is NaN or infinite."""
    bits = np.zeros(dtype.itemsize // 4, np.uint32)
    exponents = np.ones_like(bits)
    for form, offset, *_ in (dtype.fields or {}).values():
        if form.kind == "f":
            # A double's exponent is in its second word.
            word = (offset + form.itemsize) // 4 - 1
            bits[word] = exponents[word] = 0x7F80_0000 if form.itemsize == 4 else 0x7FF0_0000
    return bits, exponents


def rows_of(packets: Packets, dtype: np.dtype[np.void]) -> Array:
    """Read rows whose columns are the fields of a packed dtype: without NULLs a row of the protocol ends with them.

    NULL is NaN.

    Raises:
        NotAsMade: values have other widths.
    """
    if not packets.stretches:
        return np.empty(0, dtype)
    bitmap = -(-(len(dtype.names or ()) + NULLS_OFFSET) // 8)
    start = HEADER + 1 + bitmap
    if len(packets.stretches) == 1:
        block = packets.of(packets.stretches[0])
        if block.shape[1] == start + dtype.itemsize:
            return np.ascontiguousarray(block[:, start:]).view(dtype)[:, 0]
    columns, nulls = ResultFormat(fields_of(dtype)).parse(packets)
    rows = np.empty(len(packets), dtype)
    for name in dtype.names or ():
        rows[name] = columns[name]
    for name, missing in nulls.items():
        if dtype[name].kind != "f":
            raise NotAsMade(f"NULL in {name}")
        rows[name][missing] = np.nan
    return rows
