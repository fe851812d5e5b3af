"""The log: readings from when they came until the database has them for good.

`log` has them on the disk, in the `format` of its records; its `keeper` has them in memory, and writes them beside the
event loop where that is needed; `stretches` tells which of them the database has, and `kept` is what a pipeline sees.
"""

from daemon.pipeline.intake_log.format import RUN, Received, RunKind
from daemon.pipeline.intake_log.keeper import IntakeKeeper, IntakeState
from daemon.pipeline.intake_log.kept import Kept
from daemon.pipeline.intake_log.log import IntakeFound, IntakeLog, folder_of, readings_in
from daemon.pipeline.intake_log.stretches import Stretches

__all__ = [
    "RUN",
    "IntakeFound",
    "IntakeKeeper",
    "IntakeLog",
    "IntakeState",
    "Kept",
    "Received",
    "RunKind",
    "Stretches",
    "folder_of",
    "readings_in",
]
