"""The partitions drawn by time, a row a group: as high as their bytes, coloured by tier, with their heat below.

What is being moved or reduced, and what tiers, decimation and retention do next, is framed.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any
from zlib import crc32

from dashboard.tabs.figures import CALM, CHOSEN, FAINT, GREY, INK, LIMIT, plot_axis, plot_layout
from dashboard.tabs.storage.rows import NO_END, heat_words
from dashboard.words import UNITS, size
from schemas.api.status import Status
from schemas.api.storage import GroupStorage, PartitionStorage, Storage

ROW = 132
EDGE = 44
"""Height of a group's row, and of what is above and below them all, in px."""
BARS, HEATS = (0.36, 0.86), (0.04, 0.26)
"""What of a row, from its lower edge, bars of bytes and of heat take."""
BARS_ALONE = (0.04, 0.86)
"""Where nothing has heat."""
MOST_DRAWN = 400
"""Partitions of a group, the newest."""
TIER_COLOURS = (CALM, GREY, "#c3b596", "#5f87ad", "#8d8371", "#a9cbea", "#6f675a", "#e2d7c2")
"""From the first tier to the last."""
EMBER = "#c9a25f"

Figure = dict[str, Any]


def colours(status: Status) -> Mapping[str | None, str]:
    """The colour of each tier; without tiers all is normal, and what lies in none of them is faint."""
    if status.tiers is None:
        return {None: CALM}
    names = [tier.name for tier in status.tiers.tiers]
    return {None: FAINT} | dict(zip(names, TIER_COLOURS, strict=False))


def height(storage: Storage) -> int:
    """Of the picture, in px."""
    return EDGE + ROW * max(1, len(storage.groups))


def picture(storage: Storage, status: Status) -> Figure:
    """All groups below each other over a common axis of time, in UTC as the bounds of partitions are."""
    data: list[Figure] = []
    shapes: list[Figure] = []
    notes: list[Figure] = []
    layout: Figure = {}
    tiers = colours(status)
    share = 1 / max(1, len(storage.groups))
    framed = [*_framed(status)]
    for place, (name, group) in enumerate(storage.groups.items()):
        low = 1 - (place + 1) * share
        drawn = _drawn(group)
        unit, of_unit = _unit(max((each.size_bytes for each in drawn), default=0))
        bars, heats = f"y{2 * place + 1}", f"y{2 * place + 2}"
        has_heat = any(each.heat_s_a_day for each in drawn)
        data += _bars(drawn, tiers, of_unit, bars)
        layout[f"yaxis{bars[1:]}"] = _axis(low, share, BARS if has_heat else BARS_ALONE, nticks=4)
        notes.append(_title(f"<b>{escape(name)}</b> · {unit}", low + share))
        if has_heat:
            data += _heats(drawn, heats)
            layout[f"yaxis{heats[1:]}"] = _axis(low, share, HEATS, nticks=3)
            notes.append(_title("heat, s/day", low + share * (HEATS[1] + 0.09)))
        shapes += [
            _frame(each, of_unit, bars, line)
            for of, named, line in framed
            if of == name
            for each in drawn
            if each.name == named
        ]
    across = plot_axis(type="date", nticks=4, tickangle=0, hoverformat="%Y-%m-%d %H:%M UTC", anchor="free", position=0)
    further = plot_layout(height(storage), margin={"l": 48, "r": 12, "t": 8, "b": 28}, bargap=0, barmode="overlay")
    return {"data": data, "layout": further | layout | {"xaxis": across, "shapes": shapes, "annotations": notes}}


def stamp(storage: Storage, status: Status) -> int:
    """Another number where the picture is another one: it is drawn anew only then."""
    shown = [
        (
            name,
            [
                (each.name, each.start_ns, each.size_bytes, each.tier, heat_words(each.heat_s_a_day), each.reduced)
                for each in _drawn(group)
            ],
        )
        for name, group in storage.groups.items()
    ]
    return crc32(repr((shown, [*_framed(status)], [*colours(status)])).encode())


