"""What a change locks: tags, then lists, then contents, each by id, so that no two wait for each other.

Every change of what a tag has holds the tag's row. A list in no tag is held by its own. A content is held by whoever
changes it or stops to refer to it, so that how many lists share it is known.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from backends.sql.conditions.session import ConditionsSession
from backends.sql.session import Rows, placeholders
from schemas.conditions.intervals import TagStatus
from schemas.conditions.rules import moved_meanwhile, unknown


@dataclass(kw_only=True)
class LockedList:
    """A list that nobody else changes. shared: so many other lists have its content."""

    id: int
    type: str
    tag: int | None
    status: TagStatus | None
    content: int
    shared: int
    created_ns: int

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.type}_{self.id}"


def list_id(name: str) -> int:
    """Id of a list, by its name TYPE_ID; one that no list has where it is no such name."""
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 19 else 0


async def lock_tag(session: ConditionsSession, name: str) -> tuple[int, TagStatus]:
    """Lock a tag by name; its id and status."""
    found = await session.fetch(f"SELECT id, status FROM {session.tags} WHERE name = $1 FOR UPDATE", name)
    if not found:
        raise unknown("global_tag", name)
    ((id_, status),) = found
    return id_, TagStatus(status)


async def lock_lists(session: ConditionsSession, names: Iterable[str]) -> Mapping[str, LockedList]:
    """Lock lists with their tags and contents.

    Raises:
        ConditionsRefused: there is no such list, or it was given to a tag, or taken from one, at the same moment.
    """
    found = await _named(session, names)
    tags = await _lock(session, session.tags, "id, status", {tag for _, tag in found.values() if tag is not None})
    statuses = {id_: TagStatus(status) for id_, status in tags}
    ids = [id_ for id_, _ in found.values()]
    rows = {row[0]: row for row in await _lock(session, session.lists, "id, tag, content, created_ns", ids)}
    shared = await lock_contents(session, [row[2] for row in rows.values()])
    locked: dict[str, LockedList] = {}
    for name, (id_, tag) in found.items():
        if id_ not in rows:
            raise unknown("payload_list", name)
        if rows[id_][1] != tag:
            raise moved_meanwhile("payload_list", name)
        _, _, content, created_ns = rows[id_]
        locked[name] = LockedList(
            id=id_,
            type=name.rpartition("_")[0],
            tag=tag,
            status=None if tag is None else statuses[tag],
            content=content,
            shared=shared[content] - 1,
            created_ns=created_ns,
        )
    return locked


async def _named(session: ConditionsSession, names: Iterable[str]) -> dict[str, tuple[int, int | None]]:
    """Id and tag of lists by their names, which nobody has locked."""
    ids = {name: list_id(name) for name in names}
    text = (
        f"SELECT l.id, y.name, l.tag FROM {session.lists} l JOIN {session.types} y ON y.id = l.type"
        f" WHERE l.id IN ({placeholders(len(ids))})"
    )
    there = (
        {f"{type_}_{id_}": (id_, tag) for id_, type_, tag in await session.fetch(text, *ids.values())} if ids else {}
    )
    for name in ids:
        if name not in there:
            raise unknown("payload_list", name)
    return {name: there[name] for name in ids}


async def lock_contents(session: ConditionsSession, contents: Collection[int]) -> dict[int, int]:
    """Lock contents; how many lists have each."""
    await _lock(session, session.contents, "id", contents)
    # A statement of its own: it sees what those did for whom the lock had to wait.
    text = f"SELECT content, COUNT(*) FROM {session.lists} WHERE content IN ({placeholders(len(contents))})"
    counted = await session.fetch(f"{text} GROUP BY content", *contents) if contents else ()
    return dict.fromkeys(contents, 0) | {content: lists for content, lists in counted}  # noqa: C416 - rows, not pairs


async def _lock(session: ConditionsSession, table: str, columns: str, ids: Collection[int]) -> Rows:
    if not ids:
        return ()
    text = f"SELECT {columns} FROM {table} WHERE id IN ({placeholders(len(ids))}) ORDER BY id FOR UPDATE"
    return await session.fetch(text, *sorted(ids))


async def own_content(session: ConditionsSession, locked: LockedList, among: Iterable[LockedList] = ()) -> None:
    """See that a list shares its content with no other: copy it where it does. among: other lists that are locked."""
    if not locked.shared:
        return
    shared = locked.content
    ((intervals,),) = await session.fetch(f"SELECT intervals FROM {session.contents} WHERE id = $1", shared)
    copy = await session.insert("contents", intervals=intervals)
    assert copy is not None
    await session.copy_content(shared, copy)
    await session.run(f"UPDATE {session.lists} SET content = $2 WHERE id = $1", locked.id, copy)
    locked.content, locked.shared = copy, 0
    for other in among:
        other.shared -= other.content == shared


async def release_contents(session: ConditionsSession, contents: Collection[int]) -> None:
    """Delete those contents that no list refers to any more."""
    for content, lists in (await lock_contents(session, sorted(set(contents)))).items():
        if not lists:
            await session.run(f"DELETE FROM {session.breakpoints} WHERE content = $1", content)
            await session.run(f"DELETE FROM {session.contents} WHERE id = $1", content)


async def changed(session: ConditionsSession, tags: Iterable[int | None], now_ns: int) -> None:
    """Let the revision of tags grow, which are locked."""
    for tag in sorted({tag for tag in tags if tag is not None}):
        text = f"UPDATE {session.tags} SET revision = revision + 1, updated_ns = $2 WHERE id = $1"
        await session.run(text, tag, now_ns)
