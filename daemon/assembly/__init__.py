"""Assembly: putting the readings of a trigger together. Pure: no asyncio, no clock of its own, no I/O."""

from daemon.assembly.assembly import Assembly, Counts
from daemon.assembly.in_hand import InHand
from daemon.assembly.origin import Instant, Origin
from daemon.assembly.receipts import Receipts

__all__ = ["Assembly", "Counts", "InHand", "Instant", "Origin", "Receipts"]
