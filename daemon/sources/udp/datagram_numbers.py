"""Datagram numbers: what their gaps tell of datagrams that were lost on the way.

Addresses and numbers can be forged: memory and counts are bounded whatever comes, and addresses heard once do not
displace those of senders at work.
"""

from collections import OrderedDict
from dataclasses import dataclass

from daemon.sources.udp.receiver import Address

SENDERS_MOST = 4096
"""Senders at work that are remembered, and as many that were heard less than `AT_WORK` times."""

AT_WORK = 8

GAP_MOST = 1_000_000
"""A longer jump is no loss but a new beginning: of 1500 bytes each, so many are over a second of 10 Gbit/s."""


@dataclass(slots=True)
class _Sender:
    expected: int
    gaps: int = 0  # datagrams that have not come, and still may
    readings: int = 0  # how many these are taken to have carried
    heard: int = 0


class DatagramNumbers:
    """Counts the gaps in each sender's datagram numbers."""

    def __init__(self) -> None:
        self.lost = 0
        self._new: OrderedDict[Address, _Sender] = OrderedDict()
        self._at_work: OrderedDict[Address, _Sender] = OrderedDict()

    def __len__(self) -> int:
        return len(self._new) + len(self._at_work)

    def heard(self, address: Address, sequence: int, readings: int) -> int:
        """Take note of a datagram: a jump ahead is a gap, one that comes after all fills it, 0 is a new beginning.

        Returns about how many readings are lost with those that are missing now, less than 0 where one was found
        again: each is taken to have carried as many as the datagram that came after it.
        """
        sender = self._sender(address, sequence)
        missing = sequence - sender.expected
        if missing > GAP_MOST or (sequence == 0 and missing < 0):
            sender.expected, sender.gaps, sender.readings = sequence + 1, 0, 0
            return 0
        if missing >= 0:
            sender.expected = sequence + 1
            return self._missed(sender, missing, missing * readings)
        if sender.gaps:
            return self._missed(sender, -1, -(sender.readings // sender.gaps))
        return 0

    def _missed(self, sender: _Sender, datagrams: int, readings: int) -> int:
        sender.gaps += datagrams
        sender.readings += readings
        self.lost += datagrams
        return readings

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
