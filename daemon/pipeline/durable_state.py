"""State that the database keeps of a group beside its readings: sessions, and the runs of epochs.

Each closed block changes it; it is written beside the position, in the transaction that holds the blocks.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np

from daemon.pipeline.assembly import EPOCHS_MOST
from schemas.batch import ClosedBlock
from schemas.readings import Array
from schemas.sessions import GONE, NO_SESSIONS, SESSION

_HEAD = struct.Struct("<4sII16x")
_MAGIC = b"TLS1"

EPOCH_RUN: np.dtype[Any] = np.dtype([("epoch", "<u4"), ("run", "<i4")])


class DurableState:
    """Sessions and runs as they are after a closed block; never changed, but followed by another.

    sessions: SESSION, shape (s,), ascending, none of them GONE. runs: by epoch, the one heard longest ago first; at the
    end that which the group is in: one that more than one instrument sent, if any.
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

    @cached_property
    def encoded(self) -> bytes:
        """As bytes: how many there are, the runs, the sessions; none where there is nothing."""
        if not self.runs and not len(self.sessions):
            return b""
        runs = np.array(list(self.runs.items()), EPOCH_RUN)
        head = _HEAD.pack(_MAGIC, len(runs), len(self.sessions))
        return head + runs.tobytes() + self.sessions.tobytes()

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


def may_have(epoch: int, run: int, *known: Collection[tuple[int, int]]) -> bool:
    """Whether an epoch may have a run by what is known: pairs of epoch and run, from several places.

    An epoch has one run, and a run one epoch. The first place that knows either of them decides.
    """
    for pairs in known:
        if any(epoch == of or run == number for of, number in pairs):
            return (epoch, run) in pairs
    return True


def runs_in(states: Mapping[str, bytes], group: str) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Pairs of epoch and run: of a group, and of all others, by the states that a database has of them."""
    own, others = set[tuple[int, int]](), set[tuple[int, int]]()
    for name, data in states.items():
        (own if name == group else others).update(DurableState.decode(data).runs.items())
    return own, others


def _changed(sessions: Array, changes: Array) -> Array:
    """Put changes in place of what they change; of one session the last counts."""
    goes_on = changes["settled"] != GONE
    at = np.searchsorted(sessions["session"], changes["session"])
    if goes_on.all() and (at < len(sessions)).all() and (sessions["session"][at] == changes["session"]).all():
        changed = sessions.copy()  # as with each trigger while all instruments send
        changed[at] = changes
        return changed
    both = np.concatenate([sessions, changes])
    order = np.argsort(both["session"], kind="stable")
    keys = both["session"][order]
    last = both[order[np.append(keys[1:] != keys[:-1], True)]]
    return np.asarray(last[last["settled"] != GONE])


def _with_runs(runs: dict[int, int], ledger: Array) -> dict[int, int]:
    """The runs with those of closed triggers at the end, that with the most of them last, but for the group's own.

    An instrument alone moves nobody: with garbage for epochs it must not have the one forgotten that the group is in.
    """
    within = next(reversed(runs), 0)
    if (ledger["epoch"] == within).all():
        return runs
    found, counts = np.unique(ledger[["epoch", "run"]], return_counts=True)
    heard = {epoch: run for epoch, run in found[np.argsort(counts, kind="stable")].tolist() if epoch}
    together = ledger["epoch"][ledger["arrived"] >= np.minimum(ledger["expected"], 2)]
    within = next((epoch for epoch in reversed(heard) if epoch in together), within)
    changed = {epoch: run for epoch, run in runs.items() if epoch not in heard}
    changed |= {epoch: runs.get(epoch, run) for epoch, run in heard.items()}
    if within:
        changed[within] = changed.pop(within)
    if list(changed) == list(runs):
        return runs
    for epoch in list(changed)[:-EPOCHS_MOST]:
        del changed[epoch]
    return changed
