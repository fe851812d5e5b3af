"""What is asked of a folder's tables: intervals that hold some of a span of time, or begin in one.

Every question is one SELECT of each class of lengths, and one of the open intervals, joined by UNION ALL. Intervals of
a class that hold a time began at most as long before it as the longest of them is. With the rows in the order of
(since, channel), what a snapshot reads is a range of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backends.sql.folders.session import FoldersSession, StoredFolder, unpacked, value_fields
from schemas.folders.blocks import OPEN, joined
from schemas.folders.folders import KEY, FolderLayout
from schemas.readings import Array

Fields = Sequence[tuple[str, str]]
VERSION = ("version", "<i8")
CHUNK: Fields = (VERSION, ("data", ""))
"""Of the layout `arrays`."""
PRIMARY = "PRIMARY"


@dataclass(frozen=True, kw_only=True)
class Span:
    """Which intervals: since <= upto; since > after, and until > holds, where these are given.

    among: a condition in SQL beside that. channel: of this one alone. version: not newer than this one.
    """

    upto: int
    after: int | None = None
    holds: int | None = None
    among: str = ""
    channel: int | None = None
    version: int | None = None

    def conditions(self, longest: int | None) -> str:
        """The same in SQL. longest: of the intervals; None where they have no end."""
        above = self.after
        if above is None and longest is not None and self.holds is not None:
            above = self.holds - longest
        parts = [
            f"since <= {self.upto}",
            *([f"since > {above}"] if above is not None else []),
            *([f"until > {self.holds}"] if self.holds is not None else []),
            *([f"channel = {self.channel}"] if self.channel is not None else []),
            *([f"version <= {self.version}"] if self.version is not None else []),
            *([self.among] if self.among else []),
        ]
        return " AND ".join(parts)

    def of(self, block: Array) -> Array:
        """Which of some intervals with an end are of it, but for `among` and the version: bool, shape (n,)."""
        found: Array = block["since"] <= self.upto
        if self.after is not None:
            found &= block["since"] > self.after
        if self.holds is not None:
            found &= block["until"] > self.holds
        if self.channel is not None:
            found &= block["channel"] == self.channel
        return found


def all_fields(stored: StoredFolder) -> Fields:
    """Columns of an interval: its key, its version, its values."""
    return (*KEY, VERSION, *value_fields(stored.folder.columns))


async def find(session: FoldersSession, stored: StoredFolder, span: Span, fields: Fields, *, opened: bool) -> Array:
    """Intervals of a span, with these columns, in any order. opened: whether open ones are among them."""
    of_open = [_select(session, session.opened(stored), fields, span.conditions(None))] if opened else []
    if stored.folder.layout is not FolderLayout.ARRAYS:
        return await _found(session, [*_closed(session, stored, span, fields), *of_open], fields)
    closed = await _in_chunks(session, stored, span, fields)
    return joined([closed, await _found(session, of_open, fields)], closed.dtype) if opened else closed


async def snapshot(session: FoldersSession, stored: StoredFolder, at: int, version: int | None) -> Array:
    """What is valid at a time, as the layout of the folder asks for it; columns of `all_fields`."""
    fields, span = all_fields(stored), Span(upto=at, holds=at, version=version)
    layout = stored.folder.layout
    if layout.by_window:
        return await find(session, stored, span, fields, opened=True)
    one_by_one = _by_max if layout is FolderLayout.CHANNEL_MAX else _lateral
    selects = [one_by_one(session, stored, at, fields)] if stored.lengths else []
    selects.append(_select(session, session.opened(stored), fields, span.conditions(None)))
    return await _found(session, selects, fields)


async def opened_of(session: FoldersSession, stored: StoredFolder, channels: str) -> Array:
    """The open intervals of some channels, as a block. channels: a condition that names them."""
    select = _select(
        session, session.opened(stored), _block_fields(stored), Span(upto=OPEN, among=channels).conditions(None)
    )
    return as_block(stored, await _found(session, [select], _block_fields(stored)))


async def near(session: FoldersSession, stored: StoredFolder, spans: Sequence[tuple[int, int, int]]) -> Array:
    """Of intervals with an end, those that decide where reports go, as a block.

    spans: channel, first and last time of reports. Of each channel it is the last one that begins up to the first time,
    what begins up to the last one, and the next.
    """
    if not spans or not stored.lengths:
        return np.empty(0, stored.folder.dtype)
    table = f"{session.closed(stored)}{session.by_index(_by_channel(stored))}"
    selects = []
    for channel, first, last in spans:
        of = f"SELECT %s(since) FROM {table} WHERE channel = {channel} AND since"
        least = f"COALESCE(({of % 'MAX'} <= {first}), {first})"
        most = f"COALESCE(({of % 'MIN'} > {last}), {last})"
        where = f"channel = {channel} AND since >= {least} AND since <= {most}"
        selects.append(_select(session, table, _block_fields(stored), where))
    return as_block(stored, await _found(session, selects, _block_fields(stored)))


def as_block(stored: StoredFolder, rows: Array) -> Array:
    """Rows as a block; columns of small integers are as they were given."""
    block = np.empty(len(rows), stored.folder.dtype)
    for name in block.dtype.names or ():
        block[name] = rows[name]
    return block


def _block_fields(stored: StoredFolder) -> Fields:
    return (*KEY, *value_fields(stored.folder.columns))


def _by_channel(stored: StoredFolder) -> str:
    """Name of the index that has the intervals of a channel together."""
    return PRIMARY if stored.folder.layout.by_channel else f"f_{stored.token}_channel"


async def _in_chunks(session: FoldersSession, stored: StoredFolder, span: Span, fields: Fields) -> Array:
    """Intervals with an end, of the layout `arrays`."""
    holds = max(time for time in (span.after, span.holds) if time is not None)
    chunks = _closed(session, stored, Span(upto=span.upto, holds=holds, version=span.version), CHUNK)
    text = " UNION ALL ".join(f"({select})" for select in chunks)
    block, versions = unpacked(await session.select_chunks(text) if text else [], stored.folder.dtype)
    wanted = span.of(block)
    rows = np.empty(int(wanted.sum()), np.dtype(list(fields)))
    for name, _ in fields:
        rows[name] = (versions if name == "version" else block[name])[wanted]
    return rows


async def _found(session: FoldersSession, selects: Sequence[str], fields: Fields) -> Array:
    return await session.select_block(" UNION ALL ".join(f"({select})" for select in selects), fields)


def _closed(session: FoldersSession, stored: StoredFolder, span: Span, fields: Fields) -> Iterator[str]:
    """A SELECT of each class of lengths, or of all together where no index divides them."""
    table, layout = session.closed(stored), stored.folder.layout
    if not stored.lengths:
        return
    if span.channel is not None or layout not in (FolderLayout.WINDOW, FolderLayout.ARRAYS):
        longest = max(stored.lengths.values())
        hint = session.by_index(_by_channel(stored)) if span.channel is not None else ""
        yield _select(session, f"{table}{hint}", fields, span.conditions(longest))
        return
    for each, longest in sorted(stored.lengths.items()):
        where = f"length_class = {each} AND {span.conditions(longest)}"
        yield _select(session, f"{table}{session.by_index(PRIMARY)}", fields, where)


def _select(session: FoldersSession, table: str, fields: Fields, where: str) -> str:
    return f"SELECT {_columns(session, fields)} FROM {table} WHERE {where}"


def _columns(session: FoldersSession, fields: Fields, of: str = "") -> str:
    return ", ".join(session.selected(name, form, of) for name, form in fields)


def _lateral(session: FoldersSession, stored: StoredFolder, at: int, fields: Fields) -> str:
    """The last row of each channel, if it still holds."""
    names = ", ".join(session.column(name) for name, _ in fields)
    last = (
        f"SELECT {names} FROM {session.closed(stored)} WHERE channel = c.number AND since <= {at}"
        " ORDER BY since DESC LIMIT 1"
    )
    return (
        f"SELECT {_columns(session, fields, 'r.')} FROM {session.channels} c CROSS JOIN LATERAL ({last}) r"
        f" WHERE c.folder = {stored.id} AND r.until > {at}"
    )


def _by_max(session: FoldersSession, stored: StoredFolder, at: int, fields: Fields) -> str:
    """The same by the greatest `since` of each channel, as COOL asks."""
    table = session.closed(stored)
    return (
        f"SELECT {_columns(session, fields, 'r.')} FROM {session.channels} c JOIN {table} r ON r.channel = c.number"
        f" AND r.since = (SELECT MAX(since) FROM {table} m WHERE m.channel = c.number AND m.since <= {at})"
        f" WHERE c.folder = {stored.id} AND r.until > {at}"
    )
