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
from dashboard.tabs.parts import HIDDEN
from dashboard.words import time
from schemas.api.readings import Missing, Readings
from schemas.states import STATE_LETTERS, InstrumentState

TREND_S = 300
POINTS = 600
LAST = 1000
"""Triggers of which its missing history is shown."""

RECENT_S = 2.0
EMPTY = empty(STRIP_HEIGHT)
UNSEEN = {"display": "none"}
REFRESH_MS = 4_000

STATE_WORDS: dict[InstrumentState, tuple[str, str]] = {
    InstrumentState.OK: ("■", "ok: in every one of the last triggers"),
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
        Input("picked", "data"),
        Input("trend-again", "n_intervals"),
        prevent_initial_call=True,
        running=[(Output("trend", "className"), "asking", "answered")],
    )
    async def show(picked: dict[str, Any] | None, _again: int | None) -> tuple[Any, ...]:
        if picked is None:
            return _outputs("", "")
        return await _shown(hub, api, picked)


def _outputs(
    state: Any, note: str, missing: str = "", strip: go.Figure | None = None, trend: go.Figure | None = None
) -> tuple[Any, ...]:
    """The outputs of `show`; without a strip or a trend there is none to be seen."""
    return state, note, missing, *_drawn(strip), *_drawn(trend)


def _drawn(figure: go.Figure | None) -> tuple[Any, dict[str, str]]:
    return (EMPTY, UNSEEN) if figure is None else (figure, {"height": f"{figure.layout.height}px"})


async def _shown(hub: Hub, api: DaemonApi, picked: dict[str, Any]) -> tuple[Any, ...]:
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
    start_ns = now_ns - TREND_S * 1_000_000_000
    try:
        readings, history = await asyncio.gather(
            api.readings(group, name, start_ns=start_ns, end_ns=now_ns, points=POINTS),
            api.missing(group, last=LAST, instrument=name),
        )
    except DaemonUnavailable as error:
        return _outputs(state(hub, group, instrument, name), f"No readings to show: {error}.")
    marks = [mark for mark in hub.marks if mark.group in (None, group)]
    return _outputs(
        state(hub, group, instrument, name),
        note(readings),
        lateness(history, instrument),
        missing_strip(history, instrument, marks) if history.missing else None,
        trends(readings, now_ns=now_ns, start_ns=start_ns, marks=marks) if readings.time_ns else None,
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


def note(readings: Readings) -> str:
    """What the trend shows, in words."""
    minutes = TREND_S // 60
    if not readings.time_ns:
        return f"Nothing stored from it in the last {minutes} minutes."
    of = f" First {TRENDS} of {len(readings.channels)} channels." if len(readings.channels) > TRENDS else ""
    rate = f"{readings.stored / TREND_S:,.3g}/s"
    newest = f"the newest of {_clock(readings.time_ns[-1])}"
    return f"{readings.stored:,} readings stored in the last {minutes} minutes ({rate}), {newest}.{of}"


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
