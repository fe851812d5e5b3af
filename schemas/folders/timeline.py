"""What an insertion changes, and what of the versions of a channel holds; the same for every database.

Nothing here asks anything: it gets blocks of intervals, and gives blocks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.blocks import OPEN, are_ends, joined
from schemas.folders.folders import KEY
from schemas.readings import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """What an insertion does.

    closed: intervals with an end that are new. opened: new open intervals.
    ended: open intervals that were there, with the end that they get; in the order of their channels.
    shortened: intervals that were there with an end, with an earlier one.
    """

    closed: Array
    opened: Array
    ended: Array
    shortened: Array

    @property
    def replaced(self) -> Array:
        """What was there and gets another end, with it."""
        return joined([self.ended, self.shortened], self.ended.dtype)


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What became of the reports of an insertion.

    stored: how many are new. duplicates: how many were there already, with the same value.
    conflicts: why a report was not stored, by its number in the block: another value has its channel and time.
    """

    stored: int
    duplicates: int
    conflicts: Mapping[int, ConditionsRefused]


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
    # An end takes the moment at which it is: nothing else begins then.
    overlaps = same & (np.maximum(untils, sinces + 1)[:-1] > sinces[1:])
    if overlaps.any():
        raise _overlap(channels, sinces, is_new, int(np.argmax(overlaps)))
    placed = np.empty(len(order), np.int64)
    placed[order] = untils
    ended, stored = opened.copy(), new.copy()
    ended["until"], stored["until"] = placed[: len(opened)], placed[len(opened) + len(around) :]
    ended = ended[ended["until"] != OPEN]
    return Changes(**_divided(stored), ended=ended[np.argsort(ended["channel"])], shortened=new[:0])


def changes_of_reports(reports: Array, there: Array) -> tuple[Changes, Reported]:
    """What reports change in a single-version folder, and what became of them.

    A report holds from its time on, until where the interval ends that holds then, or until the next one begins; that
    interval ends where the report begins. An end is a report without a value: it stays, with no length, so that an
    earlier report which comes later ends there. So the order in which reports come makes no difference.

    reports: checked, as they were given; of several with one channel and time, the first is the one to compare with.
    there: intervals of their channels, ends too: of each channel the last that begins up to its first report, those
    that begin up to its last one, and the next; more does no harm.
    """
    rows = joined([there, reports], reports.dtype)
    order = np.lexsort((rows["since"], rows["channel"]))
    rows, numbers = rows[order], order - len(there)
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows["channel"][1:] != rows["channel"][:-1]) | (rows["since"][1:] != rows["since"][:-1])
    again = np.flatnonzero(~is_first)
    before = np.maximum.accumulate(np.where(is_first, np.arange(len(rows)), 0))[again]
    others = again[~_are_same(rows[again], rows[before])]
    changes = _placed(rows[is_first], numbers[is_first] >= 0)
    others = others[np.argsort(numbers[others])]
    conflicts = {int(numbers[k]): _other_value(rows[k], int(numbers[k])) for k in others}
    stored = len(changes.closed) + len(changes.opened)
    return changes, Reported(stored=stored, duplicates=len(again) - len(others), conflicts=conflicts)


def spans_before(reports: Array, opened: Array) -> list[tuple[int, int, int]]:
    """Channels whose reports are not all behind an open interval: number, first and last time; in their order.

    opened: the open intervals of the channels; behind one there is nothing else of its channel.
    """
    order = np.lexsort((reports["since"], reports["channel"]))
    channels, firsts = np.unique(reports["channel"][order], return_index=True)
    sinces = reports["since"][order]
    lasts = np.append(firsts[1:], np.full(min(1, len(firsts)), len(order))) - 1
    begins = dict(zip(opened["channel"].tolist(), opened["since"].tolist(), strict=True))
    spans = zip(channels.tolist(), sinces[firsts].tolist(), sinces[lasts].tolist(), strict=True)
    return [span for span in spans if span[1] < begins.get(span[0], OPEN)]


def _placed(rows: Array, is_new: Array) -> Changes:
    """Where reports and what was there end; in the order of (channel, since), which no two have in common."""
    channels, sinces, untils = (rows[name] for name in ("channel", "since", "until"))
    nexts = np.append(sinces[1:], np.full(min(1, len(rows)), OPEN))
    nexts[:-1][channels[1:] != channels[:-1]] = OPEN
    last = np.maximum.accumulate(np.where(is_new, -1, np.arange(len(rows))))
    is_held = is_new & (last >= 0) & (channels[last] == channels) & (untils[last] > sinces)
    placed = np.minimum(nexts, np.where(is_held, untils[last], untils))
    placed = np.where(are_ends(rows), sinces, placed)
    changed, was_open = ~is_new & (placed != untils), untils == OPEN
    result = rows.copy()
    result["until"] = placed
    return Changes(**_divided(result[is_new]), ended=result[changed & was_open], shortened=result[changed & ~was_open])


def _are_same(some: Array, others: Array) -> Array:
    """Whether intervals have the same values, or are ends: bool, shape (n,)."""
    key = sum(np.dtype(form).itemsize for _, form in KEY)
    values = (each.view(np.uint8).reshape(len(each), each.itemsize)[:, key:] for each in (some, others))
    same: Array = np.equal(*values).all(axis=1) & (are_ends(some) == are_ends(others))
    return same


def _other_value(report: Array, number: int) -> ConditionsRefused:
    problem = f"channel {report['channel']} has another value since {report['since']}"
    return ConditionsRefused(RefusalKind.CONFLICT, f"block[{number}]", problem, "give a report its own time")


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
    return Changes(**_divided(new), ended=new[:0], shortened=new[:0])


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


def holding(block: Array, since: int, until: int) -> Array:
    """Of some intervals those that hold some of since <= t < until; an end holds nothing."""
    found: Array = block[(block["since"] < until) & (block["until"] > np.maximum(block["since"], since))]
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
