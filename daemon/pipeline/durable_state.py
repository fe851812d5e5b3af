"""What the journal and the database keep of a group beside its readings: sessions, and the runs of epochs.

Each closed block changes it; it is written with the blocks, in the same record and the same transaction.
"""

import struct
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from daemon.pipeline.assembly.runs import EPOCHS_MOST
from schemas.batch import ClosedBlock
from schemas.readings import Array
from schemas.sessions import GONE, NO_SESSIONS, SESSION

_HEAD = struct.Struct("<4sII")
_MAGIC = b"TLS1"

EPOCH_RUN: np.dtype[Any] = np.dtype([("epoch", "<u4"), ("run", "<i4")])


class DurableState:
    """Sessions and runs as they are after a closed block; never changed, but followed by another.

    sessions: SESSION, shape (s,), ascending, none of them GONE. runs: by epoch.
    """

    def __init__(self, sessions: Array = NO_SESSIONS, runs: dict[int, int] | None = None) -> None:
        self.sessions = sessions
        self.runs = runs or {}

    def after(self, blocks: Iterable[ClosedBlock]) -> "DurableState":
        """The state after these blocks, in their order."""
        sessions, runs = self.sessions, self.runs
        for block in blocks:
            if len(block.sessions):
                sessions = _changed(sessions, block.sessions)
            if len(block.ledger) and block.ledger["epoch"].any():
                runs = _with_runs(runs, block.ledger)
        return self if sessions is self.sessions and runs is self.runs else DurableState(sessions, runs)

    def encode(self) -> bytes:
        """As bytes: how many there are, the runs, the sessions; none where there is nothing."""
        if not self.runs and not len(self.sessions):
            return b""
        runs = np.array(list(self.runs.items()), EPOCH_RUN)
        return _HEAD.pack(_MAGIC, len(runs), len(self.sessions)) + runs.tobytes() + self.sessions.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read it back; nothing at all is the state before the first block.

        Raises:
            ValueError: these are other bytes.
        """
        if not data:
            return cls()
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise ValueError("the state beside the position is none of this version")
        _, run_count, session_count = _HEAD.unpack_from(data)
        end = _HEAD.size + run_count * EPOCH_RUN.itemsize
        if len(data) != end + session_count * SESSION.itemsize:
            raise ValueError("the state beside the position is not whole")
        runs = np.frombuffer(data, EPOCH_RUN, count=run_count, offset=_HEAD.size)
        sessions = np.frombuffer(data, SESSION, count=session_count, offset=end).copy()
        return cls(sessions, dict(runs.tolist()))


def _changed(sessions: Array, changes: Array) -> Array:
    """Put changes in place of what they change; of one session the last counts."""
    at = np.searchsorted(sessions["session"], changes["session"])
    if len(sessions):
        known = sessions["session"][np.minimum(at, len(sessions) - 1)] == changes["session"]
        if known.all() and (changes["settled"] != GONE).all() and len(np.unique(at)) == len(at):
            changed = sessions.copy()
            changed[at] = changes
            return changed
    by_key = {row[0]: row for row in [*sessions.tolist(), *changes.tolist()]}
    return np.array(sorted(row for row in by_key.values() if row[1] != GONE), SESSION)


def _with_runs(runs: dict[int, int], ledger: Array) -> dict[int, int]:
    found = np.unique(ledger[["epoch", "run"]])
    new = {int(row["epoch"]): int(row["run"]) for row in found if row["epoch"] and int(row["epoch"]) not in runs}
    return dict(sorted({**runs, **new}.items())[-EPOCHS_MOST:]) if new else runs