def _drawn(group: GroupStorage) -> list[PartitionStorage]:
    return [each for each in group.partitions if each.end_ns - each.start_ns < NO_END][-MOST_DRAWN:]


def _framed(status: Status) -> Iterator[tuple[str, str, Figure]]:
    """Group and name of what is framed, and how: what is moved by a line, what comes next by dots."""
    tiers, retention, decimation = status.tiers, status.retention, status.decimation
    if tiers is not None and tiers.moving is not None:
        yield tiers.moving.group, tiers.moving.name, {"color": CHOSEN, "width": 2}
    if tiers is not None and tiers.next is not None:
        yield tiers.next.group, tiers.next.name, {"color": CHOSEN, "width": 2, "dash": "dot"}
    if decimation is not None and decimation.reducing is not None:
        yield decimation.reducing.group, decimation.reducing.name, {"color": EMBER, "width": 2}
    if decimation is not None and decimation.next is not None:
        yield decimation.next.group, decimation.next.name, {"color": EMBER, "width": 2, "dash": "dot"}
    if retention is not None and retention.next is not None:
        yield retention.next.group, retention.next.name, {"color": LIMIT, "width": 2, "dash": "dot"}


def _bars(
    drawn: Sequence[PartitionStorage], tiers: Mapping[str | None, str], of_unit: float, axis: str
) -> Iterator[Figure]:
    for tier in dict.fromkeys(each.tier for each in drawn):
        lie = [each for each in drawn if each.tier == tier]
        heights = [each.size_bytes / of_unit for each in lie]
        said = [f"{escape(each.name)} · {escape(each.tier or 'no tier')}{_became(each)}" for each in lie]
        sizes = [f"{size(each.size_bytes)} · heat {heat_words(each.heat_s_a_day)}" for each in lie]
        yield _trace(lie, heights, tiers.get(tier, FAINT), axis) | {
            "name": tier or "",
            "customdata": [[one, other] for one, other in zip(said, sizes, strict=True)],
            "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        }


def _became(each: PartitionStorage) -> str:
    return "" if each.reduced is None else f" · reduced to {escape(each.reduced)}"


def _heats(drawn: Sequence[PartitionStorage], axis: str) -> Iterator[Figure]:
    hot = [each for each in drawn if each.heat_s_a_day is not None]
    heights = [each.heat_s_a_day or 0.0 for each in hot]
    hover = {"hovertemplate": "heat %{y:.3~g} s/day<extra></extra>"}
    yield _trace(hot, heights, EMBER, axis) | {"name": "heat"} | hover


def _trace(drawn: Sequence[PartitionStorage], heights: list[float], colour: str, axis: str) -> Figure:
    return {
        "type": "bar",
        "x": [(each.start_ns + each.end_ns) / 2e6 for each in drawn],
        "width": [0.94 * (each.end_ns - each.start_ns) / 1e6 for each in drawn],
        "y": heights,
        "yaxis": "y" if axis == "y1" else axis,
        "marker": {"color": colour, "line": {"width": 0}},
    }


def _frame(each: PartitionStorage, of_unit: float, axis: str, line: Figure) -> Figure:
    ends = {"x0": each.start_ns / 1e6, "x1": each.end_ns / 1e6, "y0": 0, "y1": each.size_bytes / of_unit}
    return {"type": "rect", "xref": "x", "yref": "y" if axis == "y1" else axis, "line": line} | ends


def _axis(low: float, share: float, part: tuple[float, float], *, nticks: int) -> Figure:
    return plot_axis(domain=[low + share * part[0], low + share * part[1]], nticks=nticks, rangemode="tozero")


def _title(text: str, top: float) -> Figure:
    at = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "top"}
    return at | {"text": text, "showarrow": False, "font": {"color": INK, "size": 12}}


def _unit(most: float) -> tuple[str, float]:
    """The unit in which the largest one has few digits, and how many bytes it is."""
    step = 0
    while most >= 1024 ** (step + 1) and step < len(UNITS) - 1:
        step += 1
    return UNITS[step], 1024.0**step
