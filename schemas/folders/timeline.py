"""What an insertion changes, and what of the versions of a channel holds; the same for every database.

Nothing here asks anything: it gets blocks of intervals, and gives blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.blocks import OPEN
from schemas.readings import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """What an insertion does.

    closed: intervals with an end that are new, in the order of (since, channel). opened: new open intervals.
    ended: open intervals that were there, with the end that they get; in the order of their channels.
    """

    closed: Array
    opened: Array
    ended: Array


def changes_of_single(new: Array, opened: Array, around: Array) -> Changes:
    """What an insertion changes in a single-version folder: an open interval ends where the next one begins.

    new: checked intervals. opened: the open intervals of their channels. around: (channel, since, until) of the other
    intervals of their channels that end after the first of the new ones begins; more does no harm.

    Raises:
        ConditionsRefused: an interval overlaps another one.
    """
    parts = (opened, around, new)
    channels, sinces, untils = (
        np.concatenate([part[name] for part in parts]) for name in ("channel", "since", "until")
    )
    is_new = np.arange(len(channels)) >= len(opened) + len(around)
    order = np.lexsort((sinces, channels))
    channels, sinces, untils, is_new = (each[order] for each in (channels, sinces, untils, is_new))
    same = channels[1:] == channels[:-1]
    ends = same & (untils[:-1] == OPEN) & is_new[1:] & (sinces[:-1] < sinces[1:])
    untils[:-1][ends] = sinces[1:][ends]
    overlaps = same & (untils[:-1] > sinces[1:])
    if overlaps.any():
        raise _overlap(channels, sinces, is_new, int(np.argmax(overlaps)))
    placed = np.empty(len(order), np.int64)
    placed[order] = untils
    ended, stored = opened.copy(), new.copy()
    ended["until"], stored["until"] = placed[: len(opened)], placed[len(opened) + len(around) :]
    ended = ended[ended["until"] != OPEN]
    return Changes(**_divided(stored), ended=ended[np.argsort(ended["channel"])])


def changes_of_multi(new: Array) -> Changes:
    """What an insertion changes in a multi-version folder: nothing of what was there.

    Raises:
        ConditionsRefused: two intervals of one channel overlap within the block, where neither is the newer one.
    """
    order = np.lexsort((new["since"], new["channel"]))
    channels, sinces, untils = (new[name][order] for name in ("channel", "since", "until"))
    overlaps = (channels[1:] == channels[:-1]) & (untils[:-1] > sinces[1:])
    if overlaps.any():
        raise _overlap(channels, sinces, np.ones(len(new), bool), int(np.argmax(overlaps)))
    return Changes(**_divided(new), ended=new[:0])


def length_classes(block: Array) -> Array:
    """Class of the length of each interval, int16: about its logarithm to the base 2; the open ones have the last."""
    lengths: Array = (block["until"] - block["since"]).astype(np.float64)
    classes: Array = np.frexp(lengths)[1].astype(np.int16)
    classes[block["until"] == OPEN] = OPEN_CLASS
    return classes


OPEN_CLASS = 100
"""Greater than any other."""


def longest_of(block: Array) -> dict[int, int]:
    """Longest interval of each class of lengths, of intervals that have an end."""
    classes, lengths = length_classes(block), block["until"] - block["since"]
    return {int(each): int(lengths[classes == each].max()) for each in np.unique(classes)}


def newest(block: Array, versions: Array) -> Array:
    """Of intervals that are all valid at one time, the one of each channel with the greatest version.

    versions: int64, shape (n,). The answer is in the order of the channels.
    """
    order = np.lexsort((versions, block["channel"]))
    channels = block["channel"][order]
    last = np.append(channels[1:] != channels[:-1], np.ones(min(1, len(channels)), bool))
    found: Array = block[order[last]]
    return found


def hull(block: Array) -> tuple[int, int]:
    """First and last time at which one of some intervals holds; what hides some of them holds in between, too."""
    return int(block["since"].min()), int(block["until"].max()) - 1


def pieces(block: Array, versions: Array) -> Array:
    """What of each interval no newer version hides: intervals apart, in the order of (channel, since).

    versions: int64, shape (n,); the intervals of one version and channel are apart.
    """
    order = np.lexsort((block["since"], block["channel"]))
    block, versions = block[order], versions[order]
    channels, untils = block["channel"], block["until"]
    meets = (channels[1:] == channels[:-1]) & (untils[:-1] > block["since"][1:])
    if not meets.any():
        return block
    starts = np.flatnonzero(np.append(True, channels[1:] != channels[:-1]))
    found = [piece for part in np.split(np.arange(len(block)), starts[1:]) for piece in _seen(block, versions, part)]
    whole = block[[number for number, _, _ in found]]
    whole["since"] = [since for _, since, _ in found]
    whole["until"] = [until for _, _, until in found]
    return whole


def _seen(block: Array, versions: Array, part: Array) -> Iterator[tuple[int, int, int]]:
    """What is seen of the intervals of one channel: number, since and until of each piece, in order of time."""
    sinces, untils, of = block["since"][part], block["until"][part], versions[part]
    bounds = np.unique(np.concatenate([sinces, untils]))
    last: tuple[int, int, int] | None = None
    for since, until in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        valid = np.flatnonzero((sinces <= since) & (untils > since))
        number = int(part[valid[np.argmax(of[valid])]]) if len(valid) else None
        if last is not None and last[0] == number and last[2] == since:
            last = (last[0], last[1], until)
            continue
        if last is not None:
            yield last
        last = None if number is None else (number, since, until)
    if last is not None:
        yield last


def _divided(stored: Array) -> dict[str, Array]:
    is_open = stored["until"] == OPEN
    return {"closed": stored[~is_open], "opened": stored[is_open]}


def _overlap(channels: Array, sinces: Array, is_new: Array, at: int) -> ConditionsRefused:
    new, other = (at, at + 1) if is_new[at] else (at + 1, at)
    return ConditionsRefused(
        RefusalKind.CONFLICT,
        "since",
        f"channel {channels[at]}: the interval since {sinces[new]} overlaps the one since {sinces[other]}",
        "give intervals of a channel that are apart, and an open one only as the last of its channel",
    )
