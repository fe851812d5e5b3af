"""The intake's log: readings on the disk from when they came until the closed blocks that hold them are safe.

`log` has them, in the `format` of its records; its `keeper` writes them beside the event loop; `stretches` tells which
of them are safe elsewhere.
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
