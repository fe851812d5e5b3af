"""What a batch is about to change, noted beside the position before it is written, so that it can be taken out again.

The position goes last, and takes the note away. So a batch whose note is there was never acknowledged: its readings may
come again in triggers that close in another way, or not at all. Whoever finds the note takes out what the batch has
left: readings first, then the ledger. That may be interrupted and begun again at any point.

A command that takes something out may be given up without an answer, and be carried out when the batch was committed
again. So each demands the marks that were found on what it takes out: what is acknowledged later has another one.
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

from backends.base import StoreUnavailable
from backends.columns.stored import MISSING_OFFSET, STORED_DTYPES
from backends.mongodb.protocol.documents import id_bytes, number, turned_back
from backends.mongodb.protocol.documents import keys_of as keys_of_ids
from backends.mongodb.protocol.formats import BATCH, encode_ledger, entries_dtype, mark_of
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

LOOKS = 5
"""So often what is to be taken out is looked for at most, where it was changed meanwhile."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A note.

    mark: that of the ledger entries that the batch writes, and of no others; readings have a part of it (`mark_of`).
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
    is_ours = there["batch"] == note.mark
    others, ours = there["row"][~is_ours], there["row"][is_ours]
    committed = np.concatenate([others[~are_among(others, note.revised["row"])], note.revised["row"]])
    taking = _Taking(group, target)
    await taking.readings(committed, np.setdiff1d(_keys_in(note.triggers), keys_of(committed)))
    await taking.entries(ours[~are_among(ours, note.revised["row"])], note.mark)
    await taking.restore(note, ours)


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

    async def readings(self, committed: Array, gone: Array) -> None:
        """Delete the readings that the ledger rows of triggers call missing, and all of other triggers (`KEY`).

        Raises:
            StoreUnavailable: they were changed again and again.
        """
        for _ in range(LOOKS):
            # A command of the batch, or one that took it out, may come late and change the mark of what was found.
            if not await self._trim(committed) + await self._delete_all(gone):
                return
        raise StoreUnavailable(f"{self._target}: documents of {self._group.of.data!r} are being changed by others")

    async def _trim(self, committed: Array) -> int:
        """Delete the readings that ledger rows call missing; how many documents were others by then."""
        changed = 0
        group, layout, server = self._group.of.group, self._group.of.layout, self._group.server
        incomplete = committed[committed["arrived"] < committed["expected"]]
        for run in np.unique(incomplete["run"]).tolist():
            rows = np.sort(incomplete[incomplete["run"] == run], order="trigger")
            missing, triggers = unpack_missing(rows["missing"], group.size), rows["trigger"]
            for wanted in documents.readings_of_triggers(run, triggers, layout, server):
                async for found, marks in self._group.marked(wanted):
                    row = np.minimum(np.searchsorted(triggers, found["trigger"]), len(triggers) - 1)
                    goes = (triggers[row] == found["trigger"]) & missing[row, found["instrument"]]
                    changed += await self._make_missing(found[goes], marks[goes])
        return changed

    async def _make_missing(self, readings: Array, marks: Array) -> int:
        keys = readings[["run", "trigger", "instrument"]].tolist()
        if self._group.of.layout is Layout.ROWS:
            ids, filters = [Binary(id_bytes(*key), USER_DEFINED_SUBTYPE) for key in keys], []
            for mark in np.unique(marks).tolist():
                with_mark = (ids[at] for at in np.flatnonzero(marks == mark))
                filters += [{"_id": {"$in": some}, BATCH: mark} for some in in_commands(with_mark)]
            return len(ids) - await self._delete(self._group.of.data, filters)
        by_trigger = groupby(zip(keys, marks.tolist(), strict=True), key=lambda each: (*each[0][:2], each[1]))
        updates = [self._unset([key for key, _ in of], mark) for (*_, mark), of in by_trigger]
        return len(updates) - await self._update(self._group.of.data, updates)

    def _unset(self, keys: list[tuple[int, int, int]], mark: int) -> dict[str, Any]:
        """The update that makes instruments of a trigger's arrays missing, where these have a mark.

        They get another one: what was read before then finds nothing to change.
        """
        changes: dict[str, Any] = {BATCH: mark_of(new_mark())}
        for channel in self._group.of.group.channels:
            form = number(channel.name, STORED_DTYPES[channel.dtype]).form
            nothing = np.array([np.nan if channel.is_float else 0], form)[0]
            value = bson_value(nothing, all_doubles=self._group.server.keeps_all_doubles)
            changes |= {f"{channel.name}.{instrument}": value for *_, instrument in keys}
        changes |= {f"time_offset_ns.{instrument}": Int64(MISSING_OFFSET) for *_, instrument in keys}
        return {"q": {"_id": ObjectId(id_bytes(*keys[0][:2])), BATCH: mark}, "u": {"$set": changes}}

    async def _delete_all(self, gone: Array) -> int:
        """Delete all readings of triggers (`KEY`); how many documents were others by then."""
        layout = self._group.of.layout
        parts, parts_marks = [np.empty(0, KEY)], [np.empty(0, np.int32)]
        async for ids, marks in self._group.marked_ids(stretches(gone)):
            keys = np.empty(len(ids), KEY)
            of = keys_of_ids(ids)
            keys["run"], keys["trigger"] = of["run"], turned_back(of["trigger"])
            # Where there is no index to use, all between the first and the last of them are found.
            mine = np.isin(keys, gone)
            parts.append(keys[mine])
            parts_marks.append(marks[mine])
        found, found_marks = np.concatenate(parts), np.concatenate(parts_marks)
        filters = []
        for mark in np.unique(found_marks).tolist():
            of_mark = stretches(np.unique(found[found_marks == mark]))
            filters += [{**each, BATCH: mark} for each in documents.of_stretches(of_mark, layout)]
        return max(0, len(found) - await self._delete(self._group.of.data, filters))

    async def entries(self, rows: Array, mark: int) -> None:
        """Delete ledger entries with a mark."""
        filters = documents.of_stretches(stretches(keys_of(rows)), Layout.ARRAYS)
        await self._delete(self._group.of.ledger, [{**each, "batch": Int64(mark)} for each in filters])

    async def restore(self, note: Unfinished, ours: Array) -> None:
        """Put the ledger entries back that the batch has replaced. ours: those with its mark."""
        revised = note.revised[are_among(note.revised["row"], ours)]
        rows = revised["row"]
        entries = encode_ledger(rows, self._group.of.group.size, self._group.logger, revised["batch"])
        ids = [ObjectId(id_bytes(*key)) for key in rows[["run", "trigger"]].tolist()]
        mark = Int64(note.mark)
        updates = [
            {"q": {"_id": id_, "batch": mark}, "u": RawBSONDocument(entry.tobytes())}
            for id_, entry in zip(ids, entries, strict=True)
        ]
        await self._update(self._group.of.ledger, updates)

    async def _delete(self, collection: str, filters: Sequence[documents.Filter]) -> int:
        """Delete all that any of the filters finds; how many."""
        return await self._write("delete", "deletes", collection, [{"q": filter_, "limit": 0} for filter_ in filters])

    async def _update(self, collection: str, updates: Sequence[dict[str, Any]]) -> int:
        """Apply updates; how many documents they have found."""
        return await self._write("update", "updates", collection, updates)

    async def _write(self, command: str, name: str, collection: str, changes: Sequence[dict[str, Any]]) -> int:
        count = 0
        for some in in_commands(changes):
            what: dict[str, Any] = {name: some}
            answer = await self._group.database.command(command, collection, **what)
            check_answer(answer, self._target)
            count += int(answer["n"])
        return count


def in_commands(all_of_them: Iterable[T]) -> Iterator[list[T]]:
    """Cut into lists for a command each."""
    every = list(all_of_them)
    return (every[start : start + CHANGES] for start in range(0, len(every), CHANGES))
