"""One instrument: a drawer with its state and the trend of its channels, asked of the daemon when a cell is chosen."""

import asyncio
from typing import Any

import dash_mantine_components as dmc
import plotly.graph_objects as go
from dash import ClientsideFunction, Dash, Input, Output, dcc, html

from dashboard import zone
from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.tabs.figures import STRIP_HEIGHT, TRENDS, empty, graph_config, missing_strip, trends
from dashboard.tabs.parts import HIDDEN, aria
from dashboard.words import moment, time
from schemas.api.readings import Missing, Readings
from schemas.decimation import SECOND_NS
from schemas.states import STATE_LETTERS, InstrumentState

TREND_S = 300
SPANS = {TREND_S: "5 min", 3_600: "1 h", 86_400: "1 d", 30 * 86_400: "30 d", 366 * 86_400: "1 y"}
"""How far back the trend can go, in s."""

RAW_MOST_S = 3_600
"""Of a longer trend readings are drawn of the last `TREND_S` alone: the server would go through all partitions."""

POINTS = 600
LAST = 1000
"""Triggers of which its missing history is shown."""

NAMED = 2
"""Stretches that were reduced of which the note names the time, the newest."""

RECENT_S = 2.0
EMPTY = empty(STRIP_HEIGHT)
UNSEEN = {"display": "none"}
REFRESH_MS = 4_000
LONG_MS = 60_000
"""A trend of more than `TREND_S` is asked for anew so often."""

STATE_WORDS: dict[InstrumentState, tuple[str, str]] = {
    InstrumentState.OK: ("■", "ok: in every one of the last triggers"),
    InstrumentState.IDLE: ("·", "no trigger: nothing to judge it by"),
    InstrumentState.LATE: ("◐", "late: its last readings came after their trigger had closed"),
    InstrumentState.MISSING: ("✕", "missing: absent from some of the last triggers"),
    InstrumentState.DESYNCHRONISED: ("≠", "out of step: its trigger numbers or its clock differ from the others'"),
    InstrumentState.SILENT: ("▲", "silent: nothing from it lately, while triggers go on"),
    InstrumentState.NEVER: ("○", "never heard: nothing from it since the daemon started"),
}


def drawer() -> Any:
    """The drawer, closed, with what it needs; the grid's script sets `picked`."""
    return html.Div(
        [
            dcc.Store(id="picked"),
            dcc.Interval(id="trend-again", interval=REFRESH_MS, disabled=True),
            dmc.Drawer(
                id="drawer",
                opened=False,
                position="right",
                size="min(30rem, 100vw)",
                padding="md",
                closeButtonProps={"aria-label": "Close"},
                # Instruments that are chosen next stay in reach, and the live page in sight.
                withOverlay=False,
                lockScroll=False,
                trapFocus=False,
                returnFocus=False,
                transitionProps={"duration": 0},
                children=html.Div(
                    id="trend",
                    children=[
                        html.P("", id="trend-state"),
                        dmc.SegmentedControl(
                            id="trend-span",
                            value=str(TREND_S),
                            data=[{"value": str(span_s), "label": label} for span_s, label in SPANS.items()],
                            size="xs",
                            **aria("How far back the trend goes"),
                        ),
                        html.P("", id="trend-note", role="status"),
                        html.P("Asking the daemon for its readings …", className="asking"),
                        html.P("", id="trend-missing"),
                        # Always there: what is put in anew with every answer flickers.
                        dcc.Graph(id="missing-strip", figure=EMPTY, config=graph_config(), style=UNSEEN),
                        html.Div(
                            dcc.Graph(id="trend-graph", figure=EMPTY, config=graph_config(), style=UNSEEN),
                            id="trend-chart",
                        ),
                    ],
                ),
            ),
        ]
    )


def drawer_callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Declare the drawer's callbacks; they are async, a synchronous one would hold up the stream of every browser."""
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction(namespace="triggerlog", function_name="closed"),
        Input("drawer", "opened"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("drawer", "opened"),
        Output("drawer", "title"),
        Output("trend-again", "disabled"),
        Output("trend-graph", "style"),
        Input("picked", "data"),
        prevent_initial_call=True,
    )
    async def pick(picked: dict[str, Any] | None) -> tuple[bool, str, bool, Any]:
        if picked is None:
            return False, "", True, UNSEEN
        return True, picked["name"], False, UNSEEN

    @app.callback(
        Output("trend-state", "children"),
        Output("trend-note", "children"),
        Output("trend-missing", "children"),
        Output("missing-strip", "figure"),
        Output("missing-strip", "style"),
        Output("trend-graph", "figure"),
        Output("trend-graph", "style", allow_duplicate=True),
        Output("trend-again", "interval"),
        Input("picked", "data"),
        Input("trend-again", "n_intervals"),
        Input("trend-span", "value"),
        prevent_initial_call=True,
        running=[(Output("trend", "className"), "asking", "answered")],
    )
    async def show(picked: dict[str, Any] | None, _again: int | None, span: str) -> tuple[Any, ...]:
        span_s = int(span) if span in map(str, SPANS) else TREND_S  # a browser may send anything
        every_ms = REFRESH_MS if span_s == TREND_S else LONG_MS
        if picked is None:
            return *_outputs("", ""), every_ms
        return *await _shown(hub, api, picked, span_s), every_ms


