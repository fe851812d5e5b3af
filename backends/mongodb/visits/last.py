"""The last version of each object: how DIAObjectLast gets its new ones, and how a broken-off try is completed."""

from bson import Int64

from backends.mongodb.visits.formats import row_format
from backends.mongodb.visits.session import Session, in_chunks
from backends.visits.rows import as_table
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.tables import DIA_OBJECT, LastUpdate, Table


async def update_last(session: Session, visits: VisitsConfig, table: Table, rows: Array, known: Array) -> None:
    """Put new versions in place of earlier ones.

    rows: of `table.dtype`; known: int64, ids of those that had a version before.
    """
    how = visits.last_update or LastUpdate.REPLACE
    form, all_doubles = row_format(table), session.server.keeps_all_doubles
    if how is not LastUpdate.DELETE_INSERT:
        await session.update(table.name, form.upserts(rows, how, all_doubles=all_doubles))
        return
    for ids in in_chunks(known, visits.id_chunk):
        await session.delete_many(table.name, {"diaObjectId": {"$in": ids}})
    await session.insert(table.name, form.encode(rows, all_doubles=all_doubles))


async def complete_last(session: Session, visits: VisitsConfig, table: Table, time_ns: int) -> None:
    """Put back what a try that was cut short had deleted and not inserted yet, as it would have been.

    DIAObject has each new version before the earlier one goes from DIAObjectLast. One that has not gone yet stays: its
    tile is done again.
    """
    if visits.last_update is not LastUpdate.DELETE_INSERT:
        return
    whole = row_format(DIA_OBJECT)
    found = await session.find_raw(DIA_OBJECT.name, {"validityStart": Int64(time_ns)}, whole.projection, whole.width)
    rows = as_table(whole.decode(found), table)
    await session.insert(table.name, row_format(table).encode(rows, all_doubles=session.server.keeps_all_doubles))
