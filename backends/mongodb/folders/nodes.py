"""Documents of folder sets and folders (`_id` is the path), and of the channels of folders (`_id` is the token)."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from uuid import uuid4

import numpy as np
from bson import Int64

from backends.mongodb.conditions.segments import SEPARATOR, Document
from schemas.batch import JournalPosition
from schemas.folders.folders import Column, Folder, FolderKind, FolderLayout, FolderSet, FolderTag, NewFolder
from schemas.readings import Array

TURN, NODES, CHANNELS = "FoldersTurn", "FoldersNodes", "FoldersChannels"
ROWS = "FoldersIntervals_"
"""The collection of a folder's intervals is called so, and its token."""
POSITION_NUMBERS = ("sequence", "journal", "triggers", "readings")
SET = "set"
"""`kind` of a set; else it is a `FolderKind`."""


def set_document(path: str, description: str) -> Document:
    """A new set."""
    return {
        "_id": path,
        "kind": SET,
        "description": description,
        "created_ns": Int64(time.time_ns()),
        "revision": Int64(1),
    }


def set_of(document: Document) -> FolderSet:
    """A set."""
    return FolderSet(path=document["_id"], description=document["description"], created_ns=int(document["created_ns"]))


def folder_document(new: NewFolder) -> Document:
    """A new folder."""
    return {
        "_id": new.path,
        "kind": new.kind.value,
        "token": uuid4().hex[:16],
        "layout": new.layout.value,
        "columns": json.dumps([asdict(column) for column in new.columns]),
        "description": new.description,
        "created_ns": Int64(time.time_ns()),
        "revision": Int64(1),
        "version": Int64(0),
        **{name: Int64(0) for name in ("given", "written")},
        "void": [],
        "lengths": [],
        "positions": [],
        "tags": [],
    }


def folder_of(document: Document) -> Folder:
    """A folder."""
    return Folder(
        path=document["_id"],
        kind=FolderKind(document["kind"]),
        layout=FolderLayout(document["layout"]),
        columns=tuple(Column(**column) for column in json.loads(document["columns"])),
        description=document["description"],
        version=int(document["version"]),
        created_ns=int(document["created_ns"]),
    )


def channels_fields(channels: Mapping[int, str]) -> Document:
    """Numbers and names, in the order of the numbers."""
    numbers = sorted(channels)
    return {
        "numbers": np.array(numbers, "<i4").tobytes(),
        "names": SEPARATOR.join(channels[number] for number in numbers).encode(),
    }


def channels_of(document: Document) -> Mapping[int, str]:
    """Names by number, in their order."""
    numbers = numbers_of(document).tolist()
    return dict(zip(numbers, bytes(document["names"]).decode().split(SEPARATOR) if numbers else [], strict=True))


def numbers_of(document: Document) -> Array:
    """Numbers of channels, int32, sorted."""
    return np.frombuffer(document["numbers"], "<i4")


def lengths_of(document: Document) -> dict[int, int]:
    """The longest interval of each class of lengths."""
    return {int(each["length_class"]): int(each["longest"]) for each in document["lengths"]}


def lengths_field(lengths: Mapping[int, int]) -> list[Document]:
    """The same as the document has it."""
    return [{"length_class": each, "longest": Int64(longest)} for each, longest in lengths.items()]


def position_in(document: Document, source: str) -> JournalPosition | None:
    """Which insertion of a source was the last."""
    for each in document["positions"]:
        if each["source"] == source:
            numbers = {name: int(each[name]) for name in POSITION_NUMBERS}
            return JournalPosition(**numbers, state=bytes(each["state"]))
    return None


def positions_field(document: Document, source: str, to: JournalPosition) -> list[Document]:
    """Positions of all sources, with one at another place."""
    others = [each for each in document["positions"] if each["source"] != source]
    numbers = {name: Int64(getattr(to, name)) for name in POSITION_NUMBERS}
    return [*others, {"source": source, **numbers, "state": to.state}]


def tags_of(document: Document) -> Sequence[FolderTag]:
    """Tags of a folder, by name."""
    found = [
        FolderTag(
            path=document["_id"],
            name=each["name"],
            version=int(each["version"]),
            created_ns=int(each["created_ns"]),
        )
        for each in document["tags"]
    ]
    return sorted(found, key=lambda each: each.name)


def tag_field(tag: FolderTag, written: int) -> Document:
    """A tag as the document has it. written: the number of the newest insertion that it shows."""
    numbers = {"version": tag.version, "created_ns": tag.created_ns, "written": written}
    return {"name": tag.name, **{name: Int64(number) for name, number in numbers.items()}}
