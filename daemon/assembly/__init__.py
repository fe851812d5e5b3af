"""Assembly: putting the readings of a trigger together. Pure: no asyncio, no clock of its own, no I/O."""

from daemon.assembly.assembly import Assembly, Counts
from daemon.assembly.origin import Instant, Origin
from daemon.assembly.receipts import Receipts

__all__ = ["Assembly", "Counts", "Instant", "Origin", "Receipts"]