def _outputs(
    state: Any, note: str, missing: str = "", strip: go.Figure | None = None, trend: go.Figure | None = None
) -> tuple[Any, ...]:
    """The outputs of `show`; without a strip or a trend there is none to be seen."""
    return state, note, missing, *_drawn(strip), *_drawn(trend)


def _drawn(figure: go.Figure | None) -> tuple[Any, dict[str, str]]:
    return (EMPTY, UNSEEN) if figure is None else (figure, {"height": f"{figure.layout.height}px"})


async def _shown(hub: Hub, api: DaemonApi, picked: dict[str, Any], span_s: int) -> tuple[Any, ...]:
    group, instrument = picked["group"], int(picked["instrument"])
    if hub.status is None or group not in hub.status.groups:
        return _outputs("", "No readings to show: there is no such group.")  # a browser may send any name
    names = hub.names.get(group, [])
    is_named = 0 <= instrument < len(names)
    name = names[instrument] if is_named else ""
    problem = hub.problem or (None if is_named else "its name is not known")
    if problem is not None:
        return _outputs(state(hub, group, instrument, name), f"No readings to show: {problem}.")
    now_ns = hub.status.time_ns
    start_ns = now_ns - span_s * SECOND_NS
    raw_from_ns = start_ns if span_s <= RAW_MOST_S else now_ns - TREND_S * SECOND_NS
    try:
        readings, history = await asyncio.gather(
            api.readings(group, name, start_ns=start_ns, end_ns=now_ns, points=POINTS, raw_from_ns=raw_from_ns),
            api.missing(group, last=LAST, instrument=name),
        )
    except DaemonUnavailable as error:
        return _outputs(state(hub, group, instrument, name), f"No readings to show: {error}.")
    marks = [mark for mark in hub.marks if mark.group in (None, group)]
    return _outputs(
        state(hub, group, instrument, name),
        note(readings, span_s),
        lateness(history, instrument),
        missing_strip(history, instrument, marks) if history.missing else None,
        trends(readings, now_ns=now_ns, start_ns=start_ns, marks=marks)
        if readings.time_ns or readings.reduced
        else None,
    )


def state(hub: Hub, group: str, instrument: int, name: str) -> Any:
    """The instrument's state in words, with its glyph; of one that is out of step also by how much."""
    if hub.problem is not None or hub.status is None or group not in hub.status.groups:
        return "state unknown: the daemon does not answer"
    states = hub.status.groups[group].states
    if not 0 <= instrument < len(states):
        return f"the daemon has no instrument {instrument} in {group}"
    found = STATE_LETTERS[states[instrument]]
    glyph, words = STATE_WORDS[found]
    for slip in hub.status.groups[group].slips:
        if slip.instrument == name:
            words = f"{words}; {slip}"
    shown: dict[str, Any] = {"data-state": found.value}
    return html.Span([html.Span(f"{glyph} ", **HIDDEN), words], **shown)


def note(readings: Readings, span_s: int) -> str:
    """What the trend shows, in words."""
    raw_s = span_s if span_s <= RAW_MOST_S else TREND_S
    last = f"the last {raw_s // 60} minutes"
    found = f"Nothing stored from it in {last}."
    if readings.time_ns:
        of = f" First {TRENDS} of {len(readings.channels)} channels." if len(readings.channels) > TRENDS else ""
        rate = f"{readings.stored / raw_s:,.3g}/s"
        newest = f"the newest of {_clock(readings.time_ns[-1])}"
        found = f"{readings.stored:,} readings stored in {last} ({rate}), {newest}.{of}"
    cut = " There are more than are looked at: the oldest are left out." if readings.cut else ""
    before = f" What was not reduced is drawn of {last} alone." if span_s > RAW_MOST_S else ""
    return f"{found}{cut}{before}{_reduced(readings)}"


def _reduced(readings: Readings) -> str:
    """Which stretches were reduced, and what is drawn of them."""
    if not readings.decimated_from_ns:
        return ""
    spans = [
        f"{moment(begin / 1e6)} to {moment(end / 1e6)}"
        for begin, end in zip(readings.decimated_from_ns, readings.decimated_to_ns, strict=True)
    ]
    more = f", and {len(spans) - NAMED:,} more" if len(spans) > NAMED else ""
    said = f" Reduced: {', '.join(spans[-NAMED:])}{more} {zone.label()}"
    found = readings.reduced
    if found is None:
        return f"{said}, of which there are no figures."
    steps = sorted(set(found.step_s))
    length = " and ".join(f"{step:,.6g} s" for step in steps)
    coarser = f", coarser than the {found.asked_step_s:,.3g} s that fit" if found.coarser else ""
    return f"{said}; the band is from the least to the greatest, with the mean, in steps of {length}{coarser}."


def lateness(history: Missing, instrument: int) -> str:
    """How often it was missing and late, and when it was last heard, in words."""
    missing = sum(history.missing.get(str(instrument), []))
    share = f" ({100 * missing / history.triggers:.3g} %)" if missing else ""
    heard = history.heard_s[0]
    last = "never heard since the daemon started" if heard is None else f"last heard {_ago(heard)}"
    return (
        f"Missing from {missing:,} of the last {history.triggers:,} triggers{share}, "
        f"{history.late[0]:,} readings late since the daemon started, {last}."
    )


def _ago(seconds: float) -> str:
    return "just now" if seconds < RECENT_S else f"{seconds:,.0f} s ago"


def _clock(time_ns: int) -> str:
    ms = time_ns // 10**6
    return f"{time(ms)}.{ms % 1000:03d} {zone.label()}"
