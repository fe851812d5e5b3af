"""Import and export of the intervals of a global tag: files with a row an interval, JSON lines or Parquet."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from daemon.calibration.parquet import TableRefused, read_columns, read_lines
from daemon.client.api.conditions import ConditionsApi
from daemon.core.outcome import CommandFailed, fix_of, read_at_most, reason_of
from schemas.checking.problems import listed, printable
from schemas.conditions.intervals import END, KEY_DTYPE, LARGEST, Intervals
from schemas.readings import Array

SCHEMA = pa.schema(
    [
        pa.field("type", pa.string(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("checksum", pa.string()),
        pa.field("size", pa.int64()),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("major", "minor")),
        *(pa.field(name, pa.int64()) for name in ("major_end", "minor_end")),
    ]
)
"""The columns of a file. `checksum` and `size` may be null; without an end an interval ends where the next begins."""

HALVES = ("major", "minor")
ENDINGS = (".jsonl", ".parquet")
MOST_BYTES, MOST_ROWS = 512 * 2**20, 10_000_000
"""Of a file that is read, and of its columns when decoded."""


def checked_ending(path: Path, option: str) -> str:
    """The ending of a file, which says its format.

    Raises:
        CommandFailed: it is none of ENDINGS.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise CommandFailed(f"{option}: {path.name} does not say the format; end it with {listed(ENDINGS)}")
    return ending


def read_file(path: Path) -> dict[str, Intervals]:
    """Read intervals by type, in the order of their starts.

    Raises:
        CommandFailed: the file cannot be read, or is wrong; the message names the row or interval, and the fix.
    """
    columns = _columns(_table(path), path)
    types = columns["type"].dictionary_encode()
    keys = [columns[name].to_numpy() for name in ("minor", "major")]
    codes = types.indices.to_numpy()
    order = np.lexsort((*keys, codes))
    parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
    names = types.dictionary.to_pylist()
    where = {names[codes[part[0]]]: pa.array(part) for part in parts}
    return {
        name: _intervals({field: column.take(where[name]) for field, column in columns.items()}, name, path)
        for name in sorted(where)
    }


class FileWriter:
    """Writes a file, a type at a time."""

    def __init__(self, path: Path, ending: str) -> None:
        self._parquet = pq.ParquetWriter(path, SCHEMA, compression="zstd") if ending == ".parquet" else None
        self._lines = None if self._parquet else path.open("wb")

    def write(self, of_type: str, intervals: Intervals) -> None:
        """Add the intervals of a type.

        Raises:
            OSError: the disk is full.
        """
        table = _table_of(of_type, intervals)
        if self._parquet is not None:
            self._parquet.write_table(table)
        if self._lines is not None:
            self._lines.writelines(_json_lines(table))

    def close(self) -> None:
        """Write the end, and close the file."""
        for file in filter(None, (self._parquet, self._lines)):
            file.close()


def _table(path: Path) -> pa.Table:
    try:
        content = read_at_most(path, MOST_BYTES)
        if path.suffix.lower() == ".parquet":
            return read_columns(content, SCHEMA.names, most_rows=MOST_ROWS, most_bytes=MOST_BYTES)
        # What may be null is seen to below, with the row.
        return read_lines(content, SCHEMA, most_bytes=MOST_BYTES)
    except OSError as error:
        fix = fix_of(error, "name a file that is there")
        raise CommandFailed(f"FILE: {path} cannot be read ({reason_of(error)}); {fix}") from None
    except TableRefused as refused:
        raise _wrong(path, refused.field, refused.problem, refused.fix) from None


def _columns(table: pa.Table, path: Path) -> dict[str, pa.Array]:
    """The columns of SCHEMA.

    Raises:
        CommandFailed: one lacks, or has values that it may not have.
    """
    return {field.name: _column(table, field, path) for field in SCHEMA}


