"""Receipts: up to which reading of each connection all is committed, or on the disk.

A reading is unsettled while its trigger is open or waits for its commit. A connection's acknowledgement is the sequence
of its first unsettled reading. So for each place where readings wait (a slot of an open trigger, a closed block on its
way to the store, the stray readings) only the smallest sequence of each connection has to be kept.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from daemon.pipeline.assembly.origin import Origin
from schemas.readings import Array

FINE = 512
"""So many of the oldest closed blocks are remembered each by itself; the database acknowledges these next."""

PART = 128
"""What is remembered together is at most this part of all closed blocks: their number grows with the logarithm."""


@dataclass(slots=True)
class _Group:
    """Successive closed blocks. first: int64, shape (columns,): the smallest sequence of each connection."""

    blocks: int
    first: Array


class Unsettled:
    """Closed blocks in the order in which they closed, each with the smallest unsettled sequence of each connection.

    After a day without a database there are millions of them. Those behind the oldest are remembered together: a
    connection is then acknowledged in larger steps, and none too early.

    Args:
        settled: the sequence that stands where a connection has nothing in a closed block.
        fine: see FINE.
    """

    def __init__(self, settled: int, fine: int = FINE) -> None:
        self.blocks = 0
        self._settled = settled
        self._fine = fine
        self._groups: deque[_Group] = deque()
        self._crowded = 4 * fine

    def __len__(self) -> int:
        return len(self._groups)

    def append(self, first: Array, blocks: int = 1) -> None:
        """So many closed blocks more are on their way, and are settled together."""
        self._groups.append(_Group(blocks, first))
        self.blocks += blocks

    def committed(self, blocks: int) -> None:
        """The oldest so many closed blocks are committed."""
        self.blocks -= blocks
        while blocks:
            oldest = self._groups[0]
            done = min(blocks, oldest.blocks)
            oldest.blocks -= done
            blocks -= done
            if not oldest.blocks:
                self._groups.popleft()

    def firsts(self) -> Iterator[Array]:
        """The smallest sequences of each group: int64, shape (columns,)."""
        return (group.first for group in self._groups)

    def forget(self, column: int) -> None:
        """Nobody waits for this connection any more."""
        for group in self._groups:
            if column < len(group.first):
                group.first[column] = self._settled

    def compact(self) -> None:
        """Remember together what may be; nothing is done until it is worth it."""
        if len(self._groups) < self._crowded:
            return
        kept: deque[_Group] = deque()
        most, end = self.blocks // PART, 0
        for group in self._groups:
            start, end = end, end + group.blocks
            last = kept[-1] if kept else None
            if last is not None and start > self._fine and last.blocks + group.blocks <= most:
                kept[-1] = _Group(last.blocks + group.blocks, self._smallest(last.first, group.first))
            else:
                kept.append(group)
        self._groups = kept
        self._crowded = max(4 * self._fine, len(kept) + 2 * self._fine)

    def _smallest(self, a: Array, b: Array) -> Array:
        shorter, longer = sorted((a, b), key=len)
        smallest = longer.copy()
        np.minimum(smallest[: len(shorter)], shorter, out=smallest[: len(shorter)])
        return smallest


SETTLED = np.iinfo(np.int64).max

OWED_MOST = 1024
"""Refused stretches a connection is remembered for while earlier readings of it wait; then the newest grow together.

