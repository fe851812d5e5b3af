"""The interference experiment: what is asked of it, what it measured, and what follows from that.

Blocks of A (write only) and B (write and read) alternate, each with its first seconds cut off. Times in seconds count
from the experiment's begin; rates are a second; latencies are in milliseconds, from a trigger's closing to its commit
acknowledged for the writing, and from when a client was due to ask for the reading.
"""

from typing import Literal

from pydantic import Field, model_validator

from schemas.api.model import Model
from schemas.api.status import ExperimentStatus
from schemas.checking.problems import Problem, refuse, wrong
from schemas.config.section import Section, twice
from schemas.config.workloads import MOST_CLIENTS, Workload
from schemas.states import RunState

SAMPLE_S = 0.5
"""Time between two samples of the timeline; more where there would be more of them than MOST_SAMPLES."""

MOST_SAMPLES = 20_000


FIGURES = {
    "rate": ("Commit rate", "triggers/s"),
    "reading_rate": ("Readings committed", "readings/s"),
    "p50_ms": ("Commit p50", "ms"),
    "p99_ms": ("Commit p99", "ms"),
    "backlog": ("Backlog, at most", "triggers"),
}
"""Title and unit of each figure of the writing, in the order of the tables."""


class Experiment(Section):
    """What is asked of an experiment."""

    workloads: tuple[Workload, ...] = Field(min_length=1, max_length=16, description="What reads in the blocks of B.")
    pairs: int = Field(
        default=6, ge=1, le=100, description="Blocks of B, each between two of A; of a dose-response run, of each dose."
    )
    block_s: float = Field(default=20.0, gt=0, le=3600, description="Length of a block, in seconds.")
    warm_up_s: float = Field(
        default=3.0, ge=0, le=600, description="Cut off at the begin of each block, in seconds; less than the block."
    )
    doses: tuple[int, ...] = Field(
        default=(),
        max_length=32,
        description="Numbers of clients to try, all workloads together: a dose-response run, in which `clients` of the "
        "workloads does not count. Empty for a plain A/B run.",
    )
    seed: int = Field(default=1, ge=0, description="Of the order of the doses.")
    governed: bool = Field(
        default=False,
        description="Run it although the governor is on, which may admit fewer readers than a block asks for.",
    )

    @model_validator(mode="after")
    def _check(self) -> "Experiment":
        problems = [*twice("workload", "workloads", ".name", [workload.name for workload in self.workloads])]
        if self.warm_up_s >= self.block_s:
            fix = "leave something of the block to measure"
            problems.append(wrong(f"not less than block_s, which is {self.block_s:g}", fix, "warm_up_s"))
        problems += _wrong_doses(self)
        refuse(problems)
        return self


def _wrong_doses(experiment: Experiment) -> list[Problem]:
    most = MOST_CLIENTS * len(experiment.workloads)
    problems = []
    for i, dose in enumerate(experiment.doses):
        if not 1 <= dose <= most:
            fix = f"use 1 to {most}; A, which is 0 readers, comes by itself"
            problems.append(wrong(f"{dose} clients cannot be admitted", fix, f"doses[{i}]"))
        elif dose in experiment.doses[:i]:
            problems.append(wrong(f"{dose} is there already", "name each dose once", f"doses[{i}]"))
    return problems


class Sample(Model):
    """Half a second of the timeline, in a long experiment more."""

    t_s: float = Field(description="its end")
    p99_ms: float | None = Field(description="of the triggers committed in it; null when there was none")
    rate: float = Field(description="triggers committed")
    backlog: int = Field(description="triggers that waited, at most")
    readers: int = Field(description="clients admitted at its end")


class WorkloadBlock(Model):
    """What one workload did in a block, after the warm-up.

    Rates are of answers that came in it; the rest is of all questions that were due in it, whenever their answers came.
    """

    admitted: int
    cycles: int = Field(description="answers, late ones among them")
    in_time: int = Field(description="answers within the deadline")
    failed: int = Field(description="questions without an answer")
    rate: float = Field(description="answers")
    row_rate: float = Field(description="rows")
    slipped_s: float
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class Block(Model):
    """One block. Figures are of what is left after the warm-up, of all groups together."""

    number: int = Field(description="from 1")
    kind: Literal["A", "B"]
    readers: int = Field(description="clients that the block asks for")
    begin_s: float
    from_s: float = Field(description="end of the warm-up")
    end_s: float
    whole: bool = Field(description="false for a block that was cut short: it does not count")
    drained: bool = Field(
        default=True, description="false for a block that began while what the one before left still waited: the same"
    )
    triggers: int = Field(description="committed")
    rate: float = Field(description="triggers committed")
    reading_rate: float = Field(description="readings committed")
    received_rate: float = Field(description="readings received: the load offered")
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None = Field(description="upper bound of the bucket of the longest, 2.3 % wide")
    backlog: int = Field(description="triggers that waited, at most")
    cpu_percent: float = Field(description="of one core, the daemon's process")
    machine_percent: float = Field(description="of all cores, everything on the machine")
    workloads: dict[str, WorkloadBlock]
    looks: int = Field(description="how often the server was asked for its view: without one nothing is known of it")
    server: dict[str, float] = Field(description="growth of the server's counters a second, by name; of two looks")
    waits: dict[str, float] = Field(description="sessions of the server that waited, on average, by what for")

    @property
    def counts(self) -> bool:
        """Whether it is among those of which anything is said."""
        return self.whole and self.drained


