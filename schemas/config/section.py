"""What every section of the configuration shares."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from schemas.checking.fields import Form
from schemas.checking.problems import Problem, wrong
from schemas.checking.section import Section

__all__ = ["LoggerName", "Name", "Port", "Section", "twice"]

Name = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=32),
    Form(words="1 to 32 lower-case letters, digits and underscores, a letter first"),
]
LoggerName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64),
    Form(words="1 to 64 letters, digits, `_`, `.` and `-`, a letter or digit first"),
]
Port = Annotated[int, Field(ge=0, le=65_535)]


def twice(what: str, key: str, inner: str, names: Sequence[str]) -> Iterator[Problem]:
    """A problem for each name that an earlier one has already."""
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if first.setdefault(name, i) != i:
            other = f"{key}[{first[name]}]{inner}"
            yield wrong(f"{what} {name!r} is named by {other} already", "give it another name", f"{key}[{i}]{inner}")
