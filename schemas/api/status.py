"""What the daemon says of itself: the body of `GET /api/v1/status` and of each frame of the status stream.

Rates are means over the last second, at slow rates over up to five; percentiles are over the last ten seconds. Times
are nanoseconds since 1970-01-01 UTC.
"""

from typing import Literal

from pydantic import Field

from schemas.api.alarms import AlarmStatus
from schemas.api.conditions import ConditionsStatus
from schemas.api.decimation import DecimationStatus
from schemas.api.marks import MarksStatus
from schemas.api.model import Model
from schemas.api.retention import RetentionStatus
from schemas.api.snapshots import SnapshotsStatus
from schemas.api.tiers import TiersStatus
from schemas.api.visits import VisitsStatus
from schemas.batch import Durability, Layout
from schemas.states import (
    STATE_LETTERS,
    DaemonState,
    ExperimentPhase,
    GovernorState,
    InstrumentState,
    ReaderState,
    SlipKind,
)

LATELY_S = 600.0
"""How long what was skipped or lost counts as recent, in s."""

BRIEF_RUNS_MOST = 3
"""So many runs of one trigger, one after the other, are an epoch that changes with each trigger."""


class Health(Model):
    """Body of `GET /health`."""

    status: Literal["alive"] = "alive"


class Readiness(Model):
    """Body of `GET /ready`."""

    status: Literal["ready"] | DaemonState
    reason: str | None = Field(default=None, description="why readings are not being committed; left out when ready")


class Recent(Model):
    """How often something happened within the last ten minutes (`LATELY_S`)."""

    count: int = 0
    since_ns: int | None = Field(default=None, description="when the first of them was noticed; null where none was")


class TriggerCounts(Model):
    """Triggers since the daemon started."""

    received: int = Field(description="triggers of which at least one reading was accepted")
    open: int = Field(description="triggers being put together now")
    complete: int = Field(description="closed with every instrument there")
    incomplete: int = Field(description="closed by timeout with instruments missing")
    committed: int = Field(description="acknowledged by the store")
    account_at_start: int = Field(description="committed before the daemon started, by the store's account then")
    waiting: int = Field(description="closed, not yet committed (the backlog)")
    newest: int | None = Field(description="the highest trigger number closed in this run")
    skipped: int = Field(description="trigger numbers between those of a run that no trigger was closed for until now")
    skipped_lately: Recent = Field(default=Recent(), description="those of them that were noticed lately")
    rate: float = Field(description="triggers closed a second")
    commit_rate: float = Field(description="triggers committed a second")


class ReadingCounts(Model):
    """Readings since the daemon started.

    received = committed + duplicate + refused + aside + dead + waiting + assembling, always.
    """

    received: int = Field(description="with what the journal held at the start")
    committed: int
    account_at_start: int = Field(description="committed before the daemon started, by the store's account then")
    late: int = Field(description="accepted after their trigger had closed")
    duplicate: int = Field(description="of an instrument whose reading was already there; not stored")
    refused: dict[str, int] = Field(description="never stored, by reason")
    aside: dict[str, int] = Field(description="for no trigger that is known, by reason; kept in the dead letters")
    lost: dict[str, int] = Field(
        description="by how: never received, and proven lost by the numbers of senders; `database`: acknowledged by it "
        "before the start, and lost since"
    )
    lost_lately: dict[str, Recent] = Field(default={}, description="those of them that were noticed lately")
    dead: int = Field(
        description="in batches the store rejected for good, or lost by the database and not in the journal any more, "
        "whatever became of them since: dead_letters tells what lies in the state folder now"
    )
    waiting: int = Field(description="in triggers that are closed and not yet committed")
    assembling: int = Field(description="in triggers that are being put together, or held back as strays")
    at_risk: int = Field(
        description="committed so lately (at_risk_ms) that a crash of the server now could lose them; all since the "
        "daemon started where the risk has no limit. What waits is not among them: it is not acknowledged"
    )
    rate: float = Field(description="readings received a second")
    commit_rate: float = Field(description="readings committed a second")

    @property
    def unaccounted(self) -> int:
        """What came in and is nowhere: 0, or the daemon has a defect."""
        went = self.committed + self.duplicate + self.dead + self.waiting + self.assembling
        return self.received - went - sum(self.refused.values()) - sum(self.aside.values())


class DeadLetterCounts(Model):
    """What the database rejected for good, or assembly set aside, and nobody has dealt with.

    It lies in the state folder, whenever it came.
    """

    letters: int = Field(default=0, description="triggers, and what came late for one, each by itself")
    triggers: int = 0
    readings: int = 0
    aside: int = Field(default=0, description="readings among them that assembly set aside: they are for no trigger")
    aside_since_ns: int | None = Field(default=None, description="when the oldest of these was; null without any")
    retried: int = Field(default=0, description="readings committed from there since the daemon started")
    discarded: int = Field(
        default=0, description="readings discarded from there since then, without those that assembly had set aside"
    )


