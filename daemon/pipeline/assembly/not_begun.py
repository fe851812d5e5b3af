"""Readings of epochs that may not begin yet, until more instruments send the same, or the assembly timeout is over."""

import numpy as np

from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.strays import HELD_OF_AN_INSTRUMENT
from schemas.readings import Array

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
