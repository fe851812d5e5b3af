"""The record of a comparison: its conditions, the run of each, and the machine."""

from pydantic import BaseModel, ConfigDict, Field

from schemas.api.visits import VisitsRun


class Measured(BaseModel):
    """One condition on one server: what it was run for, and its run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str = Field(description="conditions of a group took turns over the same visits")
    condition: str = Field(description="its name, unique in its group and backend, e.g. `baseline`")
    title: str = Field(description="how it differs from the base condition")
    backend: str = Field(description="postgresql, mysql or mongodb")
    chunk: int = Field(description="visits a turn; the first visit of a turn warms up, and is not compared")
    settle_s: float = Field(
        default=0.0,
        description="seconds, in all, that its server took after its turns to do what they had left behind, such as "
        "writing changed pages out; no visit runs meanwhile",
    )
    run: VisitsRun


class Check(BaseModel):
    """One comparison of counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passed: bool
    result: str = Field(description="what was compared, and with what result, a sentence")


class Comparison(BaseModel):
    """A benchmark of visits, as JSON files hold it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = Field(default="visits comparison", pattern="^visits comparison$")
    date: str
    seconds: float = Field(description="how long all of it took")
    plan: str = Field(description="full or quick")
    seed: int = Field(description="of the order in which conditions took turns")
    command: str = Field(description="what repeats it")
    machine: dict[str, str]
    memory_limit_mib: int | None = Field(
        description="limit of each PostgreSQL’s control group, its part of the page cache included; None: none"
    )
    notes: tuple[str, ...] = Field(default=(), description="what was left out or cut short, a sentence each")
    checks: tuple[Check, ...] = ()
    measured: tuple[Measured, ...]

    def of(self, group: str, backend: str | None = None) -> tuple[Measured, ...]:
        """Those of a group, and of one backend of it if that is named."""
        return tuple(each for each in self.measured if each.group == group and backend in (None, each.backend))

    def find(self, group: str, backend: str, condition: str) -> Measured | None:
        """One of them; None if it was not measured."""
        found = [each for each in self.of(group, backend) if each.condition == condition]
        return found[0] if found else None
