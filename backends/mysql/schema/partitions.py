"""Partitions of a table by RANGE (time_ns): what is there, and how one is cut out of what is there.

Ranges follow each other without a gap. `first` has all before, `rest` all after, `p20261121` a stretch, and
`before_20261121` what lies between that one and the one before it, where the daemon was away for longer. A new one is
cut out of the range that has it, which copies only what is in there; the ranges made ahead are empty.
"""

from collections.abc import Sequence
from typing import NamedTuple

from backends.columns.partitions import Partition, part_of
from backends.mysql.protocol.sql import quoted

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
