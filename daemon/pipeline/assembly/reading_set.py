"""A set of readings, in which one is found that is the same, byte for byte."""

import numpy as np

from schemas.readings import Array, field_bits, words

_ODD = 0x9E37_79B9_7F4A_7C15
"""Any large odd number: its powers spread what differs in a few bits."""


class ReadingSet:
    """Readings that are recognised when they come again: record dtype, shape (n,)."""

    def __init__(self, readings: Array) -> None:
        self._bits = field_bits(readings.dtype)
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

    def have(self, block: Array) -> Array:
        """Which readings are among them: bool, shape (n,)."""
        if not len(self):
            return np.zeros(len(block), bool)
        found = self._words_of(block)
        at = np.minimum(np.searchsorted(self._keys, _keys_of(found)), len(self) - 1)
        return np.asarray((self._words[at] == found).all(axis=1))

    def _words_of(self, readings: Array) -> Array:
        """What the readings hold, without padding, of which nobody knows what is in it: int64, shape (n, words)."""
        return words(np.ascontiguousarray(readings)) & self._bits


def _keys_of(found: Array) -> Array:
    """A number for each row of words, equal where the rows are: uint64, shape (n,)."""
    factors = np.array([pow(_ODD, k + 1, 2**64) for k in range(found.shape[1])], np.uint64)
    return np.asarray((found.view(np.uint64) * factors).sum(axis=1))
