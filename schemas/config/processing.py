"""How readings become triggers, and triggers transactions, and what counts as wrong."""

from pydantic import Field, field_validator, model_validator

from schemas.checking.problems import refuse, wrong
from schemas.config.section import Section


class AssemblyConfig(Section):
    """How triggers are put together."""

    timeout_ms: float = Field(
        default=500.0, gt=0, le=600_000, description="An incomplete trigger closes this long after its first reading."
    )
    window: int = Field(
        default=65_536,
        ge=64,
        le=16_777_216,
        description="Trigger numbers remembered, half of them behind the newest and half ahead; a power of two. "
        "Late readings within it are merged, those further away are refused.",
    )
    max_open: int = Field(
        default=4096, ge=16, le=1_048_576, description="Triggers open at once; beyond it the oldest closes early."
    )

    @field_validator("window")
    @classmethod
    def _power_of_two(cls, window: int) -> int:
        if window & (window - 1):
            low, high = 1 << (window.bit_length() - 1), 1 << window.bit_length()
            refuse([wrong(f"{window} is not a power of two", f"use {low} or {high}")])
        return window

    @model_validator(mode="after")
    def _fits(self) -> "AssemblyConfig":
        if self.max_open > self.window // 2:
            problem = f"{self.max_open} triggers do not fit into the half of `window` that lies behind the newest"
            refuse([wrong(problem, f"use at most {self.window // 2}, or a larger `window`", "max_open")])
        return self


class CommitterConfig(Section):
    """How closed triggers become transactions."""

    max_batch_mib: float = Field(default=8.0, gt=0, le=1024, description="Most that one transaction carries, in MiB.")
    max_waiting_mib: float = Field(
        default=256.0,
        gt=0,
        le=65_536,
        description="Most that waits in memory for the database, in MiB and for each group; what is beyond it waits in "
        "the journal.",
    )
    retry_first_ms: float = Field(default=50.0, gt=0, le=60_000, description="Pause after the first failed commit.")
    retry_most_ms: float = Field(default=1_000.0, gt=0, le=600_000, description="The pause doubles up to this.")

    @model_validator(mode="after")
    def _grows(self) -> "CommitterConfig":
        if self.retry_most_ms < self.retry_first_ms:
            fix = f"use at least {self.retry_first_ms:g}"
            refuse([wrong("shorter than the first pause, `retry_first_ms`", fix, "retry_most_ms")])
        if self.max_batch_mib > self.max_waiting_mib:
            fix = f"use at most {self.max_waiting_mib:g}, or a larger `max_waiting_mib`"
            refuse([wrong("one batch is more than may wait", fix, "max_batch_mib")])
        return self


class JournalConfig(Section):
    """Where readings wait for the database, on disk in `intake/` under `state_dir`; a journal a group."""

    max_mib: float = Field(
        default=4096.0,
        ge=0,
        le=16_777_216,
        description="Most that a journal may hold, in MiB. With it full TCP senders are held back and datagrams are "
        "refused. 0 keeps none: then readings wait in memory only, nothing is taken before the database answers, and "
        "senders cannot ask for `received`.",
    )
    segment_mib: float = Field(
        default=64.0,
        ge=1,
        le=4096,
        description="Size of its files, in MiB; each goes once the database has all of it for good.",
    )

    @property
    def max_bytes(self) -> int:
        """`max_mib` in bytes."""
        return int(self.max_mib * 2**20)

    @property
    def segment_bytes(self) -> int:
        """`segment_mib` in bytes."""
        return int(self.segment_mib * 2**20)


class AlarmConfig(Section):
    """Limits beyond which the page and the status call something wrong."""

    stale_s: float = Field(
        default=2.0, gt=0, description="An instrument silent for longer, while others go on, is stale."
    )
    clock_offset_ms: float = Field(
        default=20.0,
        gt=0,
        le=10_000,
        description="An instrument whose timestamps differ from those of most by more is out of step: its trigger "
        "numbers slipped, or its clock is off. Raise it where instruments send no time of their own over a slow "
        "network.",
    )
    commit_p99_ms: float = Field(default=100.0, gt=0, description="Budget for the commit latency, p99.")
    quiet_s: float = Field(
        default=30.0,
        gt=0,
        description="A group that nothing comes from for longer, of no instrument, has stale data: the machine is at "
        "rest, or its trigger or its network is gone.",
    )
    node_clock_s: float = Field(
        default=10.0,
        gt=0,
        description="A group whose times all differ by more from the clock of the node that the daemon runs on: its "
        "clocks are wrong, or the node's is. Raise it above 37 where instruments send TAI.",
    )
    missing_instruments: int = Field(
        default=1, ge=1, description="So many instruments missing, silent or never heard, of all groups, are an alarm."
    )
    skipped_triggers: int = Field(
        default=1,
        ge=1,
        description="So many trigger numbers of a group that never came, within the last ten minutes, are an alarm. "
        "Raise it for a group that does not take part in every trigger.",
    )
    lost_readings: int = Field(
        default=1,
        ge=1,
        description="So many readings of a group that are proven lost on their way, within the last ten minutes, are "
        "an alarm. Raise it where datagrams may get lost.",
    )
    aside_readings: int = Field(
        default=1,
        ge=1,
        description="So many readings of a group that lie in the dead letters, set aside, are an alarm.",
    )
    backlog_triggers: int = Field(
        default=5_000,
        ge=1,
        description="More triggers of a group waiting for the database are an alarm, unless the database is away, "
        "which is one by itself. Well above what one transaction carries.",
    )
    journal_full_in_min: float = Field(
        default=30.0,
        gt=0,
        description="What waits does not become less, and there is room for fewer minutes: an alarm; for a third of "
        "them, a critical one.",
    )
    disk_full_in_days: float = Field(
        default=7.0,
        gt=0,
        description="The disk with the embedded PostgreSQL is full in fewer days, at the growth of the last day: "
        "an alarm. It is time to remove old partitions, or to add room.",
    )
    slow_visits: int = Field(
        default=10,
        ge=1,
        description="So many visits in a row that took longer than `visits.limit_s`, or than the interval at the real "
        "cadence, are an alarm.",
    )
    visit_stands_s: float = Field(
        default=300.0, gt=0, description="A visit under way for longer is an alarm: the run stands still."
    )
    visits_are_critical: bool = Field(
        default=False,
        description="Whether visits that failed, stand still or are slow are critical, and not a warning.",
    )
