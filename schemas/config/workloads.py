"""Reader workloads: what readers ask, how many of them, how often, and by when they want their answer.

The readers of a daemon read while it writes: from where, and what holds them back.
"""

from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from schemas.checking.dsn import wrong_dsn
from schemas.checking.problems import refuse, wrong
from schemas.config.section import Name, Section, twice

MOST_CLIENTS = 256
"""Clients of one workload."""
MOST_IN_ALL = 512
"""Clients of all workloads of a daemon together."""
MOST_WORKLOADS = 16
"""Workloads of a daemon: each is a process, of 70 MiB before it has read anything."""


class WorkloadKind(StrEnum):
    """What a client of a workload asks in each cycle."""

    NEWEST = "newest"
    ORBIT = "orbit"
    TREND = "trend"
    HISTORY = "history"
    SNAPSHOT = "snapshot"
    WINDOW = "window"
    SCAN = "scan"
    RANDOM = "random"
    LIGHT_CURVE = "light_curve"
    CONE = "cone"

    @property
    def is_of_visits(self) -> bool:
        """Whether it asks about visits, and not about a group."""
        return self in (WorkloadKind.LIGHT_CURVE, WorkloadKind.CONE)


QUESTIONS: dict[WorkloadKind, str] = {
    WorkloadKind.NEWEST: "the newest complete trigger, all instruments",
    WorkloadKind.ORBIT: "the newest complete trigger, with positions by the calibrations valid at it",
    WorkloadKind.TREND: "the last readings of an instrument, another one each time",
    WorkloadKind.HISTORY: "a range of time of the group, as means by instrument and time step",
    WorkloadKind.SNAPSHOT: "every instrument's value at a random moment",
    WorkloadKind.WINDOW: "all readings of a range of time",
    WorkloadKind.SCAN: "an aggregate over everything that is stored",
    WorkloadKind.RANDOM: "the readings of random triggers",
    WorkloadKind.LIGHT_CURVE: "all sources and forced sources of a random object of the visits",
    WorkloadKind.CONE: "the objects of the visits around a random position",
}
"""What a client of each kind asks for, in words."""

OWN_FIELDS: dict[WorkloadKind, tuple[str, ...]] = {
    WorkloadKind.TREND: ("readings",),
    WorkloadKind.HISTORY: ("stretch_s", "step_s"),
    WorkloadKind.SNAPSHOT: ("stretch_s",),
    WorkloadKind.WINDOW: ("stretch_s",),
    WorkloadKind.RANDOM: ("triggers",),
    WorkloadKind.CONE: ("radius_deg",),
}
"""Fields of a workload that only some kinds have; the other kinds ignore them."""


class Workload(Section):
    """Concurrent readers of one kind: clients that ask again and again, each once in a period."""

    name: Name = Field(description="Name of the workload, e.g. `operators`.")
    kind: WorkloadKind = Field(
        description="`newest`: the newest complete trigger, all instruments; `orbit`: the same, with positions by "
        "the calibrations that the tag of `conditions` has valid at it; `trend`: the last `readings` of an instrument; "
        "`history`: `stretch_s` of the group as means of `step_s` by instrument; `snapshot`: every instrument's value "
        "valid at a random moment of the last `stretch_s`; `window`: all readings of `stretch_s`, somewhere in what is "
        "stored of the run; `scan`: an aggregate over everything; `random`: the readings of `triggers` random "
        "triggers; `light_curve`: all sources and forced sources of a random object of `visits`, within its history "
        "window; `cone`: the objects of `visits` within `radius_deg` of a random position that was looked at."
    )
    group: str | None = Field(
        default=None, description="Group that is read; the first one when left out. Kinds that ask `visits` have none."
    )
    clients: int = Field(default=1, ge=1, le=MOST_CLIENTS, description="Clients that ask, each for itself.")
    period_s: float = Field(
        default=1.0,
        ge=0,
        le=86_400,
        description="Time between the starts of two questions of a client, in seconds; a client that is late asks at "
        "once and its next ones slip. 0 asks again as soon as the answer is there.",
    )
    offset_s: float = Field(
        default=0.0, ge=0, le=3600, description="Time between the first questions of two clients, in seconds."
    )
    deadline_s: float = Field(
        default=1.0, gt=0, le=86_400, description="An answer within this long counts as in time, in seconds."
    )
    readings: int = Field(default=1000, ge=1, le=1_000_000, description="Of `trend`: how many readings.")
    triggers: int = Field(default=10_000, ge=1, le=1_000_000, description="Of `random`: how many triggers.")
    stretch_s: float | None = Field(
        default=None,
        gt=0,
        le=31_622_400,
        description="Stretch of time that is asked for, in seconds; when left out 1,800 of `history`, 10 of `window`, "
        "3,600 of `snapshot`.",
    )
    step_s: float = Field(default=60.0, gt=0, le=86_400, description="Of `history`: step of its means, in seconds.")
    radius_deg: float = Field(default=0.1, gt=0, le=20, description="Of `cone`: its radius, in degrees.")

    @property
    def span_s(self) -> float:
        """Stretch of time that is asked for, in seconds."""
        return SPANS_S.get(self.kind, 0.0) if self.stretch_s is None else self.stretch_s

    @model_validator(mode="after")
    def _fits(self) -> "Workload":
        if self.kind is WorkloadKind.HISTORY and self.step_s > self.span_s:
            refuse([wrong(f"longer than the {self.span_s:g} s asked for", "give a shorter step", "step_s")])
        if self.kind.is_of_visits and self.group is not None:
            refuse([wrong(f"{self.kind} asks about visits, and of no group", "take it out", "group")])
        return self


