"""Assembly: putting the readings of a trigger together. Pure: no asyncio, no clock of its own, no I/O."""

from daemon.pipeline.assembly.assembly import Assembly, AssemblyCounts
from daemon.pipeline.assembly.in_hand import InHand
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.receipts import Receipts

__all__ = ["Assembly", "AssemblyCounts", "InHand", "Origin", "Receipts"]
