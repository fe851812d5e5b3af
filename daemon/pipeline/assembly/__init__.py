"""Assembly: putting the readings of a trigger together. Pure: no asyncio, no clock of its own, no I/O.

In come blocks of readings with the `origin` of each, out go closed blocks. `assembly` leads through the rest:
`progress` tells which readings fit the run, and `strays` holds back those that do not; `pool` has the open triggers,
`closing` makes their ledger rows, and `window` has the closed ones, which late readings still find. `receipts`, with
`unsettled`, knows up to where each connection is settled; `in_hand` shows the watch over instruments what is open.
"""

from daemon.pipeline.assembly.assembly import Assembly, AssemblyCounts
from daemon.pipeline.assembly.in_hand import InHand
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.receipts import Receipts

__all__ = ["Assembly", "AssemblyCounts", "InHand", "Origin", "Receipts"]
