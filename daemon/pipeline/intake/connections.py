"""The connections of an intake, by the columns of their acknowledgements, and what sources are told."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from daemon.pipeline.assembly import Origin
from schemas.readings import Array
from schemas.wire import Ack

NOBODY = -1
"""Column of readings that nobody wants acknowledged."""


class Columns:
    """Which connections there are, and of which the readings are kept in the log.

    keys: of each column the session whose readings are kept, and 0 where none are; the last is that of those for which
    nobody waits. of: by session, of those who wait for the log. connected: the sessions of all. acks: what each waits
    for, by column. refused_before: by column how many of its readings were refused before it had that column.
    settled_upto: by column up to which number its connection sends, since the switch, what was settled before.
    """

    def __init__(self, nobody: int) -> None:
        self.acks: dict[int, Ack] = {}
        self.refused_before: dict[int, int] = {}
        self.of: dict[int, int] = {}
        self.connected: set[int] = set()
        self.keys = np.array([nobody], np.uint64)
        self.settled_upto: dict[int, int] = {}

    def free(self) -> int:
        """The lowest column that no connection has."""
        return next(k for k in range(len(self.acks) + 1) if k not in self.acks)

    def note(self, column: int, key: int, ack: Ack) -> None:
        """A connection has a column. key: the session whose readings are kept; 0 where none are."""
        self.acks[column] = ack
        self.connected.add(key)
        if ack is not Ack.COMMITTED and key:
            self.of[key] = column
        self.set_key(column, key)

    def set_key(self, column: int, key: int) -> None:
        """Let the readings of a column be kept as those of a session."""
        if column >= len(self.keys) - 1:
            self.keys = np.insert(self.keys, len(self.keys) - 1, np.zeros(column + 16, np.uint64))
        self.keys[column] = key

    def forget(self, column: int) -> None:
        """A connection is gone."""
        self.of.pop(int(self.keys[column]), None)
        self.connected.discard(int(self.keys[column]))
        self.keys[column] = 0
        self.settled_upto.pop(column, None)
        self.refused_before.pop(column, None)
        del self.acks[column]

    def without_settled(self, block: Array, origin: Origin) -> tuple[Array, Origin]:
        """Readings without those that were settled before."""
        wanted = np.ones(len(block), bool)
        for column, upto in list(self.settled_upto.items()):
            mine = origin.column == column
            wanted &= ~mine | (origin.sequence >= upto)
            if mine.any() and origin.sequence[mine][-1] >= upto - 1:
                del self.settled_upto[column]
        return block[wanted], origin[wanted]


@dataclass(frozen=True, kw_only=True)
class Subscriber:
    """What a source is told.

    settled: acknowledgements may have moved on. full: backpressure begins (True) or ends. flush: hand on what gathered.
    refused: nothing more is taken, for a reason that the intake has. moved: connections have other columns from now on,
    by those they had.
    """

    settled: Callable[[], None] = lambda: None
    full: Callable[[bool], None] = lambda is_full: None
    flush: Callable[[], None] = lambda: None
    refused: Callable[[], None] = lambda: None
    moved: Callable[[dict[int, int]], None] = lambda columns: None
