"""What a select answers, taken out by binary COPY: all at once, or in bounded chunks."""

import asyncio
from collections.abc import Callable

import sqlalchemy as sa

from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.copy import (
    SIGNATURE,
    TRAILER,
    NotBinaryCopy,
    RowFormat,
    data_format,
    decode_ledger,
    readings_of_rows,
)
from backends.postgresql.protocol.sql import compiled
from backends.sql.tables import GroupTables
from schemas.readings import Array

CHUNK_BYTES = 4 * 1024 * 1024


async def copied(connection: Connection, select: sa.SelectBase) -> bytearray:
    """Take out all that a select finds, as a COPY file."""
    return await copied_text(connection, compiled(select))


async def copied_text(connection: Connection, select: str) -> bytearray:
    """Take out all that a select finds, which is written down, as a COPY file."""
    answer = bytearray()

    async def take(chunk: bytes) -> None:
        answer.extend(chunk)

    await connection.copy_from_query(select, output=take, format="binary")
    return answer


async def copied_in_chunks(
    connection: Connection, select: sa.SelectBase, form: RowFormat, use: Callable[[Array], None]
) -> None:
    """Take out all that a select finds, and hand it on in chunks of whole rows; the server waits meanwhile.

    use: is called with rows of `form`, shape (n,), in a thread: the loop has other things to do.
    """
    waiting, begun = bytearray(), False

    async def take(chunk: bytes) -> None:
        nonlocal begun
        waiting.extend(chunk)
        if not begun and len(waiting) >= len(SIGNATURE):
            begun = True
            del waiting[: len(SIGNATURE)]
        if len(waiting) >= CHUNK_BYTES:
            await asyncio.to_thread(use, form.parse_begun(waiting))

    await connection.copy_from_query(compiled(select), output=take, format="binary")
    await asyncio.to_thread(use, form.parse_begun(waiting))
    if waiting != TRAILER:
        raise NotBinaryCopy(f"{len(waiting)} bytes are left after rows of {form.dtype.itemsize} bytes")


async def ledger(connection: Connection, tables: GroupTables, select: sa.SelectBase) -> Array:
    """Answer with ledger rows, `ledger_dtype(group.size)`."""
    return decode_ledger(await copied(connection, select), tables.group.size)


async def readings(connection: Connection, tables: GroupTables, select: sa.SelectBase) -> Array:
    """Answer with readings, `answer_dtype(group)`, of rows as they are in the group's table."""
    form = data_format(tables.group, tables.layout)
    return readings_of_rows(form.parse(await copied(connection, select)), tables.group, tables.layout)


async def readings_in_chunks(
    connection: Connection, tables: GroupTables, select: sa.SelectBase, use: Callable[[Array], None]
) -> None:
    """Hand readings on, `answer_dtype(group)`, as `copied_in_chunks` does."""
    group, layout = tables.group, tables.layout

    def spread(rows: Array) -> None:
        use(readings_of_rows(rows, group, layout))

    await copied_in_chunks(connection, select, data_format(group, layout), spread)
