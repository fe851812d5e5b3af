"""What every section of the configuration shares."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from schemas.checking.addresses import may_be_host
from schemas.checking.fields import Form, Section
from schemas.checking.problems import Problem, refuse, wrong

__all__ = ["Host", "LoggerName", "Name", "Port", "Section", "twice"]


def _host(host: str) -> str:
    if not may_be_host(host):
        fix = "give an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
        refuse([wrong(f"{host!r} is neither an address nor a name", fix)])
    return host


Host = Annotated[str, AfterValidator(_host)]
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
