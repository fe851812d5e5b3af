"""The timeline of one type's intervals across tags, as a plain function of them."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from dashboard.tabs.conditions.rows import key_words
from dashboard.tabs.figures import CALM, FAINT, GREY, INK, plot_axis, plot_layout
from dashboard.words import count
from schemas.conditions.intervals import END, KEY_DTYPE, Intervals, Key
from schemas.readings import Array

MOST_BORDERS = 300
"""Starts and ends that are drawn, the newest; of more each would be narrower than can be pointed at."""

COLOURS = (CALM, "#5f87ad", "#c3b596", GREY, "#7fa893", "#8d8371")
"""Of payloads, in the order of their first keys: the same payload has the same colour in all tags."""

LINE_PX, AXES_PX = 36, 64
LABELS = 5
NAME_LETTERS = 8
"""Of a name at either end."""

Figure = dict[str, Any]


def height(tags: int) -> int:
    """Of the timeline of so many tags, in px."""
    return AXES_PX + LINE_PX * max(1, tags)


def timeline(lists: Mapping[str, Intervals]) -> Figure:
    """A line a tag with a bar an interval, in the order of keys.

    The axis has one step from each start or end to the next one, because keys have 63 bits and no common unit.
    """
    borders = borders_of(lists)
    colours: dict[tuple[str, str], str] = {}
    traces = [_bars(place, intervals, borders, colours) for place, intervals in enumerate(lists.values())]
    places = sorted({round(each) for each in np.linspace(0, len(borders) - 1, LABELS)}) if len(borders) else []
    across = plot_axis(
        tickmode="array",
        tickvals=places,
        ticktext=[key_words(Key(*borders[place].tolist())) for place in places],
        tickangle=0,
        range=[0, max(1, len(borders))],
        title={"text": "keys (major minor), evenly spaced", "font": {"color": FAINT, "size": 11}},
    )
    up = plot_axis(
        tickmode="array",
        tickvals=list(range(len(lists))),
        ticktext=[_name(tag) for tag in lists],
        range=[max(1, len(lists)) - 0.5, -0.5],
        showgrid=False,
        automargin=True,
        tickfont={"color": INK},
    )
    layout = plot_layout(height(len(lists)), barmode="overlay", bargap=0.3, xaxis=across, yaxis=up)
    return {"data": traces, "layout": layout | {"margin": {"l": 8, "r": 12, "t": 4, "b": 44}}}


def borders_of(lists: Mapping[str, Intervals]) -> Array:
    """The newest starts and ends of the intervals, without END: KEY_DTYPE, shape (MOST_BORDERS) at most."""
    return _every_border(lists)[-MOST_BORDERS:]


def _every_border(lists: Mapping[str, Intervals]) -> Array:
    known = [part for each in lists.values() for part in (each.starts, each.ends)]
    every: Array = np.unique(np.concatenate([np.empty(0, KEY_DTYPE), *known]))
    before_end: Array = every[every != np.array(tuple(END), KEY_DTYPE)]
    return before_end


def timeline_note(lists: Mapping[str, Intervals], too_long: Mapping[str, int]) -> str:
    """How much of the intervals is drawn, and of what none is."""
    every = len(_every_border(lists))
    shown = f"the newest {MOST_BORDERS} of {count(every)} starts and ends" if every > MOST_BORDERS else ""
    left_out = [f"▲ {tag}: {count(amount)} intervals are too many to be drawn" for tag, amount in too_long.items()]
    none = [f"{tag} has none" for tag, each in lists.items() if not len(each)]
    return " · ".join(part for part in [shown, *left_out, *none] if part)


def _bars(place: int, intervals: Intervals, borders: Array, colours: dict[tuple[str, str], str]) -> Figure:
    """The intervals of the tag in this place that reach into the borders."""
    is_seen = np.searchsorted(borders, intervals.ends) > 0
    starts, ends = intervals.starts[is_seen], intervals.ends[is_seen]
    begins = np.searchsorted(borders, starts)  # 0 for one that began before them
    widths = np.searchsorted(borders, ends) - begins  # an open one reaches one step beyond the last border
    payloads = list(zip(intervals.urls[is_seen], intervals.checksums[is_seen], strict=True))
    for payload in payloads:
        colours.setdefault(payload, COLOURS[len(colours) % len(COLOURS)])
    return {
        "type": "bar",
        "orientation": "h",
        "base": begins.tolist(),
        "x": widths.tolist(),
        "y": [place] * len(payloads),
        "marker": {"color": [colours[payload] for payload in payloads], "line": {"color": "#121820", "width": 1}},
        "hovertext": [
            f"{escape(url, quote=False)}<br>{key_words(Key(*start))} to {key_words(Key(*end))}<br>checksum "
            f"{escape(checksum[:12], quote=False) or 'none'}"
            for (url, checksum), start, end in zip(payloads, starts.tolist(), ends.tolist(), strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _name(tag: str) -> str:
    """A tag's name as the axis has it. On a phone a long one would leave no room, and ends differ more than middles."""
    short = tag if len(tag) <= 2 * NAME_LETTERS else f"{tag[:NAME_LETTERS]}…{tag[-NAME_LETTERS:]}"
    return escape(short, quote=False)
