"""The layout of the tab Instruments: the grid, the worst instruments, and the orbit."""

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from dashboard.tabs.figures import empty, graph_config
from dashboard.tabs.instruments.drawer import UNSEEN
from dashboard.tabs.instruments.orbit import ORBIT_HEIGHT
from dashboard.tabs.instruments.shown import MISSING_FRESH_S
from dashboard.tabs.instruments.worst import COLUMNS
from dashboard.tabs.parts import ASKING, aria, room, tick, when
from dashboard.tabs.tables import table

LASTS = (200, 1000, 10_000)
"""How many triggers somebody may look back at."""
LAST = 1000
"""Of these the default."""

HOUR = "hour"
"""In place of a number of triggers: those of an hour, as far as the daemon looks back."""

EVERY_MS = 1000
AGAIN_MS = int(1000 * MISSING_FRESH_S)


def panel() -> list[Any]:
    """The grid, which the script moves to the tab that is seen; the list of the worst; the orbit."""
    return [
        tick("orbit-tick", every_ms=EVERY_MS),
        tick("worst-tick", every_ms=AGAIN_MS),
        tick("states-tick", "states/{group}", every_ms=EVERY_MS),
        dcc.Store(id="worst-shown"),
        dcc.Store(id="orbit-shown"),
        dmc.Select(
            id="find-instrument",
            placeholder="Find an instrument",
            data=[],
            searchable=True,
            nothingFoundMessage="type a part of its name",
            size="xs",
            w=280,
            mb="xs",
            **aria("Find an instrument"),
        ),
        html.Section(className="grids", **aria("Instruments, each with its state")),
        html.Div([_worst(), _orbit()], className="columns"),
    ]


def _worst() -> Any:
    lasts = [{"value": str(last), "label": f"{last:,}"} for last in LASTS] + [{"value": HOUR, "label": "1 hour of"}]
    chosen = _select("missing-last", "Triggers looked back at", lasts, str(LAST))
    return html.Section(
        [
            _head(html.H2("Worst of the last"), chosen, html.H2("triggers"), note="worst-note"),
            html.Div(
                table("worst", COLUMNS),
                id="worst-listed",
                className="listed",
                hidden=True,
                style={"maxHeight": f"{ORBIT_HEIGHT}px"},
            ),
            html.P(ASKING, id="worst-nothing", className="nothing"),
        ],
        className="panel",
    )


def _orbit() -> Any:
    return html.Section(
        [
            _head(
                html.H2("Orbit"),
                _select("orbit-choice", "What is plotted against the instruments", [], None),
                dmc.Switch(id="orbit-calibrated", label="calibrated", checked=False, size="xs", style=UNSEEN),
                note="orbit-note",
            ),
            html.Div(
                dcc.Graph(
                    id="orbit",
                    figure=empty(ORBIT_HEIGHT),
                    config=graph_config(),
                    style={"height": f"{ORBIT_HEIGHT}px"},
                ),
                style=room(ORBIT_HEIGHT),
            ),
            html.P("", id="orbit-missing", className="hint"),
        ],
        className="panel",
    )


def _head(*shown: Any, note: str) -> Any:
    """The head of a panel; nothing may look as if it were of now when it is not."""
    kept = when("page.dead", " · as last received")
    paused = when("view.pausedAt", " · as paused")
    return html.Div(
        [*shown, html.Span([html.Span("", id=note), kept, paused], className="note")], className="panel-head"
    )


def _select(name: str, label: str, offered: list[Any], value: str | None) -> Any:
    return dmc.Select(
        id=name,
        data=offered,
        value=value,
        size="xs",
        w=104,
        allowDeselect=False,
        checkIconPosition="right",
        **aria(label),
    )
