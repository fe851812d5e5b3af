"""A set of readings, in which one is found that is the same, byte for byte, or but for its time."""

from typing import Any

import numpy as np

from schemas.readings import Array, field_bits, words

_ODD = 0x9E37_79B9_7F4A_7C15
"""Any large odd number: its powers spread what differs in a few bits."""


class ReadingSet:
    """Readings that are recognised when they come again: record dtype, shape (n,).

    with_times: whether their times are among what is compared.
    """

    def __init__(self, readings: Array, *, with_times: bool = True) -> None:
        self._record = readings.dtype
        self._bits = field_bits(self._record) if with_times else _bits_but_for_times(self._record)
        self._without_times: ReadingSet | None = None  # made when it is asked for
        self._words = self._words_of(readings[:0])
        self._keys = _keys_of(self._words)
        self.add(readings)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, readings: Array) -> None:
        """Take note of more of them: record dtype, shape (n,)."""
        both = np.concatenate([self._words, self._words_of(readings)])
        keys = _keys_of(both)
        order = np.argsort(keys, kind="stable")
        self._words, self._keys = both[order], keys[order]
        self._without_times = None

    def have(self, block: Array) -> Array:
        """Which readings are among them: bool, shape (n,)."""
        if not len(self):
            return np.zeros(len(block), bool)
        found = self._words_of(block)
        at = np.minimum(np.searchsorted(self._keys, _keys_of(found)), len(self) - 1)
        return np.asarray((self._words[at] == found).all(axis=1))

    def have_but_for_times(self, block: Array) -> Array:
        """Which readings are among them, whatever their times: bool, shape (n,)."""
        if self._without_times is None:
            self._without_times = ReadingSet(self._words.view(self._record)[..., 0], with_times=False)
        return self._without_times.have(block)

    def _words_of(self, readings: Array) -> Array:
        """What the readings hold, without padding, of which nobody knows what is in it: int64, shape (n, words)."""
        return words(np.ascontiguousarray(readings)) & self._bits


def _bits_but_for_times(record: np.dtype[Any]) -> Array:
    times = np.zeros(1, record)
    times["time_ns"] = -1
    bits: Array = field_bits(record) & ~words(times)[0]
    return bits


def _keys_of(found: Array) -> Array:
    """A number for each row of words, equal where the rows are: uint64, shape (n,)."""
    factors = np.array([pow(_ODD, k + 1, 2**64) for k in range(found.shape[1])], np.uint64)
    return np.asarray((found.view(np.uint64) * factors).sum(axis=1))
