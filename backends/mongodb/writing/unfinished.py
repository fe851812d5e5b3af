"""What a batch is about to change, noted beside the position before it is written, so that it can be taken out again.

The position goes last, and takes the note away. So a batch whose note is there was never acknowledged: its readings may
come again in triggers that close in another way, or not at all. Whoever finds the note takes out what the batch has
left: readings first, then the ledger. That may be interrupted and begun again at any point.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from bson import Binary, Int64, ObjectId
from bson.binary import USER_DEFINED_SUBTYPE
from bson.raw_bson import RawBSONDocument

from backends.columns.stored import MISSING_OFFSET, STORED_DTYPES
from backends.mongodb.protocol.documents import id_bytes, number
from backends.mongodb.protocol.formats import encode_ledger, entries_dtype
from backends.mongodb.protocol.spans import STRETCH
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.server.errors import check_answer
from backends.mongodb.writing.conflicts import bson_value
from schemas.batch import Layout
from schemas.ledger import unpack_missing
from schemas.readings import Array, InstrumentGroup

CHANGES = 50
"""So many changes go with one command: FerretDB 1 holds one of its 100 connections to SQLite for each until the command
ends, and waits for ever for the one after the last."""

KEY = np.dtype([("run", "<i4"), ("trigger", "<i8")])

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A note.

    mark: that of the ledger entries that the batch writes, and of no others.
    triggers: `STRETCH`, shape (stretches,): all triggers of the batch.
    revised: `entries_dtype`, shape (r,): ledger entries that are there before the batch.
    """

    mark: int
    triggers: Array
    revised: Array

    def fields(self) -> dict[str, Any]:
        """What is stored of it."""
        return {
            "mark": Int64(self.mark),
            "triggers": Binary(self.triggers.tobytes()),
            "revised": Binary(self.revised.tobytes()),
        }


def unfinished_in(fields: Mapping[str, Any], group: InstrumentGroup) -> Unfinished:
    """Read a note that was stored."""
    return Unfinished(
        mark=int(fields["mark"]),
        triggers=np.frombuffer(fields["triggers"], STRETCH),
        revised=np.frombuffer(fields["revised"], entries_dtype(group.size)),
    )


def new_mark() -> int:
    """A mark that no other batch has."""
    return int.from_bytes(os.urandom(8), "little") >> 1


def keys_of(rows: Array) -> Array:
    """The keys of ledger rows: `KEY`, ascending, each once."""
    return np.unique(_keys(rows))


def _keys(rows: Array) -> Array:
    keys = np.empty(len(rows), KEY)
    keys["run"], keys["trigger"] = rows["run"], rows["trigger"]
    return keys


def are_among(rows: Array, others: Array) -> Array:
    """Which ledger rows have the key of one of the others; bool, shape (rows,)."""
    return np.isin(_keys(rows), _keys(others))


def stretches(keys: Array) -> Array:
    """Put keys (ascending, each once) together where no other can be between them: `STRETCH`."""
    apart = (np.diff(keys["run"]) != 0) | (np.diff(keys["trigger"]) != 1)
    begins = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), bool), apart]))
    found = np.empty(len(begins), STRETCH)
    found["run"], found["first"] = keys["run"][begins], keys["trigger"][begins]
    found["last"] = keys["trigger"][np.concatenate([begins[1:], [len(keys)]])[: len(begins)] - 1]
    return found


async def take_out(group: GroupReader, note: Unfinished, target: str) -> None:
    """Leave of the triggers of a note what was there before its batch."""
    there = await group.entries(note.triggers)
    others = there[(there["batch"] != note.mark) & ~are_among(there["row"], note.revised["row"])]
    committed = np.concatenate([others["row"], note.revised["row"]])
    taking = _Taking(group, target)
    await taking.trim(committed)
    gone = stretches(np.setdiff1d(_keys_in(note.triggers), keys_of(committed)))
    await taking.delete(group.of.data, documents.of_stretches(gone, group.of.layout))
    await taking.delete(group.of.ledger, documents.of_stretches(gone, Layout.ARRAYS))
    await taking.restore(note)


