"""A run of snapshot readers drawn: a bar a client, query times, rates and blocks against time, and the cliff.

Each takes what is known of a run, and returns a figure of Plotly; beside it is what is said of it in words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from dashboard.tabs.figures import CALM, GREY, INK, LIMIT, RED, plot_axis, plot_layout
from dashboard.tabs.reads.snapshots.runs import Known
from dashboard.words import NONE, count, number, plain, seconds
from schemas.api.snapshots import (
    CLIENT_LETTERS,
    ClientState,
    CliffPoint,
    SnapshotCycles,
    SnapshotSample,
    SnapshotSettings,
    SnapshotsStatus,
)
from schemas.folders.folders import FolderLayout

TALL, LOW = 300, 230
POINTS = 900
"""Points of a cloud that are drawn at most."""

MEANS = 120
"""Points of a line at most, each the mean of a span: a snapshot counts when it is there, so that samples leap."""

FEW = 120
"""Clients whose bars have room for a glyph, and for a gap between them."""

TOP = 300
"""Percent of a cycle at which a bar ends: of what is later the words beside it tell."""

AMBER = "#f0b849"
DEEP = "#5f87ad"
SAND = "#c3b596"

LOOKS: Mapping[ClientState, tuple[str, str, str]] = {
    ClientState.READING: ("●", CALM, ""),
    ClientState.CONNECTING: ("◔", DEEP, ""),
    ClientState.LATE: ("▲", AMBER, "/"),
    ClientState.PROCESSING: ("◑", SAND, ""),
    ClientState.WAITING: ("○", "#46566a", ""),
    ClientState.FAILED: ("✕", RED, "x"),
    ClientState.NOT_STARTED: ("·", GREY, ""),
    ClientState.ENDED: ("◼", GREY, ""),
}
"""Glyph, colour and pattern of a client's bar."""

LINES: Mapping[FolderLayout, str] = {
    FolderLayout.WINDOW: CALM,
    FolderLayout.BRIN: DEEP,
    FolderLayout.LATERAL: SAND,
    FolderLayout.CHANNEL_LATERAL: GREY,
    FolderLayout.CHANNEL_MAX: "#7fa893",
}
"""Colour of a layout's line in the cliff's chart."""

Figure = dict[str, Any]


# --- clients ----------------------------------------------------------------------------------------------------------


