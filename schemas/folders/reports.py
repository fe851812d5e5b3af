"""Report on change: a group of instruments whose readings become intervals of a single-version folder.

An instrument is a channel, with its number and name; the channels of the group are the columns. A report holds from its
time on, until the next one of its instrument. One without any value, NaN in all columns, is an end.
"""

from collections.abc import Mapping

import numpy as np

from schemas.folders.blocks import OPEN
from schemas.folders.folders import Column, Folder, FolderKind, FolderLayout, NewFolder
from schemas.readings import Array, InstrumentGroup


def folder_of(group: InstrumentGroup) -> NewFolder:
    """The folder that a group reports into, as it is made where it is missing."""
    assert group.folder is not None
    return NewFolder(
        path=group.folder,
        columns=tuple(Column(name=channel.name, dtype=channel.dtype) for channel in group.channels),
        channels=dict(enumerate(group.instruments)),
        description=f"reports of group {group.name}",
    )


def difference(group: InstrumentGroup, there: Folder, channels: Mapping[int, str]) -> str | None:
    """Why a group cannot report into a folder that is there, with these channels; None where it can."""
    columns = folder_of(group).columns
    if there.kind is not FolderKind.SINGLE:
        return "it is a multi-version folder, where no value ends the one before"
    if there.layout is FolderLayout.ARRAYS:
        return f"its layout is {there.layout}, which takes no reports"
    if there.columns != columns:
        has, wanted = (", ".join(f"{each.name} {each.dtype}" for each in some) for some in (there.columns, columns))
        return f"its columns are {has}, and the channels of group {group.name} are {wanted}"
    for number, name in enumerate(group.instruments):
        if channels.get(number, name) != name:
            return f"its channel {number} is {channels[number]}, and instrument {number} of the group is {name}"
    return None


def have_part(readings: Array, group: InstrumentGroup) -> Array:
    """Which readings are neither a report nor an end, since a part of their values is no finite number.

    bool, shape (n,).
    """
    finite = np.ones(len(readings), bool)
    for channel in group.channels:
        if channel.is_float:
            finite &= np.isfinite(readings[channel.name])
    return ~finite & ~_are_ends(readings, group)


def intervals_of(readings: Array, group: InstrumentGroup) -> Array:
    """Reports as intervals, open ones, or of no length where they are ends; dtype of the folder, shape (n,)."""
    block = np.zeros(len(readings), folder_of(group).dtype)
    block["channel"], block["since"] = readings["instrument"], readings["time_ns"]
    ends = _are_ends(readings, group)
    block["until"] = np.where(ends, readings["time_ns"], OPEN)
    for channel in group.channels:
        values = block[channel.name]
        values[~ends] = readings[channel.name][~ends]
    return block


def are_same(some: Array, others: Array, group: InstrumentGroup) -> Array:
    """Whether readings have the same values: bool, shape (n,); both record dtype, shape (n,)."""
    same = np.ones(len(some), bool)
    for channel in group.channels:
        one, other = some[channel.name], others[channel.name]
        same &= (one == other) | (np.isnan(one) & np.isnan(other) if channel.is_float else False)
    return same


def _are_ends(readings: Array, group: InstrumentGroup) -> Array:
    floats = [channel.name for channel in group.channels if channel.is_float]
    ends = np.full(len(readings), len(floats) == len(group.channels))
    for name in floats:
        ends &= np.isnan(readings[name])
    return ends
