"""Answers about marks; the request that makes one is `schemas.marks.Mark`."""

from uuid import UUID

from pydantic import Field

from schemas.api.model import Model
from schemas.marks import Mark


class Marks(Model):
    """Body of `GET /api/v1/marks`."""

    marks: list[Mark] = Field(description="in order of time, those that wait for the database among them")
    cut: bool = Field(description="whether there may be earlier ones")


class MarkKept(Model):
    """Body of the answers to `POST /api/v1/marks` and `DELETE /api/v1/marks/{id}`."""

    id: UUID
    stored: bool = Field(
        description="whether the database has it; else it is in the state folder, survives a restart of the daemon, "
        "and is written when the database answers"
    )


class MarksStatus(Model):
    """The part of the status that tells of marks."""

    changes: int = Field(description="changes with each order about marks, and when the database has taken one")
    waiting: int = Field(description="orders that wait in the state folder for the database")
    waiting_marks: list[Mark] = Field(description="the marks among them, at most 20, the newest")
    problem: str | None = Field(description="why they wait, in one line")
