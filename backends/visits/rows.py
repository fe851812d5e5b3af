"""Rows of visits as structured arrays: what every store of visits does with them, without a Python object a row."""

from collections.abc import Iterator

import numpy as np

from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import History, TileWrite
from schemas.visits.tables import DIA_OBJECT_LAST, IndexMode, Step, Table, tables_of

STEP_TABLES: dict[Step, tuple[str, ...]] = {
    Step.OBJECTS: ("DIAObjectLast", "DIAObject"),
    Step.SOURCES: ("DIASource",),
    Step.FORCED: ("DIAForcedSource",),
}
"""Which tables a step writes, where the index mode has them."""
SECONDS = {
    "DIAObjectLast": "store_last_s",
    "DIAObject": "store_object_s",
    "DIASource": "store_source_s",
    "DIAForcedSource": "store_forced_s",
}
"""What the time that a table's writes take counts as, of `schemas.api.visits.TIMES`."""


def tables_by_name(visits: VisitsConfig) -> dict[str, Table]:
    """The tables of the index mode by their names in the paper."""
    return {table.name: table for table in tables_of(visits.index_mode, visits.last_columns)}


def taken(rows: Array, places: Array) -> Array:
    """Rows at places (int64, shape (taken,)) or where a mask is set (bool, shape (rows,)), copied.

    As plain bytes: numpy copies a structured row field by field, which takes it four times as long with a hundred.

    rows: structured, packed and contiguous.
    """
    return np.asarray(rows.view(f"V{rows.itemsize}")[places].view(rows.dtype))


def as_table(rows: Array, table: Table) -> Array:
    """Rows with the columns of a table, which are all among theirs; the same array where they are just those."""
    if rows.dtype == table.dtype:
        return rows
    answer = np.empty(len(rows), table.dtype)
    for column in table.dtype.names or ():
        answer[column] = rows[column]
    return answer


def written(write: TileWrite, table: Table, mode: IndexMode) -> tuple[Array, Array]:
    """What a write puts into one table: rows of `table.dtype`, and the coarse pixel of each, int64.

    In `partitioned` the last versions are those of the objects that were detected.
    """
    if table.name == "DIASource":
        return write.sources, write.source_pixels
    if table.name == "DIAForcedSource":
        return write.forced, write.object_pixels
    if table.name == DIA_OBJECT_LAST.name and mode is IndexMode.PARTITIONED:
        return as_table(taken(write.objects, write.detected), table), write.object_pixels[write.detected]
    return as_table(write.objects, table), write.object_pixels


def by_pixel(rows: Array, pixels: Array) -> Iterator[tuple[int, Array]]:
    """Cut rows into those of each coarse pixel, ascending; within one they keep their order.

    rows: structured, shape (rows,); pixels: int64, shape (rows,).
    """
    if not len(rows):
        return
    order = np.argsort(pixels, kind="stable")
    sorted_rows, sorted_pixels = taken(rows, order), pixels[order]
    begins = np.flatnonzero(np.diff(sorted_pixels, prepend=sorted_pixels[0] - 1))
    ends = np.append(begins[1:], len(rows))
    for pixel, begin, end in zip(sorted_pixels[begins].tolist(), begins.tolist(), ends.tolist(), strict=True):
        yield pixel, sorted_rows[begin:end]


def of_ids(rows: Array, ids: Array) -> Array:
    """Rows whose diaObjectId is among `ids`, int64 ascending."""
    return taken(rows, _is_of(rows, ids))


def of_history(rows: Array, history: History) -> Array:
    """Rows of the ids and of the visits of a history: a compacted pack has those of other visits, too."""
    visits = rows["ccdVisitId"]
    return taken(rows, _is_of(rows, history.ids) & (visits >= history.since_visit) & (visits < history.before_visit))


def _is_of(rows: Array, ids: Array) -> Array:
    """Which rows have a diaObjectId that is among `ids`; bool."""
    if not len(ids):
        return np.zeros(len(rows), bool)
    there = np.ascontiguousarray(rows["diaObjectId"])
    places = np.minimum(np.searchsorted(ids, there), len(ids) - 1)
    return np.asarray(ids[places] == there)


def newest_of_each(rows: Array, visits: Array) -> Array:
    """The row of each diaObjectId that has the highest visit; in order of ids.

    visits: int64, shape (rows,): which visit wrote each.
    """
    return taken(rows, newest_places(rows, visits))


def newest_places(rows: Array, visits: Array) -> Array:
    """Where the row of each diaObjectId is that has the highest visit; int64, in order of ids."""
    order = np.lexsort((visits, rows["diaObjectId"]))
    ids = rows["diaObjectId"][order]
    is_last = np.append(ids[1:] != ids[:-1], np.ones(min(1, len(ids)), bool))
    return np.asarray(order[is_last])


def in_key_order(rows: Array, table: Table) -> Array:
    """Put rows of a table in the order of its key."""
    return taken(rows, np.lexsort([rows[name] for name in reversed(table.key)]))