def _column(table: pa.Table, field: pa.Field, path: Path) -> pa.Array:
    """A column with "" and -1 for null."""
    null = "" if pa.types.is_string(field.type) else -1
    if field.name not in table.column_names:
        if not field.nullable:
            raise _wrong(path, field.name, "there is no such column", f"give the columns {listed(SCHEMA.names)}")
        return pa.repeat(pa.scalar(null, field.type), len(table))
    try:
        values = table[field.name].cast(field.type)
    except pa.ArrowException:
        kind = table[field.name].type
        raise _wrong(path, field.name, f"it holds {kind}", f"give values that fit {field.type}") from None
    if not field.nullable and values.null_count:
        row = pc.index(pc.is_null(values), True).as_py() + 1
        raise _wrong(path, f"{field.name} of row {row}", "missing", "give it in every row")
    if null == -1 and (pc.min(values).as_py() or 0) < 0:
        row = pc.index(pc.less(values, 0), True).as_py() + 1
        raise _wrong(path, f"{field.name} of row {row}", "it is below 0", f"give 0 to {LARGEST}")
    return values.fill_null(null).combine_chunks()


def _intervals(columns: Mapping[str, pa.Array], name: str, path: Path) -> Intervals:
    """The intervals of one type, sorted by their starts.

    Raises:
        CommandFailed: one ends before it begins, or has the start of another one, or holds it.
    """
    starts, ends = _keys(columns, ""), _keys(columns, "_end")
    half = (ends["major"] < 0) != (ends["minor"] < 0)
    if half.any():
        raise _wrong(path, _at(name, starts, half), "only a half of its end is given", "give both, or none of them")
    if (twice := starts[1:] == starts[:-1]).any():
        raise _wrong(path, _at(name, starts[1:], twice), "two intervals begin there", "give each start once")
    is_missing = ends["major"] < 0
    ends[is_missing] = np.append(starts[1:], np.array([tuple(END)], KEY_DTYPE))[is_missing]
    if (wrong := ~_is_less(starts, ends)).any():
        raise _wrong(path, _at(name, starts, wrong), "it ends before it begins", "give an end after the start")
    if (wrong := _is_less(starts[1:], ends[:-1])).any():
        fix = "let each end where the next begins, or leave out the ends"
        raise _wrong(path, _at(name, starts[1:], wrong), "the interval before it is valid there, too", fix)
    return Intervals(
        ids=np.zeros(len(starts), np.int64),
        starts=starts,
        ends=ends,
        urls=columns["url"].to_numpy(zero_copy_only=False),
        checksums=columns["checksum"].to_numpy(zero_copy_only=False),
        sizes=columns["size"].to_numpy(),
        inserted_ns=np.zeros(len(starts), np.int64),
    )


def _is_less(left: Array, right: Array) -> Array:
    is_less: Array = (left["major"] < right["major"]) | (
        (left["major"] == right["major"]) & (left["minor"] < right["minor"])
    )
    return is_less


def _keys(columns: Mapping[str, pa.Array], suffix: str) -> Array:
    keys = np.empty(len(columns["url"]), KEY_DTYPE)
    for half in HALVES:
        keys[half] = columns[f"{half}{suffix}"].to_numpy()
    return keys


def _at(name: str, starts: Array, chosen: Array) -> str:
    major, minor = starts[np.flatnonzero(chosen)[0]]
    return f"{name} ({major}, {minor})"


def _wrong(path: Path, field: str, problem: str, fix: str) -> CommandFailed:
    return CommandFailed(printable(f"{path}: {field}: {problem}; {fix}"))


def _table_of(of_type: str, intervals: Intervals) -> pa.Table:
    is_given = intervals.sizes >= 0
    columns = [
        pa.repeat(pa.scalar(of_type), len(intervals)),
        pa.array(intervals.urls, pa.string()),
        pa.array(intervals.checksums, pa.string()),
        pa.array(intervals.sizes, pa.int64(), mask=~is_given),
        *(pa.array(np.ascontiguousarray(keys[half])) for keys in (intervals.starts, intervals.ends) for half in HALVES),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _json_lines(table: pa.Table) -> Iterator[bytes]:
    import orjson  # noqa: PLC0415 - Parquet is written without it

    for batch in table.to_batches(max_chunksize=10_000):
        rows: list[dict[str, Any]] = batch.to_pylist()
        yield b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


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
    known = set(_of_each(there))
    return np.fromiter((row in known for row in _of_each(intervals)), bool, len(intervals))


def _of_each(intervals: Intervals) -> Iterator[tuple[object, ...]]:
    columns = (intervals.starts.tolist(), intervals.ends.tolist(), intervals.urls, intervals.checksums)
    return zip(*columns, strict=True)


def _batches(where: Array) -> Iterator[Array]:
    for begin in range(0, len(where), BATCH):
        yield where[begin : begin + BATCH]
