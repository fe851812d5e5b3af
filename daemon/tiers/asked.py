"""What our own readers have read of each partition, where the server does not count it.

Rows are known, or estimated, by the hour of their times (`backends.counting`). How many pages they were is estimated by
what the server says of the partition's rows and bytes. Nobody knows which pages were cached: what is read of a
partition beyond all of it, between two looks, is taken for cached.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from backends.base import Partition
from backends.counting import HOUR_NS, HourRead
from daemon.tiers.filling import PAGE
from daemon.tiers.heat import Label, Reads

FIRST = 2
"""So many pages are read where reading starts: InnoDB's are twice as large as those that heat counts."""


def reads_of(read: Iterable[HourRead], partitions: Mapping[str, Sequence[Partition]]) -> dict[Label, Reads]:
    """What was read of each partition; those that nothing was read of are left out."""
    by_time = {group: sorted(of, key=lambda each: each.start_ns) for group, of in partitions.items()}
    found: dict[Label, tuple[Partition, list[HourRead]]] = {}
    for each in read:
        for one in _partitions_of(each, by_time.get(each.group, ())):
            found.setdefault((each.group, one.name), (one, []))[1].append(each)
    return {label: _reads(one, hours) for label, (one, hours) in found.items()}


def _partitions_of(read: HourRead, by_time: Sequence[Partition]) -> Sequence[Partition]:
    """Those that were read; one that has no readings any more was not."""
    if read.hour is None:
        return [each for each in by_time if each.readings_bytes]
    time_ns = read.hour * HOUR_NS
    number = bisect_right(by_time, time_ns, key=lambda each: each.start_ns) - 1
    one = by_time[number] if number >= 0 else None
    return [one] if one is not None and time_ns < one.end_ns and one.readings_bytes else []


def _reads(of: Partition, hours: Sequence[HourRead]) -> Reads:
    pages = (of.readings_bytes or 0) / PAGE
    whole = sum(each.answers for each in hours if each.hour is None)
    rows = sum(each.rows for each in hours)
    # What was read of rows that were reduced is more than there is: nobody reads a page twice for one answer.
    answers = max((each.answers for each in hours if each.hour is not None), default=0)
    scanned = whole * pages + min(rows * pages / max(1, of.rows), answers * pages)
    starts = sum(each.starts for each in hours)
    asked = scanned + FIRST * starts
    return Reads(scanned=scanned, random=starts, missed=min(1.0, pages / asked) if asked else 1.0)
