"""Removing documents whose readings were reduced, so that no command that comes late removes what came since.

A reading that comes late for a trigger of arrays whose document is gone is stored in a document with the same `_id`.
It has none of the instruments that the other one had: so who removes that one names an instrument that it has.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from bson import Int64

from backends.columns.stored import MISSING_OFFSET
from backends.mongodb.protocol.formats import data_format
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.server.errors import check_answer
from schemas.batch import Layout
from schemas.readings import Array

REMOVED_AT_ONCE = 1_000
"""So many documents are removed with one command, which the server has on its disk before the next: the writing beside
it does not wait for more."""


async def remove(group: GroupReader, found: Array, *, concern: dict[str, Any], target: str) -> None:
    """Remove documents; uint8, shape (documents, width)."""
    if not len(found):
        return
    times = data_format(group.of.group, group.of.layout).columns(found)["time_ns"]
    for wanted in _wanted(group, found):
        # Without an index all is read: the times leave less to compare.
        within = {} if group.server.uses_indexes else documents.times_of(times)
        deletes = [{"q": {**within, **wanted}, "limit": 0}]
        answer = await group.database.command("delete", group.of.data, deletes=deletes, writeConcern=concern)
        check_answer(answer, target)


async def remove_going(group: GroupReader, going: Array, *, concern: dict[str, Any], target: str) -> None:
    """Remove what is left of documents that were reduced, by their `_id`s."""
    form = data_format(group.of.group, group.of.layout)
    there = form.parse(await documents.by_ids(group.data, going, form, group.server))
    await remove(group, there[np.isin(form.columns(there)["_id"], going)], concern=concern, target=target)


def _wanted(group: GroupReader, found: Array) -> Iterator[documents.Filter]:
    form = data_format(group.of.group, group.of.layout)
    ids = form.columns(found)["_id"]
    if group.of.layout is Layout.ROWS:
        yield from documents.with_ids(ids, REMOVED_AT_ONCE)
        return
    offsets = form.get_arrays(found)["time_offset_ns"]
    there = offsets != MISSING_OFFSET
    first = np.where(there.any(axis=1), there.argmax(axis=1), -1)
    for instrument in np.unique(first).tolist():
        for wanted in documents.with_ids(ids[first == instrument], REMOVED_AT_ONCE):
            yield {**wanted, **_that_has(instrument, group.of.group.size)}


def _that_has(instrument: int, size: int) -> documents.Filter:
    if instrument < 0:
        return {"time_offset_ns": [Int64(MISSING_OFFSET)] * size}
    return {f"time_offset_ns.{instrument}": {"$ne": Int64(MISSING_OFFSET)}}
