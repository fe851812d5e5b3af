"""What flows from assembly to a store: closed blocks, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import numpy as np

from schemas.readings import Array, InstrumentGroup, join
from schemas.sessions import NO_SESSIONS
from schemas.states import AsideReason


class Durability(StrEnum):
    """What an acknowledged commit survives."""

    SYNC = "sync"  # a crash of the server
    ASYNC = "async"  # a crash of the daemon; the server may lose its last moments


class Layout(StrEnum):
    """How a group is stored."""

    ROWS = "rows"  # a row (document) a reading
    ARRAYS = "arrays"  # a row (document) a trigger, an array a channel


class Stream(StrEnum):
    """Which position a batch moves: each stream has one of its own, with an account of its own."""

    JOURNAL = "journal"
    DEAD_LETTERS = "dead-letters"  # what was rejected once and is tried again; its numbers are those of the letters


def position_owner(logger: str, stream: Stream) -> str:
    """The name under which a logger's position in a stream is stored."""
    return logger if stream is Stream.JOURNAL else f"{logger}/{stream}"


@dataclass(frozen=True, kw_only=True)
class JournalPosition:
    """Up to where a store holds what a logger closed for a group, and the account of it.

    sequence: closed blocks are numbered in ascending order, never twice.
    journal: the id of the journal (of the folder of dead letters) that `sequence` counts in; 0 where nobody named one.
        Numbers of two journals say nothing of each other.
    triggers, readings: all that this logger ever committed into the group. They are totals and no increments, so that
    writing a position again changes nothing. Dead letters are not among them; those that were retried are in the
    account of their own stream.
    state: what the logger keeps with the position, in the same transaction; nothing that a store understands.
    """

    sequence: int
    triggers: int = 0
    readings: int = 0
    journal: int = 0
    state: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Aside:
    """Readings that assembly could put into no trigger.

    readings: record dtype, shape (n,). run: int32, shape (n,); 0 where it is unknown. reason: uint8, shape (n,); an
    `schemas.states.AsideReason`.
    """

    readings: Array
    run: Array
    reason: Array

    def __getitem__(self, part: Array) -> "Aside":
        return Aside(readings=self.readings[part], run=self.run[part], reason=self.reason[part])

    @classmethod
    def of(cls, readings: Array, run: Array | int, reason: AsideReason) -> "Aside":
        """Readings that are set aside for one reason."""
        shape = len(readings)
        runs = np.broadcast_to(np.asarray(run, np.int32), shape)
        return cls(readings=readings, run=runs, reason=np.full(shape, reason, np.uint8))

    @classmethod
    def joined(cls, parts: "Sequence[Aside]") -> "Aside | None":
        """All of these, in their order; None of none."""
        if not parts:
            return None
        return cls(
            readings=join([part.readings for part in parts]),
            run=np.concatenate([part.run for part in parts]),
            reason=np.concatenate([part.reason for part in parts]),
        )


@dataclass(frozen=True, kw_only=True)
class ClosedBlock:
    """What one step of assembly closed, in ascending order of triggers; any part may be empty.

    readings: record dtype, shape (triggers, instruments); undefined where not present.
    present: bool, shape (triggers, instruments).
    ledger: ledger dtype, shape (triggers,); row k belongs to readings[k].
    late: record dtype, shape (late,): readings for triggers that were closed in an earlier step.
    late_of: intp, shape (late,): late[k] belongs to the trigger of revised[late_of[k]].
    revised: ledger dtype, shape (revised,): whole new ledger rows of triggers closed in an earlier step, each once.
    aside: readings that are for no trigger; no store gets them. None where there are none.
    sessions: `schemas.sessions.SESSION`, shape (s,): what this step changed of the senders' sessions. With all before
        it, it says up to where each session is settled once this block is stored: all that came of it and is not in
        this block or an earlier one has a higher number.
    """

    readings: Array
    present: Array
    ledger: Array
    late: Array
    late_of: Array
    revised: Array
    aside: Aside | None = None
    sessions: Array = field(default_factory=lambda: NO_SESSIONS)

    @property
    def triggers(self) -> int:
        """How many triggers this step closed."""
        return len(self.ledger)

    @property
    def nbytes(self) -> int:
        """Memory it holds, in bytes."""
        own = self.readings.nbytes + self.present.nbytes + self.ledger.nbytes
        late = self.late.nbytes + self.late_of.nbytes + self.revised.nbytes
        return own + late + self.sessions.nbytes + (0 if self.aside is None else self.aside.readings.nbytes)

    @property
    def parts(self) -> dict[str, Any]:
        """Its parts by name, without what a batch adds to them."""
        return {part.name: getattr(self, part.name) for part in fields(ClosedBlock)}


@dataclass(frozen=True, kw_only=True)
class Batch(ClosedBlock):
    """What one transaction commits: closed triggers, their ledger rows, and the journal position they end at.

    A revised row may belong to a trigger of the same batch: a store writes `ledger` first, then `revised`.

    follows: where the stream's position was acknowledged to be; None where nobody knows. A store that is behind it has
    lost what it acknowledged, and takes no batch that would leave a gap; and where it is at another journal's position
    than this one, it takes none either.
    """

    group: InstrumentGroup
    position: JournalPosition
    durability: Durability
    stream: Stream = Stream.JOURNAL
    follows: JournalPosition | None = None