A sender of nothing but refused readings must not fill the memory. What grew together is acknowledged when all of it is
dealt with."""


class Receipts:
    """Unsettled readings by connection. Columns and slots grow as needed; a column of -1 means no receipt is wanted.

    refuses_strays: stray readings may be refused when they are let go, and are not acknowledged before that.
    """

    def __init__(self, *, fine: int = FINE) -> None:
        self.refuses_strays = False
        self._slots = np.full((1, 0), SETTLED, np.int64)
        self._blocks = Unsettled(SETTLED, fine)
        self._kept_after = np.full(0, SETTLED, np.int64)
        self._kept = np.zeros(0, np.int64)
        self._promised = np.zeros(0, np.int64)  # those below may be acknowledged by that
        self._next = np.full(0, SETTLED, np.int64)
        self._closing = np.full(0, SETTLED, np.int64)  # in blocks that closed in this step
        self._closed = 0
        self._strays = np.full(0, SETTLED, np.int64)
        self._in_hand: Origin | None = None  # what was received, and is not placed
        self._received = np.zeros(0, np.int64)
        self._refused = np.zeros(0, np.int64)
        self._owed: dict[int, deque[tuple[int, int]]] = {}  # by column: (highest sequence, readings) not in _refused
        self._free: list[int] = []
        self._leaving: list[int] = []

    def connect(self, *, first: int = 0) -> int:
        """Give a stream of readings its column; first: the number of its first one, those before are settled."""
        if not self._free:
            self._widen(max(16, 2 * len(self._received)))
        column = self._free.pop()
        self._received[column] = first
        return column

    def skip(self, column: int, first: int) -> None:
        """Go on with this number: those between the last one received and it never come."""
        self._received[column] = first

    def keeps(self, column: int, after: int | None) -> None:
        """Let it be enough for a column that the log has its readings on the disk; None: it is not.

        after: of readings below this number the log says nothing; it counts once these are acknowledged.
        """
        self._kept_after[column] = SETTLED if after is None else after
        self._kept[column] = 0

    def kept(self, column: int, upto: int) -> None:
        """The log has the readings of a column on the disk up to this number."""
        self._kept[column] = upto

    def promise(self, origin: Origin) -> None:
        """The log may have acknowledged these readings before they came here."""
        origin = origin.wanted
        # Sequences ascend for each column, so the last one assigned is the highest.
        self._promised[origin.column] = np.maximum(self._promised[origin.column], origin.sequence + 1)

    def are_promised(self, origin: Origin) -> Array:
        """Which readings the log may have acknowledged before they are settled: bool, shape (n,)."""
        promised = origin.column >= 0
        promised[promised] = origin.sequence[promised] < self._promised[origin.column[promised]]
        return promised

    def disconnect(self, column: int) -> None:
        """Take the column back; what that connection sent goes on, but nobody waits for its receipt."""
        self._leaving.append(column)
        self._free_leaving()

    @property
    def owes_refusals(self) -> bool:
        """Whether readings were refused since acknowledgements were last asked for."""
        return bool(self._owed)

    @property
    def size(self) -> int:
        """How many columns there are, free ones included."""
        return len(self._received)

    def received(self, origin: Origin) -> None:
        """Count readings as received; every reading counts, whatever becomes of it.

        Until `placed` says that each of them waits somewhere, or is refused, none of them counts as settled.
        """
        self._in_hand = origin = origin.wanted
        # Sequences ascend for each column, so the last one assigned is the highest.
        self._received[origin.column] = origin.sequence + 1

    def placed(self) -> None:
        """Every reading received has its place."""
        self._in_hand = None

    def come(self) -> Array:
        """The number after the last reading received: int64, shape (columns,)."""
        return self._received

    def not_closed(self, slots: Array) -> Array:
        """The first number that is neither in a closed block nor refused: int64, shape (columns,).

        slots: those of the open triggers, intp.
        """
        first = np.minimum(np.minimum(self._next, self._strays), self._received)
        if self._in_hand is not None:
            _keep_smallest(first, self._in_hand.column, self._in_hand.sequence)
        if len(slots):
            self._make_room(int(slots.max()))
            np.minimum(first, self._slots[slots].min(axis=0), out=first)
        return first

    def refuse(self, origin: Origin) -> None:
        """These readings are settled by being refused."""
        origin = origin.wanted
        columns, counts = np.unique(origin.column, return_counts=True)
        if not len(columns):
            return
        last = np.zeros(int(columns[-1]) + 1, np.int64)
        last[origin.column] = origin.sequence  # sequences ascend: the highest lands last
        for column, count in zip(columns.tolist(), counts.tolist(), strict=True):
            owed = self._owed.setdefault(column, deque())
            until, before = owed.pop() if len(owed) >= OWED_MOST else (-1, 0)
            owed.append((max(until, int(last[column])), before + count))

    def refused_below(self, column: int, number: int) -> int:
        """Return how many readings of a column below a number were refused, whether this was told or not."""
        return int(self._refused[column]) + sum(count for last, count in self._owed.get(column, ()) if last < number)

    def forget_refusals(self, column: int) -> None:
        """Count the refusals of a column from 0: nobody is told of those before."""
        self._owed.pop(column, None)
        self._refused[column] = 0

    def wait_in_slots(self, slots: Array, origin: Origin) -> None:
        """These readings wait in open triggers; slots: intp, shape (n,)."""
        self._make_room(int(slots.max(initial=0)))
        flat = self._slots.reshape(-1)
        columns = self._slots.shape[1]
        wanted = origin.column >= 0
        if not wanted.all():
            slots, origin = slots[wanted], origin[wanted]
        _keep_smallest(flat, slots * np.int64(columns) + origin.column, origin.sequence)

    def wait_in_next_block(self, origin: Origin) -> None:
        """These readings belong to closed triggers: they are settled with the next closed block."""
        origin = origin.wanted
        _keep_smallest(self._next, origin.column, origin.sequence)

    def wait_as_strays(self, origins: Iterable[Origin]) -> None:
        """These, and no others, are the stray readings now."""
        self._strays[:] = SETTLED
        for origin in origins:
            _keep_smallest(self._strays, origin.wanted.column, origin.wanted.sequence)
        self._free_leaving()

    def close(self, slots: Array) -> None:
        """Turn these slots, and what waits for the next closed block, into one; they are committed in order."""
        self._make_room(int(slots.max(initial=0)))
        np.minimum(self._closing, self._next, out=self._closing)
        if len(slots):
            np.minimum(self._closing, self._slots[slots].min(axis=0), out=self._closing)
            self._slots[slots] = SETTLED
        self._next[:] = SETTLED
        self._closed += 1

    def end_step(self) -> None:
        """Let what closed since this was called last be settled together, with the last of these blocks.

        That one alone says of sessions how far they are settled with all of them.
        """
        if not self._closed:
            return
        self._blocks.append(self._closing, self._closed)
        self._closing, self._closed = np.full_like(self._closing, SETTLED), 0
        self._blocks.compact()

    def committed(self, blocks: int) -> None:
        """The oldest so many closed blocks are committed."""
        self._blocks.committed(blocks)

    def acknowledged(self) -> tuple[Array, Array]:
        """The highest contiguous count that is settled, and how many of these were refused.

        Both int64, shape (columns,).
        """
        done = self.committed_upto()
        done = np.where(done >= self._kept_after, np.maximum(done, self._kept_upto()), done)
        self._promised = np.where(done >= self._kept_after, np.maximum(self._promised, done), self._promised)
        self._count_refusals(done)
        return done, self._refused

    def _kept_upto(self) -> Array:
        """Up to which number the log is enough: int64, shape (columns,)."""
        kept: Array = np.minimum(self._kept, self._received)
        if not self.refuses_strays:
            return kept
        return np.asarray(np.maximum(np.minimum(kept, self._strays), np.minimum(kept, self._promised)))

    def committed_upto(self) -> Array:
        """Up to which number all is committed, or refused, whatever was asked for: int64, shape (columns,)."""
        first = self._waiting()
        for block in self._blocks.firsts():
            np.minimum(first[: len(block)], block, out=first[: len(block)])
        return np.asarray(np.minimum(first, self._received))

    def _waiting(self) -> Array:
        """The first number that waits, and is in no closed block of a step that is over: int64, shape (columns,)."""
        beside = np.minimum(np.minimum(self._next, self._closing), self._strays)
        return np.asarray(np.minimum(self._slots.min(axis=0), beside))

    def _count_refusals(self, done: Array) -> None:
        for column, owed in list(self._owed.items()):
            while owed and owed[0][0] < done[column]:
                self._refused[column] += owed.popleft()[1]
            if not owed:
                del self._owed[column]

    def _free_leaving(self) -> None:
        # Strays carry the columns they came by; a column must not be given away while its own may still settle.
        staying = [column for column in self._leaving if self._strays[column] != SETTLED]
        for column in set(self._leaving).difference(staying):
            self._slots[:, column] = SETTLED
            self._next[column] = self._closing[column] = SETTLED
            self._blocks.forget(column)
            self._owed.pop(column, None)
            self._received[column] = self._refused[column] = 0
            self._kept_after[column] = SETTLED
            self._kept[column] = self._promised[column] = 0
            self._free.append(column)
        self._leaving = staying

    def _widen(self, columns: int) -> None:
        more = columns - len(self._received)
        self._free.extend(range(columns - 1, len(self._received) - 1, -1))
        self._slots = np.pad(self._slots, ((0, 0), (0, more)), constant_values=SETTLED)
        self._next = np.pad(self._next, (0, more), constant_values=SETTLED)
        self._closing = np.pad(self._closing, (0, more), constant_values=SETTLED)
        self._strays = np.pad(self._strays, (0, more), constant_values=SETTLED)
        self._received = np.pad(self._received, (0, more))
        self._refused = np.pad(self._refused, (0, more))
        self._kept_after = np.pad(self._kept_after, (0, more), constant_values=SETTLED)
        self._kept = np.pad(self._kept, (0, more))
        self._promised = np.pad(self._promised, (0, more))

    def _make_room(self, slot: int) -> None:
        have = len(self._slots)
        if slot >= have:
            more = max(slot + 1, 2 * have) - have
            self._slots = np.pad(self._slots, ((0, more), (0, 0)), constant_values=SETTLED)


def _keep_smallest(target: Array, key: Array, sequence: Array) -> None:
    # Within a block the sequences of a connection ascend; assigned in reverse, the smallest of each key lands last.
    target[key[::-1]] = np.minimum(target[key], sequence)[::-1]
