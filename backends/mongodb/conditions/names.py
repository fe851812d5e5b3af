"""Payload types, payload lists and global tags: what each order does within its turn."""

import time
from dataclasses import replace

from bson import Int64

from backends.mongodb.conditions.documents import (
    NO_SEGMENTS,
    WITHOUT_DIRECTORIES,
    StoredList,
    fields_of,
    lists_of,
    padded,
    tag_document,
    tag_of,
    type_of,
)
from backends.mongodb.conditions.editing import Ids
from backends.mongodb.conditions.reading import read_list, read_tag
from backends.mongodb.conditions.segments import Document
from backends.mongodb.conditions.session import LISTS, TAGS, TYPES, Session
from backends.mongodb.conditions.turns import Change, Turn, deleted, edited, inserted
from schemas.conditions.intervals import GlobalTag, PayloadList, PayloadType, TagStatus
from schemas.conditions.rules import (
    check_changes_list_of,
    check_name,
    check_removal,
    check_status_change,
    check_tag,
    exists,
    has_intervals,
    in_use,
    unknown,
)

# --- types ------------------------------------------------------------------------------------------------------------


async def add_type(turn: Turn, ids: Ids, name: str) -> PayloadType:
    """Add a payload type."""
    check_name("payload_type", name)
    if await turn.session.one(TYPES, name) is not None:
        raise exists("payload_type", name)
    made = {"_id": name, "id": Int64(await ids.take(turn.session, "type")), "created_ns": Int64(time.time_ns())}
    await turn.commit([inserted(TYPES, made)])
    return type_of(made)


async def remove_type(turn: Turn, name: str) -> None:
    """Remove a payload type that no list is of."""
    await _see_type(turn.session, name)
    lists = await turn.session.all(LISTS, {"type": name}, {"type": 1}, most=1)
    if lists:
        raise in_use("payload_type", name, f"payload list {name}_{int(lists[0]['_id'])}")
    await turn.commit([deleted(TYPES, name)])


async def _see_type(session: Session, name: str) -> None:
    if await session.one(TYPES, name) is None:
        raise unknown("payload_type", name)


# --- lists ------------------------------------------------------------------------------------------------------------


async def add_list(turn: Turn, ids: Ids, type_: str) -> PayloadList:
    """Add an empty list, in no tag."""
    await _see_type(turn.session, type_)
    made = StoredList(
        id=await ids.take(turn.session, "list"),
        type=type_,
        created_ns=time.time_ns(),
        tag=None,
        status=None,
        revision=1,
        own_revision=1,
        directory=NO_SEGMENTS,
        intervals=0,
    )
    await turn.commit([inserted(LISTS, made.document())])
    return made.told()


async def remove_list(turn: Turn, name: str) -> None:
    """Remove an empty list that no tag has."""
    found = await read_list(turn.session, name)
    if found.tag is not None:
        raise in_use("payload_list", name, f"global tag {found.tag}")
    if found.intervals:
        raise has_intervals(name, found.intervals)
    await turn.commit([deleted(LISTS, padded(found.id))])


async def attach_list(turn: Turn, tag: str, name: str) -> PayloadList:
    """Give a list to a tag."""
    document, found = await read_tag(turn.session, tag), await read_list(turn.session, name)
    if found.tag not in (None, tag):
        raise in_use("payload_list", name, f"global tag {found.tag}")
    earlier = next((each for each in lists_of(document) if each.type == found.type), None)
    check_changes_list_of(TagStatus(document["status"]), has_type=earlier is not None)
    if found.tag == tag:
        return found.told()
    if earlier is not None:
        earlier = await read_list(turn.session, earlier.name)
    attached = found.in_tag(document)
    await turn.commit(_moves(document, attached, earlier))
    return attached.told()


def _moves(tag: Document, attached: StoredList, earlier: StoredList | None) -> list[Change]:
    """The changes that put a list into a tag, and take out the one of its type that was there."""
    own = edited(LISTS, padded(attached.id), attached.own_revision, {"tag": attached.tag}, ("directory", "intervals"))
    fields = {**attached.fields(), "updated_ns": Int64(time.time_ns())}
    if earlier is None:
        return [own, edited(TAGS, tag["_id"], int(tag["revision"]), fields)]
    out = {"tag": None, **earlier.in_tag(None).fields()}
    return [
        own,
        edited(LISTS, padded(earlier.id), earlier.own_revision, out),
        edited(TAGS, tag["_id"], int(tag["revision"]), fields, fields_of(earlier.id)),
    ]


# --- tags -------------------------------------------------------------------------------------------------------------


async def add_tag(turn: Turn, ids: Ids, name: str, status: TagStatus, author: str) -> GlobalTag:
    """Add a tag without lists."""
    check_tag(name, author)
    await _see_free_name(turn.session, name)
    id_ = await ids.take(turn.session, "tag")
    made = tag_document(id_, name, author=author, status=status, now_ns=time.time_ns())
    await turn.commit([inserted(TAGS, made)])
    return tag_of(made)


async def set_status(turn: Turn, tag: str, status: TagStatus) -> GlobalTag:
    """Change a tag's status."""
    found = await read_tag(turn.session, tag, WITHOUT_DIRECTORIES)
    check_status_change(TagStatus(found["status"]))
    if found["status"] != status.value:
        fields = {"status": status.value, "updated_ns": Int64(time.time_ns())}
        await turn.commit([edited(TAGS, tag, found["revision"], fields)])
        found = {**found, **fields, "revision": found["revision"] + 1}
    return tag_of(found)


async def clone_tag(turn: Turn, ids: Ids, source: str, name: str) -> GlobalTag:
    """Make an unlocked tag whose lists share their segments with those of another."""
    found = await read_tag(turn.session, source)
    check_tag(name, found["author"])
    await _see_free_name(turn.session, name)
    now_ns, shared = time.time_ns(), lists_of(found)
    await ids.reserve(turn.session, "list", len(shared))
    lists = [
        replace(each, id=ids.next("list"), created_ns=now_ns, tag=name, status=TagStatus.UNLOCKED, revision=1)
        for each in shared
    ]
    id_ = await ids.take(turn.session, "tag")
    made = tag_document(id_, name, author=found["author"], status=TagStatus.UNLOCKED, now_ns=now_ns, lists=lists)
    await turn.commit([inserted(TAGS, made), *(inserted(LISTS, each.document()) for each in lists)])
    return tag_of(made)


async def remove_tag(turn: Turn, name: str) -> None:
    """Remove a tag with its lists."""
    found = await read_tag(turn.session, name, WITHOUT_DIRECTORIES)
    check_removal(TagStatus(found["status"]))
    lists = [deleted(LISTS, padded(each.id)) for each in lists_of(found)]
    await turn.commit([deleted(TAGS, name), *lists])


async def _see_free_name(session: Session, name: str) -> None:
    if await session.one(TAGS, name, {"id": 1}) is not None:
        raise exists("global_tag", name)
