"""The database: a store in memory that dies before, in or after a commit, loses its last moments, or falls back.

`Database` is the server; it outlives every daemon. `Client` is the `Store` that one daemon's life has of it.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from backends.base import BatchRejected, StoreUnavailable, is_committed
from schemas.batch import Batch, Durability, JournalPosition, Stream
from schemas.queries import Query
from schemas.readings import Array, InstrumentGroup, join
from schemas.retention import Dropped
from tests.simulation.loop import Life, VirtualLoop
from tests.support.memory.store import MemoryStore, _late, _on_time

OF_CLOSING = ("run", "trigger", "time_ns", "expected", "closed_ns")
GROWING = ("arrived", "late", "duplicates")
"""Columns that tell closings of a trigger apart, and its revisions, in a store that writes in parts."""


TAKES_OUT = True
"""True where a store that writes in parts takes out what did not come to its end."""


class Moment(StrEnum):
    """When the server dies."""

    BEFORE = "before"  # nothing of the commit is there
    IN = "in"  # a part of it is there, where it is written in parts; else nothing
    AFTER = "after"  # all of it is there, and the daemon does not know


@dataclass(frozen=True)
class Undo:
    """What takes one commit back. made_ns: when it was made; marks: of the readings that it added."""

    made_ns: int
    group: str
    stream: Stream
    durability: Durability
    rows: int
    ledger: dict[tuple[int, int], Array | None]
    position: JournalPosition | None
    marks: list[int]


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """What the database will not take: triggers with this remainder, until a moment (monotonic, ns)."""

    modulus: int
    remainder: int
    until_ns: int


class RecordingStore(MemoryStore):
    """A MemoryStore that can be taken back to an earlier state, and written in parts."""

    def __init__(self, groups: Mapping[str, InstrumentGroup], clock: Callable[[], int]) -> None:
        super().__init__(groups)
        self.undos: list[Undo] = []
        self.note: Undo | None = None  # of a batch that is being written in parts
        self.marks: Counter[int] = Counter()
        self._clock = clock

    def retried(self, group: str) -> JournalPosition:
        """Up to where it has the dead letters that were retried."""
        return self._groups[group].positions.get(Stream.DEAD_LETTERS, JournalPosition(sequence=0))

    async def commit(self, batch: Batch) -> None:
        undo = self._undo_of(batch)
        await super().commit(batch)
        if self._groups[batch.group.name].positions.get(batch.stream) is not undo.position:
            self._keep(undo, batch)

    def _undo_of(self, batch: Batch) -> Undo:
        kept = self._groups[batch.group.name]
        keys = [(int(row["run"]), int(row["trigger"])) for row in (*batch.ledger, *batch.revised)]
        return Undo(
            self._clock(),
            batch.group.name,
            batch.stream,
            batch.durability,
            len(kept.everything()),
            {key: kept.ledger.get(key) for key in keys},
            kept.positions.get(batch.stream),
            [],
        )

    def _keep(self, undo: Undo, batch: Batch) -> None:
        added = self._groups[batch.group.name].everything()[undo.rows :]
        undo.marks.extend(added["mark"].tolist())
        self.marks.update(undo.marks)
        self.undos.append(undo)

    def take_back(self, to_ns: int, durability: Durability | None = None) -> list[int]:
        """Undo what was committed after that moment; return the marks of the readings that are gone."""
        self.take_out()
        gone: list[int] = []
        while self.undos and self.undos[-1].made_ns > to_ns:
            if durability is not None and self.undos[-1].durability is not durability:
                break
            gone += self._take_back(self.undos.pop())
        return gone

    def _take_back(self, undo: Undo) -> list[int]:
        kept = self._groups[undo.group]
        kept.readings = [kept.everything()[: undo.rows]]
        for key, row in undo.ledger.items():
            if row is None:
                kept.ledger.pop(key, None)
            else:
                kept.ledger[key] = row
        if undo.position is None:
            kept.positions.pop(undo.stream, None)
        else:
            kept.positions[undo.stream] = undo.position
        self.marks.subtract(undo.marks)
        return undo.marks

    # --- in parts, as MongoDB does ------------------------------------------------------------------------------

    async def commit_parts(self, batch: Batch, part: float) -> None:
        """Write so much of a batch: a note, readings, the ledger, then, if all of it is to be written, the position.

        What a batch has left that did not come to its end is taken out before anything else happens (`take_out`).
        """
        kept = self._groups[batch.group.name]
        self.take_out()
        if is_committed(kept.positions.get(batch.stream, JournalPosition(sequence=0)), batch):
            return
        self.note = undo = self._undo_of(batch)
        try:
            self._put_readings(kept, batch, min(1.0, 2 * part))
            if part >= 0.5:
                self._put_ledger(kept, batch, min(1.0, 2 * part - 1))
        except BatchRejected:
            self._keep(undo, batch)
            self.take_out()
            raise
        if part >= 1:
            kept.positions[batch.stream] = batch.position
            self.note = None
        self._keep(undo, batch)

    def take_out(self) -> None:
        """Leave of an unfinished batch nothing."""
        if self.note is not None and TAKES_OUT:
            assert self.undos[-1] is self.note
            self._take_back(self.undos.pop())
        self.note = None

    def _put_readings(self, kept: Any, batch: Batch, part: float) -> None:
        rows = np.concatenate([_on_time(batch), _late(batch)])
        every = kept.everything()
        near = every[np.isin(every["trigger"], rows["trigger"])]
        there = {(int(r["run"]), int(r["trigger"]), int(r["instrument"])): r for r in near}
        new = []
        for row in rows[: round(len(rows) * part)]:
            same = there.get((int(row["run"]), int(row["trigger"]), int(row["instrument"])))
            if same is None:
                new.append(row)
            elif same != row:
                raise BatchRejected("other values under the same key", f"trigger {row['trigger']} of run {row['run']}")
        if new:
            kept.readings.append(np.array(new, every.dtype))

    def _put_ledger(self, kept: Any, batch: Batch, part: float) -> None:
        rows = [*batch.ledger, *batch.revised]
        for row in rows[: round(len(rows) * part)]:
            key = int(row["run"]), int(row["trigger"])
            found = kept.ledger.get(key)
            if found is not None:
                if any(found[name] != row[name] for name in OF_CLOSING):
                    raise BatchRejected("another ledger row under the same key", f"trigger {key[1]} of run {key[0]}")
                if any(found[name] > row[name] for name in GROWING):
                    continue
            kept.ledger[key] = row.copy()


class Database:
    """The server.

    in_parts: a commit is written readings first, position last, without a transaction. on_write: told of each batch
    that is there whole. on_commit: told of each that the daemon knows to be there.
    """

    def __init__(
        self, loop: VirtualLoop, groups: Mapping[str, InstrumentGroup], rng: random.Random, *, in_parts: bool
    ) -> None:
        self.store = RecordingStore(groups, lambda: loop.now_ns)
        self.loop, self.in_parts = loop, in_parts
        self.rng = rng
        self.down_until_ns = 0
        self.delay_s = 0.002
        self.rejections: list[Rejection] = []
        self.lacking: dict[str, int] = {}  # until when it refuses these calls with an error that nobody knows
        self.commits = 0
        self.on_write: Callable[[Batch], None] = lambda batch: None
        self.on_commit: Callable[[Batch], None] = lambda batch: None
        self._crash: tuple[Moment, float, float, Callable[[], None]] | None = None
        self._commits_before = 0

    def retried(self, group: str) -> JournalPosition:
        """Up to where it has the dead letters that were retried."""
        return self.store.retried(group)

    def be_down(self, for_s: float) -> None:
        """Answer nothing for so long."""
        self.down_until_ns = max(self.down_until_ns, self.loop.now_ns + int(for_s * 1e9))

    def crash_at_commit(
        self, moment: Moment, part: float, down_s: float, then: Callable[[], None], *, skip: int = 0
    ) -> None:
        """Die at the next commit, or after so many more; then: what else happens at that moment."""
        self._crash, self._commits_before = (moment, part, down_s, then), skip

    def heal(self) -> None:
        """All is well from now on."""
        self.down_until_ns, self._crash, self.rejections, self.delay_s = 0, None, [], 0.002
        self.lacking.clear()

    def see_up(self, call: str = "") -> None:
        """Raise StoreUnavailable while it is down, or lacks what this call needs."""
        if self.loop.now_ns < self.down_until_ns:
            raise StoreUnavailable("the database does not answer")
        if self.loop.now_ns < self.lacking.get(call, 0):
            raise StoreUnavailable("the database cannot do it now: no such table (42P01)")

    async def commit(self, batch: Batch, life: Life) -> None:
        """Commit, or die."""
        self._see_taken(batch)
        crash = self._crash
        if crash is None or self._commits_before:
            self._commits_before = max(0, self._commits_before - 1)
            await self._write(batch, 1.0)
            self.commits += 1
            self.on_commit(batch)
            return
        self._crash = None
        moment, part, down_s, then = crash
        if moment is Moment.AFTER:
            await self._write(batch, 1.0)
        elif moment is Moment.IN and self.in_parts:
            await self._write(batch, part)
        self.be_down(down_s)
        then()
        life.note("step")  # it may be the daemon that died
        raise StoreUnavailable("the connection to the database was lost")

    async def rehearse(self, batch: Batch) -> None:
        """Say whether a batch would be taken."""
        self._see_taken(batch)
        if self.in_parts:
            await self._write(batch, 0.999)
            self.store.take_out()
        else:
            await self.store.rehearse(batch)

    async def _write(self, batch: Batch, part: float) -> None:
        if self.in_parts:
            await self.store.commit_parts(batch, part)
        else:
            await self.store.commit(batch)
        if part >= 1:
            self.on_write(batch)

    def _see_taken(self, batch: Batch) -> None:
        triggers = np.concatenate([batch.ledger["trigger"], batch.revised["trigger"]])
        for rejection in self.rejections:
            if self.loop.now_ns < rejection.until_ns:
                bad = triggers[triggers % rejection.modulus == rejection.remainder]
                if len(bad):
                    raise BatchRejected("the database does not like some triggers", f"trigger {bad[0]}")


class Client:
    """The store of one life (`backends.base.Store`, as far as a pipeline asks for it)."""

    def __init__(self, database: Database, life: Life, rng: random.Random) -> None:
        self._database, self._life, self._rng = database, life, rng

    async def _reach(self, call: str = "") -> None:
        await asyncio.sleep(self._database.delay_s * self._rng.uniform(0.3, 1.0))
        self._life.note("step")
        self._database.see_up(call)

    async def open(self) -> None:
        await self._reach()

    async def commit(self, batch: Batch) -> None:
        await self._reach("commit")
        await self._database.commit(batch, self._life)
        await asyncio.sleep(self._database.delay_s * self._rng.uniform(0.3, 1.0))
        self._database.see_up()

    async def rehearse(self, batch: Batch) -> None:
        await self._reach("rehearse")
        await self._database.rehearse(batch)

    async def position(self, group: str, stream: Stream = Stream.JOURNAL) -> JournalPosition | None:
        await self._reach("position")
        self._database.store.take_out()
        return await self._database.store.position(group, stream)

    async def states(self) -> Mapping[str, bytes]:
        self._database.see_up()
        return await self._database.store.states()

    async def dropped(self) -> Mapping[str, tuple[Dropped, ...]]:
        self._database.see_up()
        return await self._database.store.dropped()

    async def ask(self, query: Query) -> Array:
        await self._reach("ask")
        self._database.store.take_out()
        return await self._database.store.ask(query)

    async def close(self) -> None:
        """There is nothing to give back."""


def marks_of(batch: Batch) -> list[int]:
    """The marks of all readings of a batch."""
    return [int(mark) for mark in join([batch.readings[batch.present], batch.late])["mark"]]