class Latency(Model):
    """From a trigger's closing to the store's acknowledgement, in milliseconds, over the last ten seconds."""

    p50: float | None
    p99: float | None
    max: float | None
    tail: float | None = Field(
        default=None,
        description="exceeded by the ten slowest of these triggers, by 1 % of them where that is more, and by half of "
        "them where there are fewer than twenty: no single slow commit moves it",
    )
    is_p99_known: bool = Field(
        default=True, description="false for fewer than 1,000 triggers, of which the p99 is one of the ten slowest"
    )


class Slip(Model):
    """An instrument that is out of step with the others."""

    instrument: str = Field(description="its name")
    kind: SlipKind = Field(
        default=SlipKind.SLIPPED,
        description="`slipped`: its timestamps are those of other triggers, `clock`: of none, `stuck`: its trigger "
        "number stands still, `irregular`: its trigger numbers and timestamps differ by changing amounts",
    )
    triggers: int = Field(
        description="how many its trigger numbers are ahead of its timestamps (negative: behind); 0 when its clock is "
        "off by something that is no trigger"
    )
    offset_ms: float = Field(description="its timestamps less those of most others with the same trigger number")
    since_trigger: int = Field(description="the number that the first such reading carried")

    def __str__(self) -> str:
        """What is wrong with it, how far, and since when."""
        since = f"since trigger {self.since_trigger}"
        if self.kind is SlipKind.STUCK:
            return f"stuck at trigger {self.since_trigger}: its number stands still"
        if self.kind is SlipKind.IRREGULAR:
            return f"off by changing amounts (the last {self.triggers:+,} triggers, {self.offset_ms:+,.1f} ms) {since}"
        if self.kind is SlipKind.CLOCK:
            way = "ahead of" if self.offset_ms > 0 else "behind"
            return f"by its clock {abs(self.offset_ms):,.1f} ms {way} the others {since}"
        count = f"{abs(self.triggers):,} trigger{'s' if abs(self.triggers) != 1 else ''}"
        way = "ahead of" if self.triggers > 0 else "behind"
        return f"{count} {way} its timestamps ({self.offset_ms:+,.1f} ms) {since}"


class GroupStatus(Model):
    """One instrument group."""

    run: int
    brief_runs: int = Field(
        default=0,
        description="runs of one trigger each that followed one another up to now; more than two: the epoch"
        " changes with each trigger",
    )
    instruments: int
    layout: Layout
    durability: Durability = Field(description="the durability asked for")
    folder: str | None = Field(
        default=None,
        description="path of the folder that its readings go into, as reports on change; it has no triggers then, and "
        "nothing is missing from any. null where they go into a table",
    )
    at_risk_ms: float | None = Field(
        description="what a crash of the server can lose: readings acknowledged within so many milliseconds before it; "
        "0 is none, null is without limit (see the store's shortfall). With a journal they are committed again after a "
        "crash, unless its disk is lost, too"
    )
    triggers: TriggerCounts
    readings: ReadingCounts
    dead_letters: DeadLetterCounts = DeadLetterCounts()
    commit_ms: Latency
    missing_now: int | None = Field(
        description="instruments in state missing, silent or never; null where there is none of these, and no trigger "
        "lately that says how the others are"
    )
    missing_a_trigger: float | None = Field(
        description="mean number of instruments missing from the triggers of the last seconds; null without a trigger"
    )
    states: str = Field(
        description="one letter an instrument, in order: o ok, i no trigger lately, l late, m missing, "
        "d desynchronised, s silent, n never"
    )
    quiet_s: float | None = Field(
        default=None, description="seconds since the last reading of any instrument came; null before the first"
    )
    ahead_s: float | None = Field(
        default=None,
        description="how far the times of its triggers were ahead of the node's clock as their first readings came, in "
        "seconds: the least of the last seconds. Negative: behind, or so long on their way; null without triggers",
    )
    calibrated_by: str | None = Field(
        default=None, description="global tag by which its readings can be calibrated; null where there is none"
    )
    desynchronised_now: int = Field(description="instruments whose trigger numbers or clock are out of step")
    slips: list[Slip] = Field(description="these instruments, the first 100 of them")
    backlog_mib: float = Field(description="memory held by readings that wait for the store")
    journal_mib: float = Field(description="disk held by the journal")
    journal_problem: str | None = Field(
        default=None, description="why nothing can be written to the journal now, in one line; it is tried again"
    )
    full_in_s: float | None = Field(
        description="how long what comes in now would find room if the database took nothing any more, in seconds: in "
        "the journal, up to its limit or the end of its disk's free space; without a journal, in memory. null while "
        "nothing comes in"
    )
    drained_in_s: float | None = Field(
        description="seconds until no more waits than comes in within one, as fast as readings come and are committed "
        "now; 0 when it is so, null while it does not become less"
    )
    backpressure: bool = Field(description="whether TCP senders are being held back now")

    def count(self, state: InstrumentState) -> int:
        """How many instruments are in a state."""
        return self.states.count(next(letter for letter, meant in STATE_LETTERS.items() if meant is state))

    @property
    def waiting(self) -> int:
        """Triggers that wait for the database; of a group that reports on change, reports."""
        return self.triggers.waiting if self.folder is None else self.readings.waiting

    @property
    def dead_now(self) -> int:
        """Readings that are dead and nobody has dealt with: in the dead letters, or in no file and no database."""
        lying = self.dead_letters.readings - self.dead_letters.aside
        return max(lying, self.readings.dead - self.dead_letters.retried - self.dead_letters.discarded)


