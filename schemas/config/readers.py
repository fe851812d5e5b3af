"""Who reads while it is written: reader workloads, from where they read, and what holds them back."""

from pydantic import Field, field_validator, model_validator

from schemas.checking.dsn import wrong_dsn
from schemas.checking.problems import refuse, wrong
from schemas.config.section import Section, twice
from schemas.config.workloads import MOST_IN_ALL, MOST_WORKLOADS, Workload


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