def clients(run: SnapshotsStatus) -> Figure:
    """A bar a client, as high as so much of its cycle is over, in %, and the deadline; its look says what it does."""
    states = [CLIENT_LETTERS[letter] for letter in run.states]
    looks, most = [LOOKS[state] for state in states], len(states)
    bars = {
        "type": "bar",
        "x": list(range(len(states))),
        "y": [min(percent, TOP) for percent in run.progress],
        "marker": {
            "color": [colour for _, colour, _ in looks],
            "pattern": {"shape": [shape for *_, shape in looks], "fgcolor": INK, "size": 5},
            "line": {"width": 0},
        },
        # What is reading may be at the begin of its cycle: its bar alone would not be seen.
        "text": [
            "" if state is ClientState.WAITING or most > FEW else look[0]
            for state, look in zip(states, looks, strict=True)
        ],
        "textposition": "outside",
        "textfont": {"size": 9},
        "cliponaxis": False,
        "hovertext": [
            f"client {client}: {state.value}, {percent} % of its cycle, {read} % of its snapshot"
            for client, (state, percent, read) in enumerate(zip(states, run.progress, run.read, strict=True))
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    top = max(110, min(TOP, 1.05 * max(run.progress, default=0)))
    layout = plot_layout(
        LOW,
        bargap=0.15 if most <= FEW else 0,
        xaxis=plot_axis(range=[-0.6, most - 0.4], title=_title("client"), showgrid=False),
        yaxis=plot_axis(range=[0, top], ticksuffix=" %"),
        shapes=[_level(100 * run.deadline_s / run.cycle_s)],
    )
    return {"data": [bars], "layout": layout}


def client_counts(run: SnapshotsStatus) -> dict[ClientState, int]:
    """How many clients do what, without what none does."""
    found = Counter(CLIENT_LETTERS[letter] for letter in run.states)
    return {state: found[state] for state in LOOKS if found[state]}


def clients_described(run: SnapshotsStatus) -> str:
    """The bars in words."""
    counts = ", ".join(f"{amount} {state.value}" for state, amount in client_counts(run).items())
    return f"A bar a client, as high as so much of its cycle is over: {counts or 'none reads'}"


# --- against time -----------------------------------------------------------------------------------------------------


def query_times(known: Known) -> Figure:
    """Seconds from the begin of a cycle until its snapshot was there, against when that was, and the deadline."""
    cycles = known.cycles
    late = [not in_time and not failed for in_time, failed in zip(cycles.in_time, cycles.failed, strict=True)]
    clouds = [
        _cloud(cycles, cycles.in_time, "in time", {"size": 4, "color": CALM, "opacity": 0.6}),
        _cloud(cycles, late, "late", {"size": 6, "color": AMBER, "symbol": "diamond"}),
        _cloud(cycles, cycles.failed, "failed", {"size": 7, "color": RED, "symbol": "x"}),
    ]
    limit_s = deadline_s(known.settings)
    highest = max((value for cloud in clouds for value in cloud["y"]), default=0.0)
    is_near = limit_s <= 4 * highest
    top = 1.08 * max(highest, limit_s) if is_near else max(1.15 * highest, 1e-3)
    layout = plot_layout(
        TALL,
        xaxis=_time(known),
        yaxis=plot_axis(range=[0, top], title=_title("seconds")),
        shapes=[_level(limit_s)] if is_near else [],
    )
    return {"data": clouds, "layout": layout}


def query_words(known: Known) -> str:
    """What the marks mean, and where the deadline is."""
    return f"◆ late · ✕ failed · deadline {plain(deadline_s(known.settings))} s"


def deadline_s(settings: SnapshotSettings) -> float:
    """Part of a cycle that may be spent with reading, in seconds of the clock."""
    return (settings.cycle_data_s - settings.processing_s) * settings.scale


def rows(known: Known) -> Figure:
    """Rows a second against time, and how many are asked for."""
    asked = known.settings.rows_asked if known.settings.ask == "snapshot" else None
    return _lines(known, [("row_rate", "rows/s", CALM, 1.0)], "rows/s", level=asked)


def megabytes(known: Known) -> Figure:
    """MB a second against time."""
    return _lines(known, [("byte_rate", "MB/s", CALM, 1e-6)], "MB/s")


def blocks(known: Known) -> Figure:
    """Blocks a second that the server read, and that it had in its cache, against time."""
    named = [("hit_rate", "blocks/s in the cache", GREY, 1.0), ("read_rate", "blocks/s read", CALM, 1.0)]
    return _lines(known, named, "blocks/s")


def blocks_words(known: Known) -> str:
    """Where the server does not say."""
    return "" if any(one.read_rate is not None for one in known.samples) else "the server does not say"


def time_words(known: Known, name: str, scale: float = 1.0) -> str:
    """The newest value of a line, and the range of all."""
    values = [value * scale for one in known.samples if (value := getattr(one, name)) is not None]
    if not values:
        return "no value yet"
    return f"now {number(values[-1])}, between {number(min(values))} and {number(max(values))}"


# --- the cliff --------------------------------------------------------------------------------------------------------


def cliff(lines: Sequence[tuple[FolderLayout, str, Sequence[CliffPoint]]]) -> Figure:
    """Blocks that are read again for a snapshot that was read just before, against its size.

    lines: the layout, the run and the points of each; the first is that of the run that is shown.
    """
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": layout.value,
            "x": [point.value_bytes / 1e6 for point in points],
            "y": [point.read for point in points],
            "text": [f"{layout.value}, {count(point.folders)} folders, run {run}" for point in points],
            "hovertemplate": "%{y:,} blocks read for %{x:,.3~g} MB<br>%{text}<extra></extra>",
            "line": {
                "color": LINES[layout],
                "width": 2.4 if place == 0 else 1.4,
                "dash": "solid" if place == 0 else "dot",
            },
            "marker": {"size": 6 if place == 0 else 4},
        }
        for place, (layout, run, points) in enumerate(lines)
    ]
    most = max((point.read or 0 for *_, points in lines for point in points), default=0)
    layout = plot_layout(
        LOW,
        xaxis=plot_axis(rangemode="tozero", title=_title("size of the snapshot, MB")),
        # A few blocks that were read again are no cliff.
        yaxis=plot_axis(range=[0, 1.06 * max(100, most)], title=_title("blocks read again"), hoverformat=",d"),
    )
    return {"data": traces, "layout": layout}


