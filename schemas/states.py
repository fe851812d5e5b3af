"""The states and phases that cross a boundary, as enums: nothing is decided by a sentence.

The values are what the API sends, what records on disk hold, and what the metrics carry as labels.
"""

from enum import IntEnum, StrEnum


class DaemonState(StrEnum):
    """What the daemon as a whole is doing."""

    STARTING = "starting"
    RUNNING = "running"
    STORE_AWAY = "store_away"  # the database does not answer; readings wait, and are committed when it is back
    STOPPING = "stopping"


class InstrumentState(StrEnum):
    """How an instrument did lately; the page shows each by a glyph as well as by colour."""

    OK = "ok"
    IDLE = "idle"  # no trigger lately: nothing says how it is
    LATE = "late"  # its last readings came after their trigger had closed
    MISSING = "missing"  # absent from some of the last triggers
    DESYNCHRONISED = "desynchronised"  # its trigger numbers or its clock are out of step with those of the others
    SILENT = "silent"  # nothing received for longer than the staleness limit, while triggers go on
    NEVER = "never"  # nothing received since the daemon started


class SlipKind(StrEnum):
    """How an instrument is out of step."""

    SLIPPED = "slipped"  # its timestamps are those of other triggers: its numbers slipped, or its clock
    CLOCK = "clock"  # its timestamps are those of no trigger
    STUCK = "stuck"  # its trigger number stands still
    IRREGULAR = "irregular"  # its trigger numbers and timestamps differ by changing amounts


class Severity(StrEnum):
    """How much an event matters, the least first."""

    INFO = "info"
    WARNING = "warning"  # somebody should look into it
    ERROR = "error"  # somebody has to act on it

    @property
    def or_more(self) -> "frozenset[Severity]":
        """It, and those that matter more."""
        every = list(Severity)
        return frozenset(every[every.index(self) :])


class AlarmSeverity(StrEnum):
    """How severe an alarm is."""

    CRITICAL = "critical"  # readings are being lost, or soon will be
    WARNING = "warning"
    NOTE = "note"


class AlarmCause(StrEnum):
    """Causes of alarms, the most harmful first: data, then instruments, then times."""

    STORE = "store"  # the database does not answer
    LOST = "lost"  # readings got lost on their way to the daemon
    DEAD = "dead"  # the database rejected readings for good
    JOURNAL = "journal"  # the disk of the state folder takes nothing
    BACKPRESSURE = "backpressure"  # senders have to wait
    FILLING = "filling"  # the room to wait in runs out
    DISK = "disk"  # the disk of the embedded database runs out
    DURABILITY = "durability"  # the server keeps less than is asked of it
    ASIDE = "aside"  # readings are for no trigger that is known
    EPOCHS = "epochs"  # a group's epoch changes with each trigger
    STALE = "stale"  # no readings come
    INSTRUMENTS = "instruments"  # instruments are missing
    DESYNCHRONISED = "desynchronised"  # instruments are out of step
    SKIPPED = "skipped"  # trigger numbers never came
    CLOCK = "clock"  # a group's times and the node's clock differ
    BACKLOG = "backlog"  # too many triggers wait
    LATENCY = "latency"  # commits take too long
    RETENTION = "retention"  # its limits cannot be met
    DECIMATION = "decimation"  # readings that have to be reduced cannot be
    TIERS = "tiers"  # one takes more than it may, or nothing can be moved
    VISITS = "visits"  # a run of visits failed or stands still
    SLOW_VISITS = "slow visits"
    CONDITIONS = "conditions"  # their server does not run, or its database is away
    UNAVAILABLE = "unavailable"  # figures or tasks fail


class Attention(StrEnum):
    """What people did about an alarm."""

    NEW = "new"  # nothing: it is shown in full
    ACKNOWLEDGED = "acknowledged"
    SHELVED = "shelved"


STATE_LETTERS: dict[str, InstrumentState] = {
    "o": InstrumentState.OK,
    "i": InstrumentState.IDLE,
    "l": InstrumentState.LATE,
    "m": InstrumentState.MISSING,
    "d": InstrumentState.DESYNCHRONISED,
    "s": InstrumentState.SILENT,
    "n": InstrumentState.NEVER,
}
"""By which the status sends the state of each instrument of a group."""


class ConditionsState(StrEnum):
    """How the server of conditions is."""

    STARTING = "starting"
    RUNNING = "running"
    DATABASE_AWAY = "database_away"  # only what is known to be true without the database is answered
    FAILED = "failed"  # a process does not run; it is started again


class RunState(StrEnum):
    """How far the run of a workload is: an interference experiment, a run of visits, a run of snapshot readers."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"  # it was asked to stop, and has not ended yet
    FINISHED = "finished"
    STOPPED = "stopped"  # on request, or because the daemon ended; what was measured is kept
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the daemon died while it ran; what was written down until then is kept

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whichever way."""
        return self not in (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)


class VisitsPhase(StrEnum):
    """What a run of visits does while it is running."""

    VISITING = "visiting"
    WAITING = "waiting"  # for the time of the next visit
    COMPACTING = "compacting"


class SnapshotsPhase(StrEnum):
    """What a run of snapshot readers does while it is running."""

    LOADING = "loading"  # the folders that it reads
    MEASURING = "measuring"  # which blocks snapshots need again, before the clients start
    READING = "reading"


class ExperimentPhase(StrEnum):
    """What an interference experiment does while it is running."""

    WARM_UP = "warming up"
    WRITE_ONLY = "A"
    WRITE_AND_READ = "B"
    REPORTING = "reporting"


class ReaderState(StrEnum):
    """How the process of a reader workload is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"


class GovernorState(StrEnum):
    """What the governor does with the readers."""

    OFF = "off"  # no ceiling is set
    IDLE = "idle"  # no reader workload runs
    OPEN = "open"  # every client may ask
    RAISING = "raising"
    HOLDING = "holding"
    LOWERING = "lowering"


class AsideReason(IntEnum):
    """Why assembly could put a reading into no trigger; the numbers are those on the disk."""

    OLDER = 1  # its trigger is older than those that are remembered
    AHEAD = 2  # its trigger number is far beyond those of the others
    AMBIGUOUS = 3  # a reading of that number is there, and nothing proves that this is the same
    CONFLICT = 4  # a reading of that number is there, and this one is another
    EPOCH = 5  # its epoch is older than those that are remembered, or there are too many new ones
    DOUBTFUL = 6  # a reading of that number is there, and only a comparison tells whether this one is the same
    PARTIAL = 7  # a report on change of which some values are no finite numbers, and not all of them NaN
    FUTURE = 8  # a report on change whose time is far ahead of the clock of the daemon's node
    DROPPED = 9  # its trigger is of a period whose readings were dropped by retention, or about to be


FOR_THE_DATABASE = (AsideReason.OLDER, AsideReason.DOUBTFUL)
"""The database tells where such readings go, if their run is known."""
