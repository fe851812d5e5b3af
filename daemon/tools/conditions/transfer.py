"""Import and export of the intervals of a global tag, in batches; doing it again changes nothing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from daemon.client.api.conditions import ConditionsApi
from daemon.core.outcome import CommandFailed
from daemon.tools.conditions.files import FileWriter
from schemas.conditions.intervals import Intervals
from schemas.readings import Array

BATCH = 10_000
"""Intervals of one request, and so of one transaction of the server."""

Progress = Callable[[str, int, int], None]
"""Called with the type that is under way, how many intervals are done, and how many there are."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import did: new intervals, and those that the tag had already."""

    new: int
    there: int


async def import_tag(api: ConditionsApi, tag: str, content: Mapping[str, Intervals], progress: Progress) -> Imported:
    """Attach intervals to a tag's lists; the tag, types and lists that are not there are made.

    An interval that the tag has already, with the same key, end, URL and checksum, is not attached again: an import
    that was cut short goes on where it stopped when it is repeated.

    Raises:
        DaemonGone: the server does not answer, or refuses, such as in a locked tag; the batches before it are stored.
    """
    known = set(await api.types())
    if tag not in {each.name for each in await api.tags()}:
        await api.add_tag(tag)
    done, new, total = 0, 0, sum(map(len, content.values()))
    for of_type, intervals in content.items():
        if of_type not in known:
            await api.add_type(of_type)
        name = await api.list_of(tag, of_type)
        missing = np.flatnonzero(~_is_in(intervals, await api.intervals(name)))
        for batch in _batches(missing):
            progress(of_type, done, total)
            await api.insert(name, taken(intervals, batch))
            new += len(batch)
        done += len(intervals)
    return Imported(new=new, there=total - new)


async def export_tag(api: ConditionsApi, tag: str, path: Path, ending: str, progress: Progress) -> int:
    """Write all intervals of a tag into a file, by type; return how many.

    Raises:
        CommandFailed: the tag changed meanwhile, so that the file would be of no moment.
        DaemonGone: the server does not answer, or there is no such tag.
        OSError: the file cannot be written.
    """
    before, count = await api.tag(tag), 0
    with closing(FileWriter(path, ending)) as writer:
        for of_type, name in sorted((await api.lists(tag)).items()):
            progress(of_type, count, before.payload_iov_count)
            intervals = await api.intervals(name)
            writer.write(of_type, intervals)
            count += len(intervals)
    if await api.tag(tag) != before:
        raise CommandFailed(f"{tag}: it was changed while it was read; no file was written: lock it, or try again")
    return count


def taken(intervals: Intervals, where: Array) -> Intervals:
    """Some of many intervals."""
    return replace(intervals, **{name: getattr(intervals, name)[where] for name in intervals.__dataclass_fields__})


def _is_in(intervals: Intervals, there: Intervals) -> Array:
    known = set(_rows(there))
    return np.fromiter((row in known for row in _rows(intervals)), bool, len(intervals))


def _rows(intervals: Intervals) -> Iterator[tuple[object, ...]]:
    columns = (intervals.starts.tolist(), intervals.ends.tolist(), intervals.urls, intervals.checksums)
    return zip(*columns, strict=True)


def _batches(where: Array) -> Iterator[Array]:
    for begin in range(0, len(where), BATCH):
        yield where[begin : begin + BATCH]
