"""Questions about intervals, in SQL."""

from collections.abc import Sequence
from typing import Any

from backends.sql.conditions.session import LOOSE, PAYLOAD, REVISION, TAG_REVISION, ConditionsSession, points_of
from backends.sql.session import Rows
from schemas.conditions.intervals import END, Interval, Intervals, Key, TagRevision, TagStatus, ValidAt
from schemas.conditions.rules import no_list, unknown


async def interval(session: ConditionsSession, id_: int) -> Interval:
    """One interval."""
    found = await _found(session, "=", id_, 1)
    if not found:
        raise unknown("piov_id", id_)
    return found[0]


async def intervals(session: ConditionsSession, after_id: int, most: int) -> Sequence[Interval]:
    """Intervals with id > after_id, by id."""
    return await _found(session, ">", after_id, most)


async def interval_page(
    session: ConditionsSession, first: int, most: int, *, descending: bool
) -> tuple[int, Sequence[Interval]]:
    """How many intervals there are; and some of them, by id: their ids are counted off in the indexes alone."""
    in_lists = f"SELECT DISTINCT id FROM {session.breakpoints} WHERE id > 0"
    counted = f"SELECT (SELECT COUNT(*) FROM ({in_lists}) i) + (SELECT COUNT(*) FROM {session.loose})"
    ((count,),) = await session.fetch(counted)
    order = f"ORDER BY id {'DESC' if descending else 'ASC'} LIMIT"
    each = f"({in_lists} {order} {first + most}) UNION ALL (SELECT id FROM {session.loose} {order} {first + most})"
    ids = [row[0] for row in await session.fetch(f"SELECT id FROM ({each}) i {order} {most} OFFSET {first}")]
    found = await _found(session, ">=", min(ids), len(ids)) if ids else []
    return int(count), found[::-1] if descending else found


async def _found(session: ConditionsSession, sign: str, id_: int, most: int) -> list[Interval]:
    rows = await session.fetch(found_text(session, sign, most), id_)
    return await _with_ends(session, sorted(rows, key=lambda row: int(row[0]))[:most])


def found_text(session: ConditionsSession, sign: str, most: int) -> str:
    """Selects intervals whose id compares so with $1, in lists or not: at one moment, since one may be detached."""
    points, columns = session.breakpoints, ", ".join(f"x.{column}" for column in PAYLOAD)
    # As a constant: the plan has to be one for a few.
    few = f"WHERE id {sign} $1 ORDER BY id LIMIT {most}"
    # Lists of clones that share an interval have it under the same id; the one with the smallest id is named.
    held = (
        f"SELECT i.id, MIN(l.id) AS list FROM (SELECT DISTINCT id FROM {points} {few}) i"
        f" JOIN {points} x ON x.id = i.id JOIN {session.lists} l ON l.content = x.content GROUP BY i.id"
    )
    # The sum keeps a planner that has no statistics from reading all of a content.
    in_lists = (
        f"SELECT {columns}, x.major, x.minor, NULL, NULL, x.content, l.id, y.name FROM ({held}) h"
        f" JOIN {session.lists} l ON l.id = h.list JOIN {session.types} y ON y.id = l.type"
        f" JOIN {points} x ON x.id = h.id AND x.content + 0 = l.content"
    )
    loose = f"SELECT {', '.join(LOOSE)}, NULL, NULL, NULL FROM {session.loose} {few}"
    return f"({in_lists}) UNION ALL ({loose})"


async def _with_ends(session: ConditionsSession, rows: Rows) -> list[Interval]:
    in_lists = [row for row in rows if row[-1] is not None]
    ends = iter(await session.ends([(row[9], Key(row[5], row[6])) for row in in_lists]) if in_lists else ())
    made = []
    for *stored, end_major, end_minor, _, list_, type_ in rows:
        end = Key(end_major, end_minor) if type_ is None else next(ends)
        made.append(made_of(stored[:5], stored[5:], end, None if type_ is None else f"{type_}_{list_}"))
    return made


def made_of(payload: Sequence[Any], start: Sequence[int], end: Key, name: str | None) -> Interval:
    """An interval; payload has the columns PAYLOAD."""
    id_, url, checksum, size, inserted_ns = payload
    return Interval(
        id=id_,
        url=url,
        checksum=checksum,
        size=size,
        start=Key(*start),
        end=end,
        list=name,
        inserted_ns=inserted_ns,
    )


async def valid_at(session: ConditionsSession, tag: str, key: Key) -> tuple[TagRevision, Sequence[ValidAt]]:
    """What is valid at a key."""
    rows = await session.valid_at(tag, key)
    if not rows:
        raise unknown("global_tag", tag)
    about = len(REVISION)
    found = [] if key == END else [_valid(row[about:]) for row in rows if row[about + 4] is not None]
    return revision_of(tag, rows[0][:about]), sorted(found, key=lambda each: each.type)


async def between(
    session: ConditionsSession, tag: str, type_: str, first: Key, last: Key
) -> tuple[TagRevision, Intervals]:
    """Intervals of one type of a tag that hold a key from `first` to `last`."""
    found = await session.fetch(
        f"SELECT {TAG_REVISION}, l.content FROM {session.tags} t LEFT JOIN {session.lists} l ON l.tag = t.id"
        f" AND l.type = (SELECT id FROM {session.types} WHERE name = $2) WHERE t.name = $1",
        *(tag, type_),
    )
    if not found:
        raise unknown("global_tag", tag)
    *about, content = found[0]
    if content is None:
        raise no_list(tag, type_)
    rows = [row for row in await session.around(content, first, last) if Key(row[0], row[1]) <= last]
    (end,) = await session.ends([(content, Key(*rows[-1][:2]))]) if rows else (END,)
    return revision_of(tag, about), points_of(rows).intervals(end).between(first, last)


def revision_of(name: str, about: Sequence[Any]) -> TagRevision:
    """A tag's revision; about: the columns REVISION."""
    id_, status, revision, updated_ns = about
    return TagRevision(id=id_, name=name, status=TagStatus(status), revision=revision, updated_ns=updated_ns)


def _valid(row: Sequence[Any]) -> ValidAt:
    list_, type_, major, minor, *payload, end_major, end_minor = row
    end = END if end_major is None else Key(end_major, end_minor)
    return ValidAt(type=type_, interval=made_of(payload, (major, minor), end, f"{type_}_{list_}"))
