"""Folder sets, folders, their channels, columns, layouts and tags; and what may be called how."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from schemas.conditions.intervals import NAME_MOST
from schemas.conditions.rules import ConditionsRefused, RefusalKind, check_text, exists, unknown
from schemas.readings import CHANNEL_DTYPES, SYSTEM_COLUMNS

ROOT = "/"
HEAD = "HEAD"
"""The newest version of a multi-version folder; no tag has this name."""
TEXT = "text"
TEXT_MOST = 16_000
"""Bytes in UTF-8 that a text may have."""
COLUMNS_MOST = 190
"""InnoDB has 40 bytes of each text in the row, which is of 8,126 bytes at most."""
CHANNEL_MOST = 2**31 - 1
CHANNELS_AT_ONCE = 100_000
KEY: tuple[tuple[str, str], ...] = (("channel", "<i4"), ("since", "<i8"), ("until", "<i8"))
"""Fields that every block of intervals begins with."""
RESERVED = frozenset((*(name for name, _ in KEY), "length_class", "version", *SYSTEM_COLUMNS))
PATH = re.compile(r"(/[A-Za-z0-9_.-]+)+")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class FolderKind(StrEnum):
    """What a folder keeps where an interval is inserted over others."""

    SINGLE = "single"  # intervals of a channel never overlap
    MULTI = "multi"  # a newer version hides an older one, which its tags still show


class FolderLayout(StrEnum):
    """Layout of a folder in the database, and of the question for a snapshot."""

    WINDOW = "window"  # rows by (since, channel); a window as long as the longest interval of each class of lengths
    BRIN = "brin"  # the same, with a BRIN index (PostgreSQL)
    LATERAL = "lateral"  # rows by (since, channel); the last row of each channel by LATERAL (PostgreSQL, MySQL)
    CHANNEL_LATERAL = "channel-lateral"  # rows by (channel, since), else the same
    ARRAYS = "arrays"  # a row for many intervals, as packed bytes; windows as those of `window`; takes no reports
    CHANNEL_MAX = "channel-max"  # rows by (channel, since); MAX(since) of each channel, as COOL asks

    @property
    def by_channel(self) -> bool:
        """Whether rows lie in the order of (channel, since)."""
        return self in (FolderLayout.CHANNEL_LATERAL, FolderLayout.CHANNEL_MAX)

    @property
    def by_window(self) -> bool:
        """Whether a snapshot reads windows of time, and not each channel for itself."""
        return self in (FolderLayout.WINDOW, FolderLayout.BRIN, FolderLayout.ARRAYS)


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a folder's values.

    dtype: a key of `schemas.readings.CHANNEL_DTYPES`, or `text`.
    width: of a text, the most bytes in UTF-8 that it may have; of a number 0.
    """

    name: str
    dtype: str
    width: int = 0

    @property
    def is_text(self) -> bool:
        """Whether it holds texts."""
        return self.dtype == TEXT

    @property
    def form(self) -> str:
        """Its dtype in a block: a number, or bytes of UTF-8 with NULs behind a text that is shorter."""
        return f"S{self.width}" if self.is_text else CHANNEL_DTYPES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class NewFolder:
    """A folder that is to be added; sets above it that are missing are added with it.

    path: such as `/magnets/quads/current`. columns: of its values, at least one. channels: names by number.
    """

    path: str
    columns: tuple[Column, ...]
    kind: FolderKind = FolderKind.SINGLE
    layout: FolderLayout = FolderLayout.WINDOW
    channels: Mapping[int, str] = field(default_factory=dict)
    description: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a block of its intervals: packed, little-endian; channel, since, until, then the columns."""
        return block_dtype(self.columns)


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder. version: how many insertions it has had; created_ns: ns since 1970-01-01 UTC."""

    path: str
    kind: FolderKind
    layout: FolderLayout
    columns: tuple[Column, ...]
    description: str
    version: int
    created_ns: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a block of its intervals: packed, little-endian; channel, since, until, then the columns."""
        return block_dtype(self.columns)


@dataclass(frozen=True, kw_only=True)
class FolderSet:
    """A set of folders and sets. path: `/` is the root, which is always there and not listed."""

    path: str
    description: str
    created_ns: int


@dataclass(frozen=True, kw_only=True)
class FolderTag:
    """A name for the version that a multi-version folder had when it was tagged."""

    path: str
    name: str
    version: int
    created_ns: int


def block_dtype(columns: Sequence[Column]) -> np.dtype[Any]:
    """Lay out an interval: channel int32, since and until int64, then the columns, without padding."""
    return np.dtype([*KEY, *((column.name, column.form) for column in columns)])


def sets_above(path: str) -> list[str]:
    """Paths of the sets above something, the highest first, without the root."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: k + 1]) for k in range(len(parts))]


def is_below(path: str, top: str) -> bool:
    """Whether something is in a set, or in one that is in it; everything is below the root."""
    return path.startswith(top if top == ROOT else f"{top}/")


