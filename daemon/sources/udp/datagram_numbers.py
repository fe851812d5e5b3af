"""Datagram numbers: what their gaps tell of datagrams that were lost on the way.

Addresses and numbers can be forged: memory and counts are bounded whatever comes, and addresses heard once do not
displace those of senders at work.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from daemon.sources.udp.receiver import Address

SENDERS_MOST = 4096
"""Senders at work that are remembered, and as many that were heard less than `AT_WORK` times."""

AT_WORK = 8

GAP_MOST = 1_000_000
"""A longer jump is no loss but a new beginning: of 1500 bytes each, so many are over a second of 10 Gbit/s."""


GAPS_MOST = 32
"""Gaps of a sender that are remembered; what comes of an older one is not taken off what is lost."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Datagrams that have not come, and still may; each is taken to have carried so many readings."""

    missing: range
    readings: int


@dataclass(slots=True)
class _Sender:
    expected: int
    gaps: list[_Gap] = field(default_factory=list)  # the oldest first
    heard: int = 0

    def found(self, sequence: int) -> _Gap | None:
        """Take a datagram out of those that are missing; return the gap it was in, None for one that is not missing."""
        for at, gap in enumerate(self.gaps):
            if sequence in gap.missing:
                parts = range(gap.missing.start, sequence), range(sequence + 1, gap.missing.stop)
                self._put(at, [_Gap(part, gap.readings) for part in parts if part])
                return gap
        return None

    def missed(self, gap: _Gap) -> None:
        """Remember a gap."""
        self._put(len(self.gaps), [gap])

    def _put(self, at: int, gaps: list[_Gap]) -> None:
        self.gaps[at : at + 1] = gaps
        del self.gaps[:-GAPS_MOST]


class DatagramNumbers:
    """Counts the gaps in each sender's datagram numbers."""

    def __init__(self) -> None:
        self.lost = 0
        self._new: OrderedDict[Address, _Sender] = OrderedDict()
        self._at_work: OrderedDict[Address, _Sender] = OrderedDict()

    def __len__(self) -> int:
        return len(self._new) + len(self._at_work)

    def heard(self, address: Address, sequence: int, readings: int) -> int:
        """Take note of a datagram: a jump ahead is a gap, one that is missing fills its place, 0 is a new beginning.

        Returns about how many readings are lost with those that are missing now, less than 0 where one was found
        again: each is taken to have carried as many as the datagram that came after it.
        """
        sender = self._sender(address, sequence)
        missing = sequence - sender.expected
        if missing < 0:
            found = sender.found(sequence)
            if found is not None:
                self.lost -= 1
                return -found.readings
            if sequence:
                return 0
        if missing < 0 or missing > GAP_MOST:
            sender.expected, sender.gaps = sequence + 1, []
            return 0
        if missing:
            sender.missed(_Gap(range(sender.expected, sequence), readings))
            self.lost += missing
        sender.expected = sequence + 1
        return missing * readings

    def _sender(self, address: Address, sequence: int) -> _Sender:
        sender = self._at_work.get(address)
        if sender is not None:
            self._at_work.move_to_end(address)
            return sender
        sender = self._new.pop(address, None) or _Sender(sequence)
        sender.heard += 1
        known = self._at_work if sender.heard >= AT_WORK else self._new
        known[address] = sender
        if len(known) > SENDERS_MOST:
            known.popitem(last=False)
        return sender