SPANS_S: dict[WorkloadKind, float] = {
    WorkloadKind.HISTORY: 1800.0,
    WorkloadKind.WINDOW: 10.0,
    WorkloadKind.SNAPSHOT: 3600.0,
}
"""Stretch of time that a kind asks for when nothing else is said, in seconds. 30 minutes as 1-minute means is what the
display of the CBPM3 paper reads; the others are ours."""


def described(workload: Workload) -> str:
    """Say in a few words what a workload is, e.g. `newest, 10 clients, each once in 0.5 s`."""
    often = f"once in {workload.period_s:g} s" if workload.period_s else "without a pause"
    clients = "1 client" if workload.clients == 1 else f"{workload.clients} clients, each"
    return f"{workload.kind}, {clients} {often}"


class GovernorConfig(Section):
    """Admits readers only as long as the writing keeps its promise. Off unless a ceiling is set."""

    commit_p99_ms: float | None = Field(
        default=None, gt=0, le=600_000, description="Ceiling for the commit latency, p99, in milliseconds."
    )
    backlog_triggers: int | None = Field(
        default=None, ge=1, le=1_000_000_000, description="Ceiling for the triggers of a group that wait."
    )

    @property
    def is_on(self) -> bool:
        """Whether there is a ceiling."""
        return self.commit_p99_ms is not None or self.backlog_triggers is not None


class ReadersConfig(Section):
    """Reader workloads: processes of their own that read what is being written."""

    dsn: str | None = Field(
        default=None,
        description="Where they read, e.g. a replica; where it is written when left out. It has to be a database of "
        "the same kind.",
    )
    password_env: str | None = Field(default=None, description="Environment variable that holds the DSN's password.")
    password_file: str | None = Field(
        default=None, description="File that holds the DSN's password (first line), or `credential:NAME`."
    )
    give_up_s: float = Field(
        default=60.0, gt=0, le=3600, description="A question that takes longer is given up, here and by the server."
    )
    workloads: tuple[Workload, ...] = Field(
        default=(), max_length=MOST_WORKLOADS, description="Workloads that run with the daemon."
    )
    governor: GovernorConfig = Field(default_factory=GovernorConfig, description="What holds readers back.")

    @field_validator("dsn")
    @classmethod
    def _known_scheme(cls, dsn: str | None) -> str | None:
        if dsn is not None:
            refuse(wrong_dsn(dsn))
        return dsn

    @model_validator(mode="after")
    def _check(self) -> "ReadersConfig":
        given = [key for key in ("password_env", "password_file") if getattr(self, key) is not None]
        problems = [*twice("workload", "workloads", ".name", [workload.name for workload in self.workloads])]
        clients = sum(workload.clients for workload in self.workloads)
        if clients > MOST_IN_ALL:
            problems.append(wrong(f"{clients} clients in all", f"give at most {MOST_IN_ALL}", "workloads"))
        if len(given) == 2:
            problems.append(wrong("`password_env` is given too", "give one of them, not both", "password_file"))
        if given and self.dsn is None:
            problems.append(wrong("a password without a `dsn`", "add the `dsn` it is for, or take it out", given[0]))
        refuse(problems)
        return self
