"""Datagram numbers: what their gaps tell of datagrams that were lost on the way.

Addresses and numbers can be forged: memory and counts are bounded whatever comes, and addresses heard once do not
displace those of senders at work.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from daemon.sources.udp.receiver import Address

SENDERS_MOST = 4096
"""Senders at work that are remembered, and as many that were heard less than `AT_WORK` times."""

AT_WORK = 8

GAP_MOST = 1_000_000
"""A longer jump is no loss but a new beginning: of 1500 bytes each, so many are over a second of 10 Gbit/s."""

GAPS_MOST = 32
"""Gaps of a sender that are remembered; what comes of an older one is not taken off what is lost."""

LATE_MOST = 64
"""So far below the first number of a sender others may come late: whether they were sent before it, nobody knows."""

AGAIN = 8
"""So many numbers, ascending and none beyond the others between them, that have all come already are no late copies:
their sender has begun anew."""

SILENT_S = 60.0
"""After it nothing comes late: a lower number is a new beginning at once."""

Lost = Mapping[str | None, int]
"""What is lost: datagrams, under None, and about how many readings of each group; below 0 what came after all."""

NOTHING: Lost = {}


@dataclass(frozen=True, slots=True)
class _Gap:
    """Datagrams that have not come, and still may.

    Each is taken to have carried as many readings, of the same group, as the datagram behind the gap; 0 readings: it
    is not known to have been sent, and not counted.
    """

    missing: range
    group: str
    readings: int

    def lost(self, datagrams: int) -> Lost:
        """What is lost with so many of them."""
        return {None: datagrams, self.group: datagrams * self.readings} if self.readings else NOTHING


@dataclass(slots=True)
class _Numbers:
    """Numbers of a sender, from a beginning on.

    While the beginning is not proven: `repeated` is how many of them, ascending, had come already, and `lost` what is
    lost if it is one.
    """

    expected: int
    gaps: list[_Gap]
    repeated: int = 0
    lost: Counter[str | None] = field(default_factory=Counter)

    @classmethod
    def since(cls, first: int) -> "_Numbers":
        """Begin with a number."""
        return cls(first, [_Gap(range(max(0, first - LATE_MOST), first), "", 0)])

    def take(self, sequence: int, group: str, readings: int) -> Lost | None:
        """Take a number: a jump ahead is a gap, one that is missing fills its place; None: it has come already."""
        if sequence >= self.expected:
            gap = _Gap(range(self.expected, sequence), group, readings)
            self.expected = sequence + 1
            if not gap.missing:
                return NOTHING
            self._put(len(self.gaps), [gap])
            return gap.lost(len(gap.missing))
        for at, gap in enumerate(self.gaps):
            if sequence in gap.missing:
                parts = range(gap.missing.start, sequence), range(sequence + 1, gap.missing.stop)
                self._put(at, [_Gap(part, gap.group, gap.readings) for part in parts if part])
                return gap.lost(-1)
        return None

    def _put(self, at: int, gaps: list[_Gap]) -> None:
        self.gaps[at : at + 1] = gaps
        del self.gaps[:-GAPS_MOST]


@dataclass(slots=True)
class _Sender:
    heard_s: float
    numbers: _Numbers
    again: _Numbers | None = None  # what came below the others since the last that was beyond them
    heard: int = 0

    def take(self, sequence: int, group: str, readings: int, *, is_silent: bool) -> Lost:
        """Take a number; return what is lost with it."""
        ahead = sequence - self.numbers.expected
        if ahead > GAP_MOST or (ahead < 0 and is_silent):
            self.numbers, ahead = _Numbers.since(sequence), 0
        lost = self.numbers.take(sequence, group, readings)
        if ahead >= 0:
            self.again = None
            return lost or NOTHING
        return self._take_below(sequence, group, readings, lost)

    def _take_below(self, sequence: int, group: str, readings: int, lost: Lost | None) -> Lost:
        """Take a number below the others: late, a copy, or of a new beginning, which gives back what it filled."""
        again = self.again
        if again is None or not -LATE_MOST <= sequence - again.expected <= GAP_MOST:
            again = self.again = _Numbers.since(sequence)
        is_ascending = sequence >= again.expected
        again.lost.update(again.take(sequence, group, readings) or NOTHING)
        if lost is not None:
            again.lost.subtract(lost)
            return lost
        again.repeated += is_ascending
        if again.repeated < AGAIN:
            return NOTHING
        self.numbers, self.again = again, None
        return again.lost


class DatagramNumbers:
    """Counts the gaps in each sender's datagram numbers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.lost = 0
        self._clock = clock
        self._new: OrderedDict[Address, _Sender] = OrderedDict()
        self._at_work: OrderedDict[Address, _Sender] = OrderedDict()

    def __len__(self) -> int:
        return len(self._new) + len(self._at_work)

    def heard(self, address: Address, sequence: int, group: str, readings: int) -> Lost:
        """Take note of a datagram, of a group's name that is one of a few; return what is lost with it."""
        now_s = self._clock()
        sender = self._sender(address, sequence, now_s)
        lost = sender.take(sequence, group, readings, is_silent=now_s - sender.heard_s >= SILENT_S)
        sender.heard_s = now_s
        self.lost += lost.get(None, 0)
        return lost

    def heard_lately(self) -> int:
        """How many senders were heard within `SILENT_S`."""
        since_s = self._clock() - SILENT_S
        return sum(sender.heard_s > since_s for known in (self._new, self._at_work) for sender in known.values())

    def _sender(self, address: Address, sequence: int, now_s: float) -> _Sender:
        sender = self._at_work.get(address)
        if sender is not None:
            self._at_work.move_to_end(address)
            return sender
        sender = self._new.pop(address, None) or _Sender(now_s, _Numbers.since(sequence))
        sender.heard += 1
        known = self._at_work if sender.heard >= AT_WORK else self._new
        known[address] = sender
        if len(known) > SENDERS_MOST:
            known.popitem(last=False)
        return sender
