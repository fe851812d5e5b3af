"""Marks: events that a person notes ("beam study began"), kept with the data."""

import unicodedata
from dataclasses import dataclass
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.checking.problems import refuse, wrong

TEXT_MOST = 200
AUTHOR_MOST = 60
TimeNs = Annotated[int, Field(ge=-(2**63), lt=2**63)]


REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters (Unicode, chapter 4.5) that end a line, or are no text."""

TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""These show what follows in another order (Unicode, annex 9)."""


def is_shown(character: str) -> bool:
    """Tell whether a character may stand in one line of text; spaces of all kinds and emoji may."""
    return unicodedata.category(character) not in REFUSED and character not in TURNING


class Mark(BaseModel):
    """An event that a person noted: a moment, or with until_ns a span of time.

    What one id says is said once: a request that is repeated makes no second mark.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: UUID = Field(description="Made by whoever makes the mark; the same id again makes no second one.")
    time_ns: TimeNs = Field(description="When it happened, or began; it may be in the past.")
    until_ns: TimeNs | None = Field(default=None, description="When it ended, after time_ns; none is a moment.")
    text: str = Field(min_length=1, max_length=TEXT_MOST, description="What happened, in one line.")
    author: str | None = Field(default=None, min_length=1, max_length=AUTHOR_MOST, description="Who says so.")
    group: str | None = Field(
        default=None, min_length=1, max_length=64, description="The instrument group that it is about; none is all."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        found = [
            wrong("it has control characters, or nothing to read", "write one line of text", name)
            for name in ("text", "author")
            if (value := getattr(self, name)) is not None and not (all(map(is_shown, value)) and value.strip())
        ]
        if self.until_ns is not None and self.until_ns <= self.time_ns:
            found.append(wrong("it is not after time_ns", "give a later time, or none for a moment", "until_ns"))
        refuse(found)
        return self

    @property
    def last_ns(self) -> int:
        """Up to when it lasts."""
        return self.time_ns if self.until_ns is None else self.until_ns


@dataclass(frozen=True, kw_only=True)
class MarksWithin:
    """The marks of which a part is in start_ns <= time < end_ns, in order of time; at most `most`, the newest."""

    start_ns: int
    end_ns: int
    most: int

    def of(self, marks: list[Mark]) -> list[Mark]:
        """Choose those among marks."""
        found = [mark for mark in marks if mark.time_ns < self.end_ns and mark.last_ns >= self.start_ns]
        return sorted(found, key=lambda mark: (mark.time_ns, str(mark.id)))[-self.most :]
