"""Stray readings: those that do not fit the run, held back until it is clear what they mean.

One bad instrument must not move the logger, and a restarted machine must not be refused. So a reading whose trigger
number lies outside the window, or went back while its instrument's clock went on, is held. When most instruments
stray the same way, the machine has restarted (a new run) or jumped ahead (the window moves); when a reading has been
held for the assembly timeout and nothing came of it, it is let go.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np

from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.progress import ONE_MOMENT_NS, Progress, are_most
from schemas.readings import Array, join

Stray = tuple[Array, Origin]
"""Readings that came together, and where from."""

HELD_OF_AN_INSTRUMENT = 1024
"""Stray readings held of one instrument; more are let go at once, so that a mad sender cannot fill the memory."""


class Move(Enum):
    """What stray readings turn out to mean."""

    BEGIN = auto()  # the first readings of all
    RESTART = auto()  # most instruments fell back
    JUMP = auto()  # most instruments went far ahead
    BACK = auto()  # most instruments are behind the front that a few had made


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A move, the trigger number it leads to, and the earliest timestamp that belongs there (ns).

    instruments: how many it is the move of.
    """

    move: Move
    front: int
    started_ns: int
    instruments: int


class Strays:
    """Stray readings of one group, in the order they came."""

    def __init__(self, instruments: int, record: np.dtype[Any]) -> None:
        self._none = np.empty(0, record)
        self._blocks: list[tuple[Array, Origin, int]] = []
        self._held = np.zeros(instruments, np.int32)

    def __len__(self) -> int:
        return sum(len(block) for block, _, _ in self._blocks)

    @property
    def oldest_ns(self) -> int | None:
        """Monotonic time at which the oldest stray came."""
        return self._blocks[0][2] if self._blocks else None

    def is_due(self, until_ns: int) -> bool:
        """Whether any came until then (monotonic)."""
        return self.oldest_ns is not None and self.oldest_ns <= until_ns

    def hold(self, block: Array, origin: Origin, monotonic_ns: int) -> Array:
        """Hold readings back; return which were: bool, shape (n,). There is no room for the others."""
        room: Array = self._held[block["instrument"]] < HELD_OF_AN_INSTRUMENT
        if room.any():
            held = block[room]
            self._blocks.append((held, origin[room], monotonic_ns))
            np.add.at(self._held, held["instrument"], 1)
        return room

    def origins(self) -> list[Origin]:
        """Origins of all that is held."""
        return [origin for _, origin, _ in self._blocks]

    def restart(self, monotonic_ns: int) -> None:
        """Take all that is held as if it had come now."""
        self._blocks = [(block, origin, monotonic_ns) for block, origin, _ in self._blocks]

    def release(self, until_ns: int) -> list[Stray]:
        """Let go of what came at `until_ns` (monotonic) or before."""
        out = [(block, origin) for block, origin, came in self._blocks if came <= until_ns]
        self._blocks = [item for item in self._blocks if item[2] > until_ns]
        for block, _ in out:
            np.subtract.at(self._held, block["instrument"], 1)
        return out

    def held(self) -> Array:
        """All that is held, in the order it came: record dtype, shape (n,)."""
        return join([self._none, *(block for block, _, _ in self._blocks)])

    def instruments(self) -> Array:
        """Numbers of the instruments of which something is held."""
        return np.flatnonzero(self._held)

    def begin(self) -> Verdict:
        """Return that a run begins with what was held last, whatever was before."""
        return _verdict(Move.BEGIN, self._blocks[-1][0])

    def judge(
        self,
        progress: Progress,
        started_ns: int,
        active: Array,
        *,
        utc_ns: int,
        expired: bool,
    ) -> Verdict | None:
        """Say what the strays mean, if that is clear by now.

        progress: how far the run is.
        started_ns: when the run began; a straggler of the run before is no reason to move.
        active: which instruments took part lately, bool, shape (instruments,); more than half have to agree.
        utc_ns: now. expired: whether the oldest stray has been held for the assembly timeout.
        """
        if not self._blocks:
            return None
        held = join([block for block, _, _ in self._blocks])
        held = held[held["time_ns"] >= started_ns]
        front = progress.front
        if not len(held):
            return None
        if front is None:
            enough = expired or 2 * len(np.unique(held["instrument"])) >= np.count_nonzero(active)
            return _verdict(Move.BEGIN, held) if enough else None
        for move, part in (
            # Of a known epoch nothing falls back: what is behind its front is older.
            (Move.RESTART, held[progress.fell_back(held, utc_ns) & (held["trigger"] <= front) & (held["epoch"] == 0)]),
            (Move.JUMP, held[progress.is_ahead(held["trigger"])]),
            (Move.BACK, held[progress.is_older(held["trigger"]) & (not progress.is_of_most)]),
        ):
            if len(part) and are_most(part["instrument"], active):
                return _verdict(move, part)
        return None