class Shortfall(Model):
    """Where a server keeps less than a durability promises."""

    problem: str
    fix: str

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.problem}; {self.fix}"


class StoreStatus(Model):
    """The database."""

    backend: str
    product: str = Field(description="its name as people write it, e.g. `PostgreSQL`")
    version: str
    durability: str = Field(description="the durability really in force, in words, of each that a group asks for")
    shortfall: dict[Durability, Shortfall] = Field(
        description="by durability asked for, where the server keeps less than that"
    )
    settings: dict[str, str] = Field(description="the server's settings that this follows from, by their names there")
    embedded: bool
    target: str = Field(description="where it is, without a password")
    probe: str = Field(default="", description="an operator's command that asks it whether it answers; empty: none")
    available: bool
    problem: str | None = Field(description="why it is not available, in one line")
    away_s: float = Field(description="seconds since it was last available; 0 when it is")
    commits: int = Field(description="transactions acknowledged since the start")
    retries: int = Field(description="transactions tried again since the start")


class SourceStatus(Model):
    """One source of readings."""

    kind: str
    address: str
    connections: int = Field(description="senders connected; of datagrams, those heard within a minute")
    received: int = Field(description="readings handed to assembly")
    bytes: int
    refused: dict[str, int] = Field(description="connections, greetings and datagrams refused, by reason")
    refused_most: dict[str, int] = Field(
        default_factory=dict, description="the addresses they came from most; a count is at most too high"
    )
    lost_datagrams: int = Field(description="gaps in the senders' datagram numbers, less what came of them (UDP)")


class Event(Model):
    """Something that an operator should know of."""

    time_ns: int
    severity: str = Field(description="info, warning or error")
    text: str


class ReaderStatus(Model):
    """One reader workload since it was started. Rates and percentiles are of the last ten seconds.

    A latency counts from when a client was due to ask, so that waiting for its turn behind a slow answer counts, too;
    what of its period an answer took on top is counted as the questions it kept from being asked would have waited
    (HdrHistogram's correction for coordinated omission).
    """

    kind: str
    group: str = Field(description="what is asked: a group, or of `light_curve` and `cone` the schema of the visits")
    clients: int = Field(description="clients that the workload has")
    admitted: int = Field(description="clients that may ask now: all, or fewer where the governor holds them back")
    share: float = Field(
        default=1.0, description="part of their time for which these may ask; below 1 where the governor says so"
    )
    asking: int = Field(default=0, description="clients that wait for an answer now")
    since_ns: int = Field(description="when it was started")
    state: ReaderState
    problem: str | None = Field(
        description="why it failed, or what a question of the last ten seconds failed with, in one line"
    )
    cycles: int = Field(description="answers, late ones among them")
    in_time: int = Field(description="answers within the deadline")
    failed: int = Field(description="questions without an answer")
    slipped_s: float = Field(description="by how much late answers moved the questions after them, seconds in all")
    rows: int = Field(description="readings and figures in the answers")
    rate: float = Field(description="answers a second")
    row_rate: float = Field(description="rows a second")
    efficiency: float | None = Field(
        description="fraction of the questions that were answered within the deadline; null before the first"
    )
    latency_ms: Latency
    deadline_ms: float