def cliff_words(points: Sequence[CliffPoint]) -> str:
    """Where the cliff is: the greatest snapshot of which nothing was read again, and the smallest of which much was."""
    said = [point for point in points if point.read is not None]
    if not said:
        return "the server does not say" if points else ""
    over = next((point for point in said if is_over_cliff(point)), None)
    if over is None:
        return f"none up to {_megabytes(said[-1])} MB"
    return f"at {_megabytes(over)} MB"


def is_over_cliff(point: CliffPoint) -> bool:
    """Whether a tenth of the blocks that a snapshot needs were read again."""
    read, hit = point.read or 0, point.hit or 0
    return read > 0.1 * (read + hit)


def cliff_described(points: Sequence[CliffPoint]) -> str:
    """The line of the run that is shown, in words."""
    ends = ", ".join(f"{NONE if one.read is None else count(one.read)} at {_megabytes(one)} MB" for one in points[-3:])
    return f"Blocks read again against the size of the snapshot: {ends or 'not measured'}"


# --- parts ------------------------------------------------------------------------------------------------------------


def _cloud(cycles: SnapshotCycles, chosen: Sequence[bool], name: str, look: Mapping[str, Any]) -> Figure:
    places = _thinned(list(compress(range(len(cycles)), chosen)))
    waited = {i: cycles.wait_s[i] + cycles.connect_s[i] + cycles.query_s[i] for i in places}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [short(cycles.due_s[i] + waited[i]) for i in places],
        "y": [short(waited[i]) for i in places],
        "text": [
            f"client {cycles.client[i]}, cycle {cycles.number[i]}: {seconds(cycles.query_s[i])} s query" for i in places
        ],
        "marker": dict(look),
        "hovertemplate": f"%{{y:.3~g}} s, {name}<br>%{{text}}<extra></extra>",
    }


def _lines(
    known: Known, named: Sequence[tuple[str, str, str, float]], unit: str, *, level: float | None = None
) -> Figure:
    step = -(-len(known.samples) // MEANS) or 1
    spans = [known.samples[at : at + step] for at in range(0, len(known.samples), step)]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": label,
            "x": [short(span[-1].t_s) for span in spans],
            "y": [_mean(span, name, scale) for span in spans],
            "line": {"color": colour, "width": 1.5},
            "hovertemplate": f"%{{y:,.4~g}} {label}<extra></extra>",
        }
        for name, label, colour, scale in named
    ]
    layout = plot_layout(
        LOW,
        hovermode="x unified",
        xaxis=_time(known),
        yaxis=plot_axis(rangemode="tozero", title=_title(unit)),
        shapes=[] if level is None else [_level(level, INK)],
    )
    return {"data": traces, "layout": layout}


def _mean(span: Sequence[SnapshotSample], name: str, scale: float) -> float | None:
    values = [value for one in span if (value := getattr(one, name)) is not None]
    return short(scale * sum(values) / len(values)) if values else None


def _thinned(values: Sequence[Any]) -> Sequence[Any]:
    """At most POINTS of them, evenly, the last one included."""
    step = -(-len(values) // POINTS) or 1
    return values[(len(values) - 1) % step :: step] if values else []


def _time(known: Known) -> Figure:
    last = max([1.0, *(one.t_s for one in known.samples[-1:])])
    return plot_axis(range=[0, last], title=_title("s since the first cycle"), hoverformat=",.4~g")


def _level(value: float, colour: str = LIMIT) -> Figure:
    line = {"color": colour, "width": 1.2, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": value, "y1": value, "line": line}


def _megabytes(point: CliffPoint) -> str:
    return number(point.value_bytes / 1e6)


def _title(text: str) -> dict[str, Any]:
    return {"text": text, "standoff": 6}


def short(value: float) -> float:
    """To what a chart can show: it travels to every browser."""
    return float(f"{value:.5g}")
