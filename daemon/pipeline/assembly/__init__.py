"""Assembly: putting the readings of a trigger together. Pure: no asyncio, no clock of its own, no I/O.

In come blocks of readings with the `origin` of each, out go closed blocks. `assembly` takes them step by step: `screen`
takes out what can be none of the group's and what is a dead letter already, and `routing` finds out which run the rest
is of. `runs` numbers the runs of all groups and `open_runs` has those of this one; in each, `progress` tells which
readings fit; `strays` holds back those that do not. `triggers` puts them into their triggers and closes these: `pool`
has the open ones, and `window` the closed ones, which late readings still find. `outcomes` refuses readings and sets
them aside, to go with the next closed block. `receipts` knows up to where each connection is settled, and `sessions` up
to where each sender's stream is. For a group that reports on change, whose readings belong to no trigger, `reports` is
in the place of `assembly` and `triggers`.
"""

from daemon.pipeline.assembly.assembly import Assembly, InHand
from daemon.pipeline.assembly.open_runs import RUNS_MOST
from daemon.pipeline.assembly.origin import Origin
from daemon.pipeline.assembly.outcomes import AssemblyCounts
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.reports import ReportAssembly
from daemon.pipeline.assembly.runs import EPOCHS_MOST, Runs
from daemon.pipeline.assembly.sessions import MOST_SESSIONS, Joined

__all__ = [
    "EPOCHS_MOST",
    "MOST_SESSIONS",
    "RUNS_MOST",
    "Assembly",
    "AssemblyCounts",
    "InHand",
    "Joined",
    "Origin",
    "Receipts",
    "ReportAssembly",
    "Runs",
]
