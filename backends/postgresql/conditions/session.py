"""One connection to conditions in PostgreSQL."""

from collections.abc import Sequence
from typing import ClassVar

from backends.postgresql.conditions.copying import copied_points
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.session import PostgresqlSession
from backends.sql.conditions.session import POINT, TAG_REVISION, ConditionsSession, ConditionsTables, Points
from backends.sql.session import Rows
from schemas.conditions.intervals import END, Key

IDS = "interval_ids"
"""The sequence of ids of intervals."""


class PostgresqlConditionsSession(PostgresqlSession, ConditionsSession):
    """A connection; see `PostgresqlSession`."""

    for_share: ClassVar[str] = "FOR SHARE"

    def __init__(self, connection: Connection, schema: str, timeout_s: float, tables: ConditionsTables) -> None:
        PostgresqlSession.__init__(self, connection, schema, timeout_s)
        ConditionsSession.__init__(self, tables)
        self._valid_at = _valid_at(self)

    async def take_ids(self, count: int) -> Sequence[int]:
        """Take ids of the sequence."""
        text = f"SELECT array_agg(nextval('{self.quoted(IDS)}')) FROM generate_series(1, $1)"
        ((ids,),) = await self.fetch(text, count)
        return list(ids)

    async def points(self, content: int) -> Points:
        """All breakpoints of a content."""
        async with self.in_time() as connection:
            return await copied_points(connection, self.breakpoints, content)

    async def ends(self, points: Sequence[tuple[int, Key]]) -> Sequence[Key]:
        """Where the breakpoints behind these are."""
        next_one = _after(self, "p.content", "(p.major, p.minor)")
        found = await self.fetch(
            "SELECT n.major, n.minor FROM unnest($1::int8[], $2::int8[], $3::int8[])"
            f" WITH ORDINALITY p(content, major, minor, number) LEFT JOIN LATERAL ({next_one}) n ON true"
            " ORDER BY p.number",
            *([content for content, _ in points], [key.major for _, key in points], [key.minor for _, key in points]),
        )
        return [END if major is None else Key(major, minor) for major, minor in found]

    async def valid_at(self, tag: str, key: Key) -> Rows:
        """What is valid at a key, by one prepared statement."""
        return await self.fetch(self._valid_at, tag, *key)

    def compare(self, sign: str, major: str, minor: str) -> str:
        """Compare keys as rows: one condition of the index."""
        return f"(major, minor) {sign} ({major}, {minor})"


def _last(session: ConditionsSession, content: str, key: str) -> str:
    """The last breakpoint at or before a key."""
    return (
        f"SELECT {', '.join(POINT)} FROM {session.breakpoints} WHERE content = {content} AND (major, minor) <= {key}"
        " ORDER BY major DESC, minor DESC LIMIT 1"
    )


def _after(session: ConditionsSession, content: str, key: str) -> str:
    """Where the first one behind a key is."""
    return (
        f"SELECT major, minor FROM {session.breakpoints} WHERE content = {content} AND (major, minor) > {key}"
        " ORDER BY major, minor LIMIT 1"
    )


def _valid_at(session: ConditionsSession) -> str:
    key = "($2::int8, $3::int8)"
    last, after = _last(session, "l.content", key), _after(session, "l.content", key)
    columns = ", ".join(f"b.{column}" for column in POINT)
    return (
        f"SELECT {TAG_REVISION}, l.id, y.name, {columns}, e.major, e.minor FROM {session.tags} t"
        f" LEFT JOIN {session.lists} l ON l.tag = t.id LEFT JOIN {session.types} y ON y.id = l.type"
        f" LEFT JOIN LATERAL ({last}) b ON true LEFT JOIN LATERAL ({after}) e ON true WHERE t.name = $1"
    )
