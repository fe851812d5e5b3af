"""Documents of types, lists, tags, and intervals that no list has; and lists as orders change them.

A tag's document has its lists: `lists.lID` says what each is and `directories.lID` where its segments are, so that a
tag is of one moment. The document of a list says which tag has it; the list of no tag has its directory itself. Both
kinds of documents have a revision, which grows with each change of their lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bson import Int64

from backends.mongodb.conditions.segments import ENTRY, Document
from backends.mongodb.conditions.session import LISTS, TAGS
from schemas.conditions.intervals import (
    GlobalTag,
    Interval,
    Key,
    PayloadList,
    PayloadType,
    TagRevision,
    TagStatus,
)
from schemas.readings import Array

WITHOUT_DIRECTORIES = {"directories": 0, "directory": 0}
NO_SEGMENTS: Array = np.zeros(0, ENTRY)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredList:
    """A list where it is stored.

    tag, status: of the tag that has it, None if none has. revision: of the document that has its directory.
    own_revision: of its own document; 0 where that was not read.
    directory: ENTRY (segments). intervals: how many.
    """

    id: int
    type: str
    created_ns: int
    tag: str | None
    status: TagStatus | None
    revision: int
    own_revision: int
    directory: Array
    intervals: int

    @property
    def name(self) -> str:
        """Name of the list."""
        return f"{self.type}_{self.id}"

    @property
    def container(self) -> tuple[str, str]:
        """Collection and `_id` of the document that has the directory."""
        return (LISTS, padded(self.id)) if self.tag is None else (TAGS, self.tag)

    def fields(self) -> Document:
        """What the container has to hold for it."""
        if self.tag is None:
            return {"directory": self.directory.tobytes(), "intervals": Int64(self.intervals)}
        about = {"id": Int64(self.id), "type": self.type, "created_ns": Int64(self.created_ns)}
        about["intervals"] = Int64(self.intervals)
        return dict(zip(fields_of(self.id), (about, self.directory.tobytes()), strict=True))

    def told(self) -> PayloadList:
        """The list as the interface tells of it."""
        return PayloadList(
            id=self.id,
            name=self.name,
            type=self.type,
            tag=self.tag,
            created_ns=self.created_ns,
            intervals=self.intervals,
        )

    def document(self) -> Document:
        """Its own document."""
        about = {"_id": padded(self.id), "type": self.type, "created_ns": Int64(self.created_ns), "tag": self.tag}
        own = self.fields() if self.tag is None else {}
        return {**about, "revision": Int64(1), **own}

    def in_tag(self, tag: Document | None) -> "StoredList":
        """The same list in another tag, or in none."""
        status = None if tag is None else TagStatus(tag["status"])
        return replace(self, tag=None if tag is None else tag["_id"], status=status)


def padded(id_: int) -> str:
    """An id as an `_id`: in the order of the numbers, and a string, which FerretDB looks up by its index."""
    return f"{id_:019d}"


def field(list_id: int) -> str:
    """Name of a list's fields in the document of its tag."""
    return f"l{list_id}"


def fields_of(list_id: int) -> tuple[str, str]:
    """Paths of what a list is, and of its directory, in the document of its tag."""
    return f"lists.{field(list_id)}", f"directories.{field(list_id)}"


def list_id_of(name: str) -> int | None:
    """The id in a list's name; None where it is no such name."""
    number = name.rpartition("_")[2]
    return int(number) if number.isdecimal() and number.isascii() and len(number) < 20 else None


def list_of(document: Document, tag: Document | None) -> StoredList | None:
    """A list by its own document and that of the tag it names; None if that tag does not have it (any more)."""
    id_ = int(document["_id"])
    common = {"id": id_, "type": document["type"], "created_ns": int(document["created_ns"])}
    common["own_revision"] = int(document["revision"])
    if document["tag"] is None:
        return StoredList(
            **common,
            tag=None,
            status=None,
            revision=int(document["revision"]),
            directory=directory_in(document.get("directory", b"")),
            intervals=int(document["intervals"]),
        )
    about = None if tag is None else tag["lists"].get(field(id_))
    if tag is None or about is None:
        return None
    return StoredList(
        **common,
        tag=tag["_id"],
        status=TagStatus(tag["status"]),
        revision=int(tag["revision"]),
        directory=directory_in(tag.get("directories", {}).get(field(id_), b"")),
        intervals=int(about["intervals"]),
    )


def lists_of(tag: Document) -> list[StoredList]:
    """All lists of a tag, by type."""
    found = [
        StoredList(
            id=int(about["id"]),
            type=about["type"],
            created_ns=int(about["created_ns"]),
            tag=tag["_id"],
            status=TagStatus(tag["status"]),
            revision=int(tag["revision"]),
            own_revision=0,
            directory=directory_in(tag.get("directories", {}).get(name, b"")),
            intervals=int(about["intervals"]),
        )
        for name, about in tag["lists"].items()
    ]
    return sorted(found, key=lambda each: each.type)


def directory_in(data: bytes) -> Array:
    """A directory; ENTRY (segments)."""
    return np.frombuffer(data, ENTRY)


def tag_document(
    id_: int, name: str, *, author: str, status: TagStatus, now_ns: int, lists: Sequence[StoredList] = ()
) -> Document:
    """The document of a new tag."""
    made: Document = {
        "_id": name,
        "id": Int64(id_),
        "author": author,
        "status": status.value,
        "revision": Int64(1),
        "created_ns": Int64(now_ns),
        "updated_ns": Int64(now_ns),
        "lists": {},
        "directories": {},
    }
    for each in lists:
        for path, value in each.fields().items():
            part, _, key = path.partition(".")
            made[part][key] = value
    return made


def tag_of(document: Document) -> GlobalTag:
    """A tag as the interface tells of it."""
    lists = document["lists"].values()
    return GlobalTag(
        id=int(document["id"]),
        name=document["_id"],
        author=document["author"],
        status=TagStatus(document["status"]),
        revision=int(document["revision"]),
        created_ns=int(document["created_ns"]),
        updated_ns=int(document["updated_ns"]),
        lists=len(lists),
        intervals=sum(int(each["intervals"]) for each in lists),
    )


def revision_of(document: Document) -> TagRevision:
    """A tag's revision."""
    return TagRevision(
        id=int(document["id"]),
        name=document["_id"],
        status=TagStatus(document["status"]),
        revision=int(document["revision"]),
        updated_ns=int(document["updated_ns"]),
    )


def type_of(document: Document) -> PayloadType:
    """A payload type."""
    return PayloadType(id=int(document["id"]), name=document["_id"], created_ns=int(document["created_ns"]))


def loose_document(interval: Interval) -> Document:
    """The document of an interval that no list has."""
    numbers = (*interval.start, *interval.end, interval.inserted_ns)
    names = ("major", "minor", "end_major", "end_minor", "inserted_ns")
    size = None if interval.size is None else Int64(interval.size)
    texts: dict[str, Any] = {"url": interval.url, "checksum": interval.checksum, "size": size}
    return {"_id": padded(interval.id), **texts, **dict(zip(names, map(Int64, numbers), strict=True))}


def loose_of(document: Document) -> Interval:
    """An interval that no list has."""
    return Interval(
        id=int(document["_id"]),
        url=document["url"],
        checksum=document["checksum"],
        size=None if document["size"] is None else int(document["size"]),
        start=Key(int(document["major"]), int(document["minor"])),
        end=Key(int(document["end_major"]), int(document["end_minor"])),
        list=None,
        inserted_ns=int(document["inserted_ns"]),
    )
