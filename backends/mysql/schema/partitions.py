"""Partitions of a table by RANGE (time_ns): what is there, and how one is cut out of what is there.

Ranges follow each other without a gap. `first` has all before, `rest` all after, `p20261121` a stretch, and
`before_20261121` what lies between that one and the one before it, where the daemon was away for longer. A new one is
cut out of the range that has it, which copies only what is in there; the ranges made ahead are empty.

The server tells where tables and their partitions lie (DATA DIRECTORY) in the text that makes a table alone;
information_schema has it for some versions and rights.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pymysql.err import MySQLError

from backends.base import PlaceRefused, StoreUnavailable
from backends.columns.partitions import Partition, part_of
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.server.driver import release, take
from backends.mysql.server.errors import NO_RIGHT, number_of, one_line
from backends.sql.connection import LockNotGranted

FIRST, REST = "first", "rest"
LEAST, MOST = -(2**63), 2**63
"""Ends of time: MOST is MAXVALUE."""

MOVED_AT_MOST = 100_000
"""So many rows at most are copied to cut a partition out of what holds them; more stay where they are."""


class Range(NamedTuple):
    """A partition that is there: start_ns <= time_ns < end_ns."""

    name: str
    start_ns: int
    end_ns: int


def listing(schema: str, table: str) -> str:
    """The question for a table's partitions: name and upper bound, ascending; as text for `ranges_of`."""
    return (
        "SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS"
        f" WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}' AND PARTITION_NAME IS NOT NULL"
        " ORDER BY PARTITION_ORDINAL_POSITION"
    )


def ranges_of(rows: Sequence[tuple[str, str]]) -> list[Range]:
    """Read the answer."""
    ranges: list[Range] = []
    for name, bound in rows:
        end = MOST if bound == "MAXVALUE" else int(bound)
        ranges.append(Range(name, ranges[-1].end_ns if ranges else LEAST, end))
    return ranges


def name_of(partition: Partition) -> str:
    """Name of the range of a partition."""
    return range_name(partition.label)


def range_name(period: str) -> str:
    """Name of the range of a period: a stretch of time is called by that alone elsewhere."""
    return f"p{period}" if period.isdigit() else period


def period_name(range_: str) -> str:
    """What the period of a range is called elsewhere."""
    return range_[1:] if range_[1:].isdigit() else range_


def parts_to_cut(ranges: Sequence[Range], partition: Partition) -> list[Partition]:
    """The partition, or what of it can be cut out of each range that takes what fits no other.

    Another `partition` in the configuration leaves stretches of another length, which stay.
    """
    open_ = (of for of in ranges if of.start_ns < partition.end_ns and partition.start_ns < of.end_ns)
    return [part_of(partition, of.start_ns, of.end_ns) for of in open_ if _may_be_cut(of.name)]


def cut(ranges: Sequence[Range], partition: Partition) -> tuple[Range, list[Range]]:
    """Return the range to cut, one that takes what fits no other, and its new parts."""
    number = next(k for k, of in enumerate(ranges) if of.start_ns <= partition.start_ns < of.end_ns)
    of = ranges[number]
    parts = [Range(name_of(partition), partition.start_ns, partition.end_ns)]
    if of.start_ns < partition.start_ns:
        before = FIRST if of.name == FIRST else f"before_{partition.label}"
        parts.insert(0, Range(before, of.start_ns, partition.start_ns))
    if partition.end_ns < of.end_ns:
        after = of.name if of.name != FIRST else _before(ranges[number + 1 :])
        parts.append(Range(after, partition.end_ns, of.end_ns))
    return of, parts


def _may_be_cut(name: str) -> bool:
    return name in (FIRST, REST) or name.startswith("before_")


def _before(following: Sequence[Range]) -> str:
    following_name = following[0].name if following else REST
    return f"before_{following_name.removeprefix('p')}"


def initial(partitions: Sequence[Partition]) -> list[Range]:
    """The ranges of a new table with these partitions, which are ascending."""
    ranges = [Range(FIRST, LEAST, partitions[0].start_ns)]
    for partition in partitions:
        if partition.start_ns > ranges[-1].end_ns:
            ranges.append(Range(f"before_{partition.label}", ranges[-1].end_ns, partition.start_ns))
        ranges.append(Range(name_of(partition), partition.start_ns, partition.end_ns))
    return [*ranges, Range(REST, ranges[-1].end_ns, MOST)]


def definitions(ranges: Sequence[Range]) -> str:
    """Write ranges as a list of definitions."""
    return ", ".join(
        f"PARTITION {quoted(of.name)} VALUES LESS THAN {'MAXVALUE' if of.end_ns == MOST else f'({of.end_ns})'}"
        for of in ranges
    )


def partition_by(ranges: Sequence[Range]) -> str:
    """The clause of CREATE TABLE."""
    return f"PARTITION BY RANGE (time_ns) ({definitions(ranges)})"


def reorganize(schema: str, table: str, of: Range, parts: Sequence[Range]) -> str:
    """The statement that cuts a range."""
    return f"ALTER TABLE {quoted(schema, table)} REORGANIZE PARTITION {quoted(of.name)} INTO ({definitions(parts)})"


def how_full(schema: str, table: str, of: Range) -> str:
    """The question how many rows a range has, counted up to one more than may be moved."""
    rows = f"SELECT 1 FROM {quoted(schema, table)} PARTITION ({quoted(of.name)}) LIMIT {MOVED_AT_MOST + 1}"
    return f"SELECT COUNT(*) FROM ({rows}) AS counted"


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
