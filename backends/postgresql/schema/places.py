"""The tablespaces of tiers: whether they are there, and may be used."""

from collections.abc import Sequence

import asyncpg

from backends.base import PlaceRefused
from backends.postgresql.protocol.sql import quoted

FOUND = """
    SELECT name, t.oid IS NOT NULL AS is_there, t.oid = d.dattablespace AS is_own,
           has_tablespace_privilege(t.oid, 'CREATE') AS may_create, current_user AS login
    FROM unnest($1::text[]) AS name LEFT JOIN pg_tablespace t ON t.spcname = name
    JOIN pg_database d ON d.datname = current_database()
"""


async def check_places(connection: asyncpg.Connection, places: Sequence[str | None], target: str) -> None:
    """See that tables can be made in tablespaces; None is the database's own.

    Raises:
        PlaceRefused: one is not there, or the login may not create in it.
    """
    named = [place for place in places if place is not None]
    for row in await connection.fetch(FOUND, named) if named else []:
        problem = _problem(row, target)
        if problem is not None:
            raise PlaceRefused(row["name"], problem)


def _problem(row: asyncpg.Record, target: str) -> str | None:
    name, tablespace = row["name"], quoted(row["name"])
    if not row["is_there"]:
        fix = f"let an administrator run `CREATE TABLESPACE {tablespace} LOCATION '/a/folder/of/the/server'`"
        return f"{target} has no tablespace {name!r}; {fix}, or name another"
    if row["is_own"]:
        return f"{name!r} is the database's own tablespace in {target}; leave `tablespace` out for it"
    if not row["may_create"]:
        fix = f"let an administrator run `GRANT CREATE ON TABLESPACE {tablespace} TO {quoted(row['login'])}`"
        return f"{target}: user {row['login']!r} may not create in tablespace {name!r}; {fix}"
    return None
