"""Payload types, payload lists and global tags: what each call does within its transaction."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from backends.sql.conditions.locks import (
    changed,
    list_id,
    lock_lists,
    lock_tag,
    release_contents,
)
from backends.sql.conditions.reading import revision_of
from backends.sql.conditions.session import TAG_REVISION, ConditionsSession
from schemas.conditions.intervals import GlobalTag, PayloadList, PayloadType, TagRevision, TagStatus
from schemas.conditions.rules import (
    check_changes_list_of,
    check_name,
    check_not_frozen,
    check_removal,
    check_status_change,
    check_tag,
    exists,
    has_intervals,
    in_use,
    unknown,
)

# --- types ----------------------------------------------------------------------------------------------------


async def add_type(session: ConditionsSession, name: str) -> PayloadType:
    """Add a payload type."""
    check_name("payload_type", name)
    now_ns = time.time_ns()
    id_ = await session.insert("types", name=name, created_ns=now_ns)
    if id_ is None:
        raise exists("payload_type", name)
    return PayloadType(id=id_, name=name, created_ns=now_ns)


async def types(session: ConditionsSession) -> Sequence[PayloadType]:
    """All payload types."""
    found = await session.fetch(f"SELECT id, name, created_ns FROM {session.types} ORDER BY id")
    return [PayloadType(id=id_, name=name, created_ns=created_ns) for id_, name, created_ns in found]


async def remove_type(session: ConditionsSession, name: str) -> None:
    """Remove a payload type that no list is of."""
    id_ = await _type_id(session, name, "FOR UPDATE")
    found = await session.fetch(f"SELECT id FROM {session.lists} WHERE type = $1 ORDER BY id LIMIT 1", id_)
    if found:
        raise in_use("payload_type", name, f"payload list {name}_{found[0][0]}")
    await session.run(f"DELETE FROM {session.types} WHERE id = $1", id_)


async def _type_id(session: ConditionsSession, name: str, lock: str) -> int:
    found = await session.fetch(f"SELECT id FROM {session.types} WHERE name = $1 {lock}", name)
    if not found:
        raise unknown("payload_type", name)
    return int(found[0][0])


# --- lists ----------------------------------------------------------------------------------------------------


async def add_list(session: ConditionsSession, type_: str) -> PayloadList:
    """Add an empty list, in no tag."""
    of, now_ns = await _type_id(session, type_, session.for_share), time.time_ns()
    content = await session.insert("contents", intervals=0)
    id_ = await session.insert("lists", type=of, tag=None, content=content, created_ns=now_ns)
    assert id_ is not None
    return PayloadList(id=id_, name=f"{type_}_{id_}", type=type_, tag=None, created_ns=now_ns, intervals=0)


async def lists(session: ConditionsSession, where: str = "", *values: object) -> Sequence[PayloadList]:
    """All lists, or those that a condition on l (lists), y (types) and t (tags) finds."""
    found = await session.fetch(
        f"SELECT l.id, y.name, t.name, l.created_ns, c.intervals FROM {session.lists} l"
        f" JOIN {session.types} y ON y.id = l.type JOIN {session.contents} c ON c.id = l.content"
        f" LEFT JOIN {session.tags} t ON t.id = l.tag {where} ORDER BY l.id",
        *values,
    )
    return [
        PayloadList(id=id_, name=f"{type_}_{id_}", type=type_, tag=tag, created_ns=created_ns, intervals=intervals)
        for id_, type_, tag, created_ns, intervals in found
    ]


async def payload_list(session: ConditionsSession, name: str) -> PayloadList:
    """One list."""
    found = [each for each in await lists(session, "WHERE l.id = $1", list_id(name)) if each.name == name]
    if not found:
        raise unknown("payload_list", name)
    return found[0]


async def remove_list(session: ConditionsSession, name: str) -> None:
    """Remove an empty list."""
    locked = (await lock_lists(session, [name]))[name]
    check_not_frozen(locked.status)
    # Nobody attaches anything to it any more.
    found = await payload_list(session, name)
    if found.intervals:
        raise has_intervals(name, found.intervals)
    await session.run(f"DELETE FROM {session.lists} WHERE id = $1", locked.id)
    await release_contents(session, [locked.content])
    await changed(session, [locked.tag], time.time_ns())


async def attach_list(session: ConditionsSession, tag: str, name: str) -> PayloadList:
    """Give a list to a tag."""
    to, status = await lock_tag(session, tag)
    found = await payload_list(session, name)
    if found.tag not in (None, tag):
        raise in_use("payload_list", name, f"global tag {found.tag}")
    earlier = [each.name for each in await lists(session, "WHERE t.id = $1 AND y.name = $2", to, found.type)]
    check_changes_list_of(status, has_type=bool(earlier))
    if name in earlier:
        return found
    locked = await lock_lists(session, [name, *earlier])
    if locked[name].tag is not None:
        raise in_use("payload_list", name, "another global tag")
    for each in earlier:
        await session.run(f"UPDATE {session.lists} SET tag = NULL WHERE id = $1", locked[each].id)
    await session.run(f"UPDATE {session.lists} SET tag = $2 WHERE id = $1", locked[name].id, to)
    await changed(session, [to], time.time_ns())
    return replace(found, tag=tag)


# --- tags -----------------------------------------------------------------------------------------------------


async def add_tag(session: ConditionsSession, name: str, status: TagStatus, author: str) -> GlobalTag:
    """Add a tag without lists."""
    check_tag(name, author)
    now_ns = time.time_ns()
    id_ = await session.insert(
        "tags", name=name, author=author, status=str(status), revision=1, created_ns=now_ns, updated_ns=now_ns
    )
    if id_ is None:
        raise exists("global_tag", name)
    return GlobalTag(
        id=id_,
        name=name,
        author=author,
        status=status,
        revision=1,
        created_ns=now_ns,
        updated_ns=now_ns,
        lists=0,
        intervals=0,
    )


async def tags(session: ConditionsSession, where: str = "", *values: object) -> Sequence[GlobalTag]:
    """All tags, or those that a condition on t (tags) finds."""
    columns = ("id", "name", "author", "status", "revision", "created_ns", "updated_ns")
    found = await session.fetch(
        f"SELECT {', '.join(f't.{column}' for column in columns)}, COUNT(l.id), COALESCE(SUM(c.intervals), 0)"
        f" FROM {session.tags} t LEFT JOIN {session.lists} l ON l.tag = t.id"
        f" LEFT JOIN {session.contents} c ON c.id = l.content {where} GROUP BY t.id ORDER BY t.id",
        *values,
    )
    return [
        GlobalTag(
            **dict(zip((*columns, "lists", "intervals"), (*row[:-1], int(row[-1])), strict=True))
            | {"status": TagStatus(row[3])}
        )
        for row in found
    ]


async def tag(session: ConditionsSession, name: str) -> GlobalTag:
    """One tag."""
    found = await tags(session, "WHERE t.name = $1", name)
    if not found:
        raise unknown("global_tag", name)
    return found[0]


async def tag_lists(session: ConditionsSession, name: str) -> Mapping[str, str]:
    """Names of a tag's lists by type."""
    found = await session.fetch(
        f"SELECT y.name, l.id FROM {session.tags} t LEFT JOIN {session.lists} l ON l.tag = t.id"
        f" LEFT JOIN {session.types} y ON y.id = l.type WHERE t.name = $1",
        name,
    )
    if not found:
        raise unknown("global_tag", name)
    return {type_: f"{type_}_{id_}" for type_, id_ in sorted(row for row in map(tuple, found) if row[1] is not None)}


