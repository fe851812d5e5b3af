"""Pauses between attempts at something that others have to make possible again: a database, a daemon, a disk."""

import asyncio
import random

SPREAD = 0.5
"""A pause is between this part of its length and all of it, so that several do not come back at the same moment."""


class Backoff:
    """Pauses that double, each spread at random.

    first_s, most_s: the length of the first pause, and of the longest.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._next_s = first_s

    def next_s(self) -> float:
        """The length of the next pause, in s; the one after it is twice as long."""
        length_s, self._next_s = self._next_s, min(2 * self._next_s, self._most_s)
        return length_s * random.uniform(SPREAD, 1.0)  # noqa: S311 - not a secret

    async def pause(self) -> None:
        """Wait for the length of the next pause."""
        await asyncio.sleep(self.next_s())

    def reset(self) -> None:
        """Begin with the first pause again: an attempt succeeded."""
        self._next_s = self._first_s