class Conditions(Model):
    """What it was measured on."""

    machine: str = Field(description="its processor")
    cores: int
    memory_gib: float
    load_average: float = Field(description="over the minute before")
    python: str
    version: str = Field(description="of triggerlog")
    backend: str
    server: str = Field(description="product and version")
    target: str = Field(description="where it is, without a password")
    read_from: str = Field(description="where the readers read, without a password")
    embedded: bool
    durability: str = Field(description="the durability in force, in words")
    settings: dict[str, str] = Field(description="the server's settings that this follows from")
    groups: dict[str, str] = Field(description="instruments, layout and durability asked for, in words, by group")
    journal: bool
    stored: int = Field(description="triggers that the store held at the begin, as far as its account says")
    budget_ms: float = Field(description="alarms.commit_p99_ms")
    governor: str = Field(description="the ceilings of the governor, in words; empty when it is off")


class Ratio(Model):
    """A ratio with its interval of 95 % confidence; without limits where there are too few blocks for one."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int = Field(description="blocks against their neighbours")

    @property
    def holds_one(self) -> bool | None:
        """Whether 1 is within the interval; None without one."""
        return None if self.low is None or self.high is None else self.low <= 1 <= self.high


class Mean(Model):
    """A mean over blocks with its interval of 95 % confidence; without limits of a single block."""

    value: float
    low: float | None
    high: float | None
    blocks: int


class Row(Model):
    """One figure of the writing, without and with readers."""

    figure: str = Field(description="rate, reading_rate, p50_ms, p99_ms or backlog")
    readers: int = Field(description="clients in B")
    a: float = Field(description="geometric mean over the blocks of A next to those of B; of the backlog the mean")
    b: float
    b_to_a: Ratio
    verdict: str


class Agreement(Model):
    """Blocks of A against blocks of A, every second one in the place of B."""

    figure: str
    a_to_a: Ratio
    scatter: float = Field(
        description="standard deviation of a block of A once a straight drift is taken out; 0.05: 5 %"
    )
    drift: float = Field(description="last block of A by the first one, along the straight line; 1 is none")


class ReaderRow(Model):
    """How one workload fared in the blocks with so many readers."""

    workload: str
    readers: int = Field(description="clients in B, of all workloads together")
    admitted: int = Field(description="clients of this workload")
    deadline_ms: float
    cycles: int
    failed: int
    rate: Mean
    row_rate: Mean
    p50_ms: Mean | None
    p99_ms: Mean | None
    efficiency: Mean | None = Field(description="fraction answered within the deadline, at most 1")


class ServerRow(Model):
    """One counter of the server a second, or sessions that waited for one thing."""

    name: str
    a: float
    b: float
    ratio: float | None = Field(description="of b to a; null where a is 0")


class Dose(Model):
    """One point of the dose-response plot; 0 readers is A."""

    readers: int
    p99_ms: Mean
    rate: Mean


class Result(Model):
    """What follows from the blocks. Where doses were tried `rows` has each, and server rows are of the highest."""

    headline: str
    rows: list[Row]
    agreement: list[Agreement]
    steady: bool | None = Field(description="whether A agrees with A in every figure; null for too few blocks")
    steadiness: str = Field(description="that in words")
    readers: list[ReaderRow]
    server: list[ServerRow]
    waits: list[ServerRow]
    processor: list[ServerRow] = Field(description="percent of one core of the daemon, and of all cores of the machine")
    doses: list[Dose] = Field(description="empty of a plain A/B run")
    crossing: float | None = Field(
        description="readers at which p99 crosses the budget by its points; null where it does not"
    )
    crossing_words: str


class Record(Model):
    """The record of an experiment, in `state_dir/interference/ID.json`."""

    id: str
    began_ns: int
    ended_ns: int | None = None
    state: RunState = RunState.RUNNING
    problem: str | None = Field(default=None, description="why it failed, or was stopped, in one line")
    settings: Experiment
    conditions: Conditions
    notes: list[str] = Field(default_factory=list, description="what else a reader has to know, each a sentence")
    command: str = Field(description="what repeats it")
    planned: int = Field(description="blocks there were to be")
    blocks: list[Block] = Field(default_factory=list)
    timeline: list[Sample] = Field(default_factory=list)
    result: Result | None = None


class Summary(Model):
    """A line of the list of past experiments."""

    id: str
    began_ns: int
    state: RunState
    problem: str | None
    readers: str = Field(description="the workloads, in words")
    pairs: int
    block_s: float
    doses: list[int]
    blocks: int = Field(description="whole blocks that were measured, and not left out")
    p99: Ratio | None = Field(description="ratio of commit p99, of doses the highest")
    rate: Ratio | None = Field(description="ratio of the commit rate")
    steady: bool | None
    headline: str
    report: bool = Field(description="whether there is an HTML report")


class Live(Model):
    """The experiment that runs, as far as it came."""

    id: str
    settings: Experiment
    planned: int
    budget_ms: float
    blocks: list[Block] = Field(description="those after the number that was asked for")
    samples: list[Sample] = Field(description="those after the number that was asked for")
    next: int = Field(description="ask for samples after this number the next time")


class Experiments(Model):
    """Body of `GET /api/v1/interference`."""

    running: ExperimentStatus | None
    live: Live | None = Field(description="what the one that runs has measured so far")
    past: list[Summary] = Field(default_factory=list, description="those that were, the newest first")


class ExperimentId(Model):
    """An experiment that began, or was stopped."""

    id: str
