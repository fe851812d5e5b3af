"""Packets of a result set, found in the bytes as they come, without an object a packet where they are alike."""

from typing import NamedTuple

import numpy as np

from schemas.readings import Array

HEADER = 4
"""Bytes before each packet: its length (3, little-endian) and a number."""
LONGEST = 0xFF_FF_FF
"""A longer row comes in several packets, and is not read here: no table of this store has such rows."""
END, ERROR = 0xFE, 0xFF
END_BELOW = 9
"""A packet that begins with END and is shorter than this ends the rows."""


class PacketRun(NamedTuple):
    """Packets of one length that follow each other."""

    start: int
    packets: int
    stride: int


class TooLong(ValueError):
    """A row does not fit a packet."""


class Packets:
    """Collects packets until one ends them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.stretches: list[PacketRun] = []
        self.ended = False
        self.error: bytes | None = None
        self._at = 0

    def __len__(self) -> int:
        return sum(stretch.packets for stretch in self.stretches)

    @property
    def nbytes(self) -> int:
        """How many bytes of whole packets there are, headers included."""
        return self._at

    def feed(self, chunk: bytes) -> None:
        """Take more bytes."""
        self.data += chunk
        while not self.ended and self._step():
            pass

    def rest(self) -> bytes:
        """What came after the end."""
        return bytes(self.data[self._at :])

    def of(self, stretch: PacketRun) -> Array:
        """View the packets of a stretch with their headers; uint8, shape (count, stride)."""
        size = stretch.packets * stretch.stride
        return np.frombuffer(self.data, np.uint8, size, stretch.start).reshape(stretch.packets, stretch.stride)

    def _step(self) -> bool:
        at, data = self._at, self.data
        if len(data) - at <= HEADER:
            return False
        length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        if length == LONGEST:
            raise TooLong(f"a row takes {LONGEST} bytes or more")
        stride = HEADER + length
        if len(data) - at < stride:
            return False
        first = data[at + HEADER]
        if first == ERROR or (first == END and length < END_BELOW):
            self.ended = True
            self.error = bytes(data[at + HEADER : at + stride]) if first == ERROR else None
            self._at += stride
            return False
        self._take(stride)
        return True

    def _take(self, stride: int) -> None:
        """Take a packet, and those like it behind it where the one before was like it too."""
        last = self.stretches[-1] if self.stretches else None
        if last is None or last.stride != stride:
            self.stretches.append(PacketRun(self._at, 1, stride))
            self._at += stride
            return
        count = self._alike(stride)
        self.stretches[-1] = last._replace(packets=last.packets + count)
        self._at += count * stride

    def _alike(self, stride: int) -> int:
        """How many packets from here on have the length and the first byte of the one here."""
        count = (len(self.data) - self._at) // stride
        packets = np.frombuffer(self.data, np.uint8, count * stride, self._at).reshape(count, stride)
        alike = (packets[:, [0, 1, 2, HEADER]] == packets[0, [0, 1, 2, HEADER]]).all(axis=1)
        return count if alike.all() else int(alike.argmin())
