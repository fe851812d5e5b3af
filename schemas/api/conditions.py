"""Conditions: what orders hold, with the names of the reference conditions database; and what a status tells."""

from typing import Annotated

from pydantic import BaseModel, Field

from schemas.api.model import Model
from schemas.checking.fields import Form, Section
from schemas.conditions.intervals import LARGEST, TagStatus
from schemas.states import ConditionsState

Name = Annotated[
    str,
    Field(max_length=80, pattern=r"^[^/\p{C}\s](?:[^/\p{C}]*[^/\p{C}\s])?$"),
    Form(words="1 to 80 characters without `/` and control characters, and no space at either end"),
]
"""It is a part of addresses."""

ListName = Annotated[str, Field(min_length=1, max_length=255)]
Coordinate = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]


class NewStatus(Section):
    """A status that is to be added: one of those that there are."""

    name: str = Field(description="Its name.")


class NewTag(Section):
    """A global tag that is to be added."""

    name: Name = Field(description="Its name.")
    status: TagStatus = Field(description="Its status.")
    author: Annotated[str, Field(max_length=80)] | None = Field(default=None, description="Who made it.")


class NewType(Section):
    """A payload type that is to be added."""

    name: Name = Field(description="Its name.")


class NewList(Section):
    """A payload list that is to be added; its name follows from its type."""

    payload_type: Name = Field(description="Name of its type.")


class ListAttachment(Section):
    """Which list goes to which tag."""

    global_tag: Name = Field(description="Name of the tag.")
    payload_list: ListName = Field(description="Name of the list.")


class NewPayloadIov(Section):
    """An interval that is to be stored, in no list yet."""

    payload_url: Annotated[str, Field(min_length=1, max_length=255)] = Field(
        description="Where the payload is, relative to where the site keeps payloads."
    )
    checksum: Annotated[str, Field(max_length=255)] = Field(default="", description="Checksum of the payload.")
    size: Coordinate | None = Field(default=None, description="Size of the payload, in bytes.")
    major_iov: Coordinate = Field(description="Start, such as a run.")
    minor_iov: Coordinate = Field(description="Start within that, such as a trigger.")
    major_iov_end: Coordinate = Field(default=LARGEST, description="End, which the interval does not hold.")
    minor_iov_end: Coordinate = Field(default=LARGEST, description="End within that.")


class IovAttachment(Section):
    """Which interval goes into which list."""

    payload_list: ListName = Field(description="Name of the list.")
    piov_id: Coordinate = Field(description="Id of the interval.")
    global_tag: Name | None = Field(default=None, description="Name of the tag that has the list; need not be given.")


class TagRow(BaseModel):
    """A global tag in the list of tags; an answer may have further fields."""

    name: str
    author: str | None
    status: TagStatus
    payload_lists_count: int
    payload_iov_count: int
    created: str
    updated: str


class ConditionsUse(Model):
    """What somebody has asked the server of conditions."""

    requests: int = Field(description="that were answered, refusals among them")
    bytes: int = Field(description="of the bodies of these answers")


class ConditionsClient(ConditionsUse):
    """A client of the server of conditions."""

    address: str = Field(description="where its requests came from")
    user_agent: str | None = Field(description="what it calls itself; null where it sends no User-Agent")


class ConditionsClients(Model):
    """Who asks: clients of the last minute, the one with the most requests first."""

    over_s: float = Field(description="time that was counted over: 50 to 60 s, less after the start")
    clients: list[ConditionsClient] = Field(description="100 at most")
    others: ConditionsUse = Field(description="what all other clients have asked")


class ConditionsStatus(Model):
    """The server of conditions: all of its processes together."""

    state: ConditionsState
    address: str = Field(description="where it listens")
    problem: str | None = Field(default=None, description="what is wrong, in one line")
    since_ns: int = Field(description="when the state began")
    processes: int = Field(description="processes there should be")
    running: int = Field(description="processes that answer")
    requests: dict[str, dict[str, int]] = Field(
        description="answers since the start, by route and status of HTTP: a route of the contract, or `other`"
    )
    rate: float = Field(description="questions for what is valid, a second, lately")
    p50_ms: float | None = Field(description="of these, in the server, over the last ten seconds; null without any")
    p99_ms: float | None
    memory_hits: int = Field(description="of these, answered from memory")
    database_reads: int = Field(description="of these, answered from the database")
    not_modified: int = Field(description="of these, answered with 304: the client had the answer already")
    tags_in_memory: int = Field(description="tags, most of any process")
    intervals_in_memory: int = Field(description="intervals of these, most of any process")
    memory_mib: float = Field(description="what tags and answers take, most of any process")
    memory_limit_mib: float = Field(description="what they may take in each process")
    clients: ConditionsClients
