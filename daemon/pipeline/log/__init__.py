"""The log: readings from when they came until the database has them for good.

`log` has them on the disk, in the `format` of its records; its `keeper` has them in memory, and writes them beside the
event loop where that is needed; `stretches` tells which of them the database has. A pipeline sees it as `Kept`.
"""

from daemon.pipeline.log.format import RUN, Received, RunKind
from daemon.pipeline.log.keeper import Kept, LogKeeper, LogState
from daemon.pipeline.log.log import Log, LogFound, folder_of, readings_in
from daemon.pipeline.log.stretches import Stretches

__all__ = [
    "RUN",
    "Kept",
    "Log",
    "LogFound",
    "LogKeeper",
    "LogState",
    "Received",
    "RunKind",
    "Stretches",
    "folder_of",
    "readings_in",
]