async def set_status(session: ConditionsSession, name: str, status: TagStatus) -> GlobalTag:
    """Change a tag's status."""
    id_, old = await lock_tag(session, name)
    check_status_change(old)
    if status is not old:
        await session.run(f"UPDATE {session.tags} SET status = $2 WHERE id = $1", id_, str(status))
        await changed(session, [id_], time.time_ns())
    return await tag(session, name)


async def clone_tag(session: ConditionsSession, source: str, name: str) -> GlobalTag:
    """Make an unlocked tag whose lists refer to the contents of another one's."""
    found = await session.fetch(f"SELECT id, author FROM {session.tags} WHERE name = $1 {session.for_share}", source)
    if not found:
        raise unknown("global_tag", source)
    ((source_id, author),) = found
    made = await add_tag(session, name, TagStatus.UNLOCKED, author)
    # No list of the source is locked: every change of what a tag has holds the tag.
    await session.run(
        f"INSERT INTO {session.lists} (type, tag, content, created_ns)"
        f" SELECT type, $2, content, $3 FROM {session.lists} WHERE tag = $1 ORDER BY id",
        *(source_id, made.id, made.created_ns),
    )
    return await tag(session, name)


async def remove_tag(session: ConditionsSession, name: str) -> None:
    """Remove a tag with its lists, and the contents that no other list has."""
    id_, status = await lock_tag(session, name)
    check_removal(status)
    contents = [row[0] for row in await session.fetch(f"SELECT content FROM {session.lists} WHERE tag = $1", id_)]
    await session.run(f"DELETE FROM {session.lists} WHERE tag = $1", id_)
    await session.run(f"DELETE FROM {session.tags} WHERE id = $1", id_)
    await release_contents(session, contents)


async def revisions(session: ConditionsSession) -> Sequence[TagRevision]:
    """Revision and status of every tag."""
    found = await session.fetch(f"SELECT t.name, {TAG_REVISION} FROM {session.tags} t ORDER BY t.id")
    return [revision_of(name, about) for name, *about in found]
