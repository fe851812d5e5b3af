"""Where tables and their partitions lie (DATA DIRECTORY), and whether the directories of tiers can be used.

The server tells nobody but in the text that makes a table; information_schema has it for some versions and rights.
"""

import re
from collections.abc import Sequence

from pymysql.err import MySQLError

from backends.base import PlaceRefused, StoreUnavailable
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.server.errors import NO_RIGHT, number_of, one_line
from backends.mysql.server.locks import release, take
from backends.sql.connection import LockNotGranted

PROBE = "tiers$probe"
"""A table that is made in a directory, and dropped, to see whether that can be done."""
LOCK_TIMEOUT_S = 10
RIGHTS = "CREATE, ALTER, DROP, LOCK TABLES"
"""What moving needs on the database; and PROCESS on the server, to see who has an old snapshot."""

_PARTITIONED = re.compile(r"\s+(?:/\*!\d+ )?PARTITION BY ")
_PARTITION = re.compile(
    r"PARTITION `?([^`\s]+)`? VALUES LESS THAN (?:\([^)]*\)|MAXVALUE)(?: DATA DIRECTORY = '((?:[^']|'')*)')?"
)
_DIRECTORY = re.compile(r" DATA DIRECTORY='((?:[^']|'')*)'")


async def definition_of(connection: Connection, schema: str, table: str) -> str:
    """The text that makes a table as it is now."""
    ((_, text),) = await connection.fetch(f"SHOW CREATE TABLE {quoted(schema, table)}")
    return str(text)


def places_of(definition: str) -> dict[str, str | None]:
    """Where each partition of a table lies, in the order of their ranges; None is the server's own folder."""
    return {name: _as_named(directory) for name, directory in _PARTITION.findall(definition)}


def place_of(definition: str) -> str | None:
    """Where a table without partitions lies."""
    found = _DIRECTORY.search(definition)
    return _as_named(found[1]) if found else None


def beside(definition: str, table: str, place: str | None) -> str:
    """The statement that makes an empty table for one partition of another. table: its name, quoted."""
    body = _DIRECTORY.sub("", _PARTITIONED.split(definition, maxsplit=1)[0])
    directory = "" if place is None else f" DATA DIRECTORY={literal(place)}"
    return f"CREATE TABLE {table} {body[body.index('(') :]}{directory}"


def _as_named(directory: str) -> str | None:
    """A directory as the configuration has it: servers add a slash."""
    return directory.replace("''", "'").rstrip("/") or None


async def check_places(connection: Connection, schema: str, places: Sequence[str | None], target: str) -> None:
    """See that tables can be made in directories; None is the server's own folder.

    Raises:
        PlaceRefused: one cannot be used, or a right is lacking.
    """
    named = [place for place in places if place is not None]
    there = f"SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {literal(schema)}"
    # Without the database there is nothing yet that a table could be made in.
    if not named or not await connection.fetch(there):
        return
    lock = f"probing {schema}"
    try:
        await take(connection, lock, LOCK_TIMEOUT_S)
    except LockNotGranted:
        raise StoreUnavailable(f"another daemon is looking at the tiers of schema {schema!r}") from None
    for place in named:
        try:
            lies = await _probed(connection, schema, place)
        except MySQLError as error:
            if number_of(error) == 0 or connection.closed:
                raise
            raise PlaceRefused(place, _refused(error, schema, place, target)) from error
        if lies != place:
            raise PlaceRefused(place, _elsewhere(place, lies, target))
    await release(connection, lock)


async def _probed(connection: Connection, schema: str, place: str) -> str | None:
    """Do what a move needs to be allowed to, and say where a table lies that was made in a directory."""
    probe = quoted(schema, PROBE)
    await connection.run(f"DROP TABLE IF EXISTS {probe}")
    await connection.run(f"CREATE TABLE {probe} (id INT PRIMARY KEY) ENGINE=InnoDB DATA DIRECTORY={literal(place)}")
    try:
        lies = place_of(await definition_of(connection, schema, PROBE))
        await connection.run(f"LOCK TABLES {probe} WRITE")
        await connection.run("UNLOCK TABLES")
        await connection.fetch("SELECT COUNT(*) FROM information_schema.INNODB_TRX")
    finally:
        if not connection.closed:
            await connection.run(f"DROP TABLE IF EXISTS {probe}")
    return lies


def _refused(error: MySQLError, schema: str, place: str, target: str) -> str:
    if number_of(error) in NO_RIGHT:
        rights = f"`GRANT {RIGHTS} ON {quoted(schema)}.* TO` it, and `GRANT PROCESS ON *.* TO` it"
        return (
            f"{target}: the login lacks a right to move readings ({one_line(error)}); let an administrator run {rights}"
        )
    fix = (
        "make the folder on the server's node, owned by the server's account, and name it in `innodb_directories` of a"
        " MySQL"
    )
    return f"{target} cannot make a table in {place!r} ({one_line(error)}); {fix}"


def _elsewhere(place: str, lies: str | None, target: str) -> str:
    if lies is None:
        fix = "set `symbolic-links` and `innodb_file_per_table` there to ON"
        return f"{target} ignores DATA DIRECTORY, so that nothing can lie in {place!r}; {fix}"
    return f"{target} calls {place!r} {lies!r}; name it so"