class GovernorStatus(Model):
    """What holds readers back, and why."""

    commit_p99_ms: float | None = Field(description="ceiling for the commit latency; null for none")
    backlog_triggers: int | None = Field(description="ceiling for the triggers that wait; null for none")
    admitted: int = Field(description="clients that may ask now, of all workloads together")
    share: float = Field(default=1.0, description="part of their time for which they may ask, above 0 and up to 1")
    clients: int = Field(description="clients there are")
    state: GovernorState
    reason: str = Field(description="what it does and why, in one line")


class ExperimentStatus(Model):
    """The interference experiment that runs now."""

    id: str
    began_ns: int
    phase: ExperimentPhase
    block: int = Field(description="number of the block, from 1")
    blocks: int
    readers: int = Field(description="clients that read in this block")
    left_s: float = Field(description="estimate of the time left, seconds")


class DiskStatus(Model):
    """The disk that holds the state folder, and with it the journal."""

    total_bytes: int
    used_bytes: int
    free_bytes: int = Field(
        description="what is free for a process that is not root's: with `used_bytes` less than `total_bytes` where "
        "the file system keeps some for root"
    )
    full_in_days: float | None = Field(
        default=None,
        description="until it is full, at the growth of the tables over the last day; null until that was measured for "
        "an hour, where they do not grow, and where the database lies elsewhere",
    )


class IntakeStatus(Model):
    """The journal of a group, and what came into it before the database has answered."""

    waiting: int = Field(
        description="readings received since the start, while the database has not answered since then: what they "
        "belong to is found out when it does, and they are in no other count before"
    )
    unsynced: int = Field(
        default=0,
        description="readings that came and are not on the disk in the journal: in memory alone, those for which "
        "nobody waits, too",
    )
    refused: dict[str, int] = Field(
        default={},
        description="readings never stored, by reason, while the database has not answered since the start; the group "
        "counts them when it does",
    )
    lost: dict[str, int] = Field(
        default={}, description="readings proven lost on their way, by how, until then; the group counts them as well"
    )
    log_mib: float = Field(description="disk held by the journal")
    problem: str | None = Field(default=None, description="why it takes nothing now, in one line; it is tried again")


class Status(Model):
    """The whole daemon."""

    epoch: int = Field(description="changes when the daemon restarts (its start time, ns)")
    sequence: int = Field(description="number of this snapshot within the epoch")
    time_ns: int
    uptime_s: float
    logger: str
    version: str
    state: DaemonState
    store: StoreStatus
    groups: dict[str, GroupStatus] = Field(description="empty until the database has answered once")
    intakes: dict[str, IntakeStatus] = Field(default_factory=dict, description="by group, where a journal is kept")
    sources: list[SourceStatus]
    readers: dict[str, ReaderStatus] = Field(default_factory=dict, description="reader workloads, by name")
    governor: GovernorStatus | None = None
    experiment: ExperimentStatus | None = None
    visits: VisitsStatus | None = Field(
        default=None, description="the run of visits that is under way, or was last since the daemon started"
    )
    snapshots: SnapshotsStatus | None = Field(
        default=None, description="the run of snapshot readers that is under way, or was last since the daemon started"
    )
    conditions: ConditionsStatus | None = Field(
        default=None, description="the server of conditions; null where the daemon runs none"
    )
    marks: MarksStatus | None = Field(default=None, description="events that people note; null from an older daemon")
    retention: RetentionStatus | None = Field(default=None, description="what is dropped; null from an older daemon")
    decimation: DecimationStatus | None = Field(
        default=None, description="what is reduced; null where `[decimation]` asks for nothing"
    )
    tiers: TiersStatus | None = Field(default=None, description="places for readings; null without `[[tiers]]`")
    disk: DiskStatus | None = Field(default=None, description="null where its file system does not say")
    unavailable: dict[str, str] = Field(
        default={},
        description="figures, alarms and tasks that fail now, by name, and why: what is not known is left out, or as "
        "it was last; readings are logged all the same",
    )
    alarms: list[AlarmStatus] = Field(
        default=[], description="those in force: what nobody has dealt with first, of it the most severe"
    )
    events: list[Event] = Field(description="the last few, newest first")
    limits: dict[str, float] = Field(
        description="limits in force, by their names in `[alarms]` of the configuration: commit_p99_ms, stale_s, "
        "quiet_s, node_clock_s, missing_instruments, skipped_triggers, lost_readings, aside_readings, "
        "backlog_triggers, journal_full_in_min, disk_full_in_days, slow_visits, visit_stands_s, visits_are_critical"
    )
    cpu_percent: float = Field(description="of one core, this process, lately")
    memory_mib: float = Field(description="resident memory of this process")
    clock_is_synchronised: bool | None = Field(
        default=None, description="whether the node's own clock follows a time server; null where nobody says"
    )
