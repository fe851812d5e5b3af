"""What is valid at a key, asked so that MariaDB's optimizer needs a few steps in the primary key for each list.

It makes a range of an index of constants alone, and not of a comparison of rows, nor of columns of another table: a
subquery for each list would read all of the list. But the greatest or least value of the column that follows in the
index, for each value of those before it, it finds in one step ("Using index for group-by"). So that is what is asked,
for all lists at once: whether a list has a breakpoint with the same major, and else which other major is next.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from backends.sql.conditions.session import POINT, TAG_REVISION, ConditionsSession
from backends.sql.session import Rows
from schemas.conditions.intervals import Key

HERE, BEFORE, AFTER, BEYOND = range(4)
"""The last breakpoint with the same major up to the key, and of a lesser one; the first behind it, and of a greater."""


async def valid_at(session: ConditionsSession, tag: str, key: Key) -> Rows:
    """Rows as of `ConditionsSession.valid_at`, in a transaction that sees one moment."""
    lists = await session.fetch(
        f"SELECT {TAG_REVISION}, l.id, y.name, l.content FROM {session.tags} t"
        f" LEFT JOIN {session.lists} l ON l.tag = t.id LEFT JOIN {session.types} y ON y.id = l.type WHERE t.name = $1",
        tag,
    )
    contents = sorted({row[-1] for row in lists if row[-1] is not None})
    found = (
        {(row[0], row[1]): row[2:] for row in await session.fetch(statement(session, contents, key))}
        if contents
        else {}
    )
    return [(*row[:-1], *_of(found, row[-1])) for row in lists]


def _of(found: Mapping[tuple[int, int], Sequence[Any]], content: int) -> Sequence[Any]:
    nothing = (None,) * len(POINT)
    last = found.get((HERE, content)) or found.get((BEFORE, content)) or nothing
    after = found.get((AFTER, content)) or found.get((BEYOND, content)) or nothing
    return (*last, *after[:2])


def statement(session: ConditionsSession, contents: Sequence[int], key: Key) -> str:
    """One statement for all contents; rows of which one it is, the content, and the columns POINT."""
    major, minor = key
    columns = ", ".join(f"b.{column}" for column in POINT)
    nothing = ", ".join(["NULL"] * (len(POINT) - 2))
    join = f"STRAIGHT_JOIN {session.breakpoints} b ON b.content = a.content"
    here = _grouped(session, contents, "MAX(minor) AS minor", f"major = {major} AND minor <= {minor}")
    before = _grouped(session, contents, "MAX(major) AS major", f"major < {major}")
    after = _grouped(session, contents, "MIN(minor) AS minor", f"major = {major} AND minor > {minor}")
    beyond = _grouped(session, contents, "MIN(major) AS major", f"major > {major}")
    is_last = f"b.major = a.major AND b.minor = ({_minor(session, 'DESC')})"
    parts = (
        f"SELECT {HERE}, b.content, {columns} FROM ({here}) a {join} AND b.major = {major} AND b.minor = a.minor",
        f"SELECT {BEFORE}, b.content, {columns} FROM ({before}) a {join} AND {is_last}",
        f"SELECT {AFTER}, a.content, {major}, a.minor, {nothing} FROM ({after}) a",
        f"SELECT {BEYOND}, a.content, a.major, ({_minor(session, 'ASC')}), {nothing} FROM ({beyond}) a",
    )
    return " UNION ALL ".join(f"({part})" for part in parts)


def _grouped(session: ConditionsSession, contents: Sequence[int], wanted: str, where: str) -> str:
    return (
        f"SELECT content, {wanted} FROM {session.breakpoints} FORCE INDEX (PRIMARY)"
        f" WHERE content IN ({', '.join(map(str, contents))}) AND {where} GROUP BY content"
    )


def _minor(session: ConditionsSession, order: str) -> str:
    """The last or first minor of a major: one step from the end of what the index has of it."""
    return (
        f"SELECT x.minor FROM {session.breakpoints} x WHERE x.content = a.content AND x.major = a.major"
        f" ORDER BY x.minor {order} LIMIT 1"
    )