def _verdict(move: Move, block: Array) -> Verdict:
    times = block["time_ns"]
    middle = np.median(times)
    together = times[np.abs(times - middle) < ONE_MOMENT_NS]
    started = int(together.min()) if len(together) else int(middle)
    # Not np.median: floats do not tell high trigger numbers apart.
    triggers, half = block["trigger"], len(block) // 2
    front, instruments = int(np.partition(triggers, half)[half]), len(np.unique(block["instrument"]))
    return Verdict(move=move, front=front, started_ns=started, instruments=instruments)


EPOCHS_OF_AN_INSTRUMENT = 16
"""Epochs of which readings of one instrument are held: one with garbage for epochs has another with each reading."""

_Held = tuple[Array, Origin, int]


class NotBegun:
    """Held readings of one group by epoch, in the order they came; instruments: how many the group has."""

    def __init__(self, instruments: int) -> None:
        self._of: dict[int, list[_Held]] = {}
        self._senders: dict[int, Array] = {}  # of each epoch, distinct instruments
        self._readings = np.zeros(instruments, np.int32)  # by instrument, as all that follows
        self._epochs = np.zeros(instruments, np.int32)

    def __len__(self) -> int:
        return int(self._readings.sum())

    @property
    def oldest_ns(self) -> int | None:
        """Monotonic time at which the oldest held reading came."""
        return min((held[0][2] for held in self._of.values()), default=None)

    def senders_of(self, epoch: int) -> Array:
        """Numbers of the instruments of which readings of an epoch are held."""
        return self._senders.get(epoch, np.empty(0, np.uint32))

    def hold(self, block: Array, origin: Origin, monotonic_ns: int) -> Array:
        """Hold readings of one epoch; return which were: bool, shape (n,). There is no room for the others."""
        epoch, instruments = int(block["epoch"][0]), block["instrument"]
        senders = self.senders_of(epoch)
        room: Array = self._epochs[instruments] < EPOCHS_OF_AN_INSTRUMENT
        room |= np.isin(instruments, senders)
        room &= self._readings[instruments] < HELD_OF_AN_INSTRUMENT
        if room.any():
            self._of.setdefault(epoch, []).append((block[room], origin[room], monotonic_ns))
            np.add.at(self._readings, instruments[room], 1)
            new = np.setdiff1d(instruments[room], senders)
            self._epochs[new] += 1
            self._senders[epoch] = np.union1d(senders, new)
        return room

    def origins(self) -> list[Origin]:
        """Origins of all that is held."""
        return [origin for held in self._of.values() for _, origin, _ in held]

    def restart(self, monotonic_ns: int) -> None:
        """Take all that is held as if it had come now."""
        self._of = {
            epoch: [(block, origin, monotonic_ns) for block, origin, _ in held] for epoch, held in self._of.items()
        }

    def release_of(self, epoch: int) -> list[_Held]:
        """Let go of what is held of an epoch, with the monotonic time at which it came."""
        out = self._of.pop(epoch, [])
        if out:
            self._epochs[self._senders.pop(epoch)] -= 1
        for block, _, _ in out:
            np.subtract.at(self._readings, block["instrument"], 1)
        return out

    def due(self, until_ns: int) -> list[int]:
        """Return the epochs of which anything came at `until_ns` (monotonic) or before."""
        return [epoch for epoch, held in self._of.items() if held[0][2] <= until_ns]

    def release(self, until_ns: int) -> list[tuple[Array, Origin]]:
        """Let go of what came at `until_ns` (monotonic) or before."""
        out = []
        for epoch in self.due(until_ns):
            for block, origin, came_ns in self.release_of(epoch):
                if came_ns <= until_ns:
                    out.append((block, origin))
                else:
                    self.hold(block, origin, came_ns)
        return out