def check_path(path: str) -> None:
    """See that a folder or a set may be called so.

    Raises:
        ConditionsRefused: it may not.
    """
    if not PATH.fullmatch(path) or len(path) > NAME_MOST:
        raise _invalid(
            "path",
            f"{path[:80]!r} is no path",
            f"write /SET/FOLDER in letters, digits, `_`, `.` and `-`, with at most {NAME_MOST} characters",
        )


def see_path(path: str) -> None:
    """See that something can have a path, before a database is asked for it: not all of them take every text.

    Raises:
        ConditionsRefused: nothing can, so that nothing is there.
    """
    if not PATH.fullmatch(path) or len(path) > NAME_MOST:
        raise unknown("path", repr(path[:80]))


def check_new_folder(new: NewFolder) -> None:
    """See that a folder may be added as far as it goes by itself.

    Raises:
        ConditionsRefused: the path, a column, a channel or the layout is wrong; the message names it.
    """
    check_path(new.path)
    check_text("description", new.description, NAME_MOST)
    if not 1 <= len(new.columns) <= COLUMNS_MOST:
        raise _invalid("columns", f"there are {len(new.columns)}", f"give 1 to {COLUMNS_MOST}")
    for k, column in enumerate(new.columns):
        _check_column(f"columns[{k}]", column, new.columns[:k])
    if new.kind is FolderKind.MULTI and not new.layout.by_window:
        raise _invalid("layout", f"{new.layout} finds one version alone", "take `window` for a multi-version folder")
    check_channels(new.channels)


def check_channels(channels: Mapping[int, str]) -> None:
    """See that channels may have these numbers and names.

    Raises:
        ConditionsRefused: one of them may not.
    """
    if len(channels) > CHANNELS_AT_ONCE:
        raise _invalid("channels", f"there are {len(channels):,}", f"add at most {CHANNELS_AT_ONCE:,} at once")
    names: set[str] = set()
    for number, name in channels.items():
        if not 0 <= number <= CHANNEL_MOST:
            raise _invalid(f"channels[{number}]", "it is no number of a channel", "give an integer of 0 to 2^31 - 1")
        if not name or name in names:
            raise _invalid(f"channels[{number}]", f"{name!r} is no name of its own", "give each channel another name")
        check_text(f"channels[{number}]", name, NAME_MOST)
        names.add(name)


def check_new_channels(channels: Mapping[int, str], known: Mapping[int, str]) -> None:
    """See that channels may be added to those that a folder has.

    Raises:
        ConditionsRefused: a number or a name is not permitted, or taken.
    """
    check_channels(channels)
    names = set(known.values())
    for number, name in channels.items():
        if number in known:
            raise exists(f"channels[{number}]", f"channel {number}")
        if name in names:
            raise exists(f"channels[{number}]", f"channel {name}")


def check_empty(path: str, paths: Iterable[str]) -> None:
    """See that a set has nothing in it. paths: all that there are.

    Raises:
        ConditionsRefused: it has something.
    """
    below = next((each for each in paths if is_below(each, path)), None)
    if below is not None:
        raise ConditionsRefused(RefusalKind.CONFLICT, "path", f"{path} has {below}", "remove what is in it first")


def is_no_set(path: str) -> ConditionsRefused:
    """Nothing can be below a folder."""
    return ConditionsRefused(RefusalKind.CONFLICT, "path", f"{path} is a folder", "choose a path in a set")


def no_versions(path: str) -> ConditionsRefused:
    """Tags are for multi-version folders."""
    return ConditionsRefused(
        RefusalKind.CONFLICT, "path", f"{path} is no multi-version folder, and has none", "tag one that is"
    )


def check_tag_name(name: str) -> None:
    """See that a tag may be called so.

    Raises:
        ConditionsRefused: it may not.
    """
    if not name or name == HEAD:
        raise _invalid("tag", f"{name!r} cannot be the name of a tag", "choose another name")
    check_text("tag", name, NAME_MOST)


def _check_column(which: str, column: Column, before: Sequence[Column]) -> None:
    if not NAME.fullmatch(column.name) or column.name.lower() in RESERVED:
        raise _invalid(
            f"{which}.name",
            f"{column.name!r} cannot be the name of a column",
            f"write at most 63 letters, digits and `_`; {', '.join(sorted(RESERVED))} are taken",
        )
    if column.name.lower() in {each.name.lower() for each in before}:
        raise _invalid(f"{which}.name", f"{column.name} is there twice", "choose another name")
    if not column.is_text and column.dtype not in CHANNEL_DTYPES:
        known = ", ".join((*CHANNEL_DTYPES, TEXT))
        raise _invalid(f"{which}.dtype", f"{column.dtype!r} is no dtype", f"take one of {known}")
    if column.is_text and not 1 <= column.width <= TEXT_MOST:
        raise _invalid(f"{which}.width", f"{column.width} bytes", f"give 1 to {TEXT_MOST:,} bytes")
    if not column.is_text and column.width:
        raise _invalid(f"{which}.width", "a number has none", "leave it out")


def _invalid(field_: str, problem: str, fix: str) -> ConditionsRefused:
    return ConditionsRefused(RefusalKind.INVALID, field_, problem, fix)
