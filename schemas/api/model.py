"""The model of all answers, and the body of every answer that is an error."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from schemas.checking import problems


class Model(BaseModel):
    """An answer, or a part of one: it does not change, and holds no field that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(Model):
    """What is wrong with a request, and what to do about it."""

    detail: str = Field(description="what is wrong")
    fix: str | None = Field(default=None, description="what to do; null where there is nothing to do")
    field: str | None = Field(default=None, description="the field or parameter that is wrong, by its path")
    further: tuple["Problem", ...] = Field(default=(), description="what else is wrong with the same request")

    def __str__(self) -> str:
        """One line for a person: where, what is wrong, what to do."""
        parts = [f"{self.field}: {self.detail}" if self.field else self.detail, *([self.fix] if self.fix else [])]
        return "; and ".join(["; ".join(parts), *map(str, self.further)])

    def encoded(self) -> bytes:
        """The body of the answer; what does not apply is left out."""
        return self.model_dump_json(exclude_defaults=True).encode()


def problem_of(found: Sequence[problems.Problem]) -> Problem:
    """The problems of a request, of which there is at least one, each named once."""
    first, *further = (Problem(detail=one.problem, fix=one.fix, field=one.field) for one in dict.fromkeys(found))
    return first.model_copy(update={"further": tuple(further)})