def _keys_in(parts: Array) -> Array:
    keys = np.empty(int((parts["last"] - parts["first"] + 1).sum()), KEY)
    at = 0
    for run, first, last in parts.tolist():
        part = keys[at : at + last - first + 1]
        part["run"], part["trigger"] = run, np.arange(first, last + 1)
        at += len(part)
    return keys


class _Taking:
    """The commands that take a batch out."""

    def __init__(self, group: GroupReader, target: str) -> None:
        self._group = group
        self._target = target

    async def trim(self, committed: Array) -> None:
        """Delete the readings that the ledger rows of triggers call missing."""
        group, layout, server = self._group.of.group, self._group.of.layout, self._group.server
        incomplete = committed[committed["arrived"] < committed["expected"]]
        for run in np.unique(incomplete["run"]).tolist():
            rows = np.sort(incomplete[incomplete["run"] == run], order="trigger")
            missing, triggers = unpack_missing(rows["missing"], group.size), rows["trigger"]
            for wanted in documents.readings_of_triggers(run, triggers, layout, server):
                async for found in self._group.chunks(wanted):
                    readings = found[np.isin(found["trigger"], triggers)]
                    row = np.searchsorted(triggers, readings["trigger"])
                    await self._make_missing(readings[missing[row, readings["instrument"]]])

    async def _make_missing(self, readings: Array) -> None:
        keys = readings[["run", "trigger", "instrument"]].tolist()
        if self._group.of.layout is Layout.ROWS:
            ids = [Binary(id_bytes(*key), USER_DEFINED_SUBTYPE) for key in keys]
            await self.delete(self._group.of.data, [{"_id": {"$in": some}} for some in in_commands(ids)])
        else:
            by_trigger = groupby(keys, key=lambda key: key[:2])
            await self._update(self._group.of.data, [self._unset(list(of)) for _, of in by_trigger])

    def _unset(self, keys: list[tuple[int, int, int]]) -> dict[str, Any]:
        """The update that makes instruments of a trigger's arrays missing."""
        changes: dict[str, Any] = {}
        for channel in self._group.of.group.channels:
            form = number(channel.name, STORED_DTYPES[channel.dtype]).form
            nothing = np.array([np.nan if channel.is_float else 0], form)[0]
            value = bson_value(nothing, all_doubles=self._group.server.keeps_all_doubles)
            changes |= {f"{channel.name}.{instrument}": value for *_, instrument in keys}
        changes |= {f"time_offset_ns.{instrument}": Int64(MISSING_OFFSET) for *_, instrument in keys}
        return {"q": {"_id": ObjectId(id_bytes(*keys[0][:2]))}, "u": {"$set": changes}}

    async def restore(self, note: Unfinished) -> None:
        """Put the ledger entries back that the batch has replaced."""
        rows = note.revised["row"]
        entries = encode_ledger(rows, self._group.of.group.size, self._group.logger, note.revised["batch"])
        ids = [ObjectId(id_bytes(*key)) for key in rows[["run", "trigger"]].tolist()]
        ours = Int64(note.mark)
        updates = [
            {"q": {"_id": id_, "batch": ours}, "u": RawBSONDocument(entry.tobytes())}
            for id_, entry in zip(ids, entries, strict=True)
        ]
        await self._update(self._group.of.ledger, updates)

    async def delete(self, collection: str, filters: Sequence[documents.Filter]) -> None:
        """Delete all that any of the filters finds."""
        for some in in_commands([{"q": filter_, "limit": 0} for filter_ in filters]):
            answer = await self._group.database.command("delete", collection, deletes=some)
            check_answer(answer, self._target)

    async def _update(self, collection: str, updates: Sequence[dict[str, Any]]) -> None:
        for some in in_commands(updates):
            answer = await self._group.database.command("update", collection, updates=some)
            check_answer(answer, self._target)


def in_commands(all_of_them: Iterable[T]) -> Iterator[list[T]]:
    """Cut into lists for a command each."""
    every = list(all_of_them)
    return (every[start : start + CHANGES] for start in range(0, len(every), CHANGES))
