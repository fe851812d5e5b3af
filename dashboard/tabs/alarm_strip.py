"""The alarm strip above the tabs: new alarms in full, the rest behind a line; what one person orders holds for all."""

from typing import Any

import dash_mantine_components as dmc
import orjson
from dash import Dash, Input, State, dcc, html

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.forms import outcome
from dashboard.tabs.orders import REMEMBERED, Order, Orders
from dashboard.tabs.parts import HIDDEN, aria, data, live, when

SHELVES_MIN = (15, 60, 480)
"""What the page offers, in minutes; 8 hours are a shift."""

ASKED = "alarm-order"
OUTCOME = "alarm-outcome"
WORDS = {"acknowledge": "Acknowledge", "shelve": "Shelve", "reactivate": "Reactivate"}
"""What the buttons order, by the last part of its path."""

LOST = "Not done: this page has lost the connection to its server."


def alarm_strip() -> Any:
    """Two lists of the alarms in force, and for screen readers what is new in them."""
    new = html.Div(
        [_template()], className="alarm-lines", **data(each="alarms", by="key", where="is_new", news="alarm-news")
    )
    quiet = html.Div([_template()], className="alarm-lines", **data(each="alarms", by="key", where="is_quiet"))
    below = html.Details(
        [html.Summary(live("alarm_count.quiet", "text", dead="keep")), quiet],
        id="alarms-quiet",
        hidden=True,
        **data(**{"if": "alarm_count.quiet"}),
    )
    return html.Div(
        [
            html.Section([new, below], id="alarms", **aria("Alarms")),
            outcome(OUTCOME),
            dcc.Store(id=ASKED),
            dmc.VisuallyHidden(html.Div(id="alarm-news", role="status")),
        ],
        **data(frame="alarms"),
    )


def register(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Declare what the buttons of the lines do."""
    orders = Orders(api)

    @app.callback(Input(ASKED, "data"), State(REMEMBERED, "data"), prevent_initial_call=True)
    async def give(asked: dict[str, Any], token: str | None) -> None:
        await orders.give(order_of(asked, hub), token)


def order_of(asked: dict[str, Any], hub: Hub) -> Order:
    """The order that a button of an alarm's line gives: its `order`, the alarm's `key`, and `for_s` of a shelf."""
    key, way = asked["key"], asked["order"]
    bodies = {"acknowledge": {"keys": [key]}, "shelve": {"key": key, "for_s": asked.get("for_s")}}
    texts = [alarm.text for alarm in (hub.status.alarms if hub.status else ()) if alarm.key == key]
    return Order(
        method="POST",
        path=f"/alarms/{way}",
        body=bodies.get(way, {"key": key}),
        what=f"{WORDS.get(way, way)}: {texts[0] if texts else key}",
        done="",  # the line shows it
        outcome=OUTCOME,
    )


def _template() -> Any:
    summary = [
        html.Span(
            [
                live(".glyph", "text", dead="keep", className="glyph", **HIDDEN),
                live(".severity", "text", dead="keep", className="word"),
                " ",
                html.Strong(live(".text", "text", dead="keep")),
                " ",
            ],
            className="words",
        ),
        html.Span(
            [
                "since ",
                live(".since_ms", "time", dead="keep"),
                " · ",
                live(".since_ms", "ago", dead="keep"),
                live(".dealt", "text", dead="keep"),
            ],
            className="since",
        ),
    ]
    line = html.Div(
        [
            html.Details(
                [html.Summary(summary), live(".action", "prose", dead="keep", className="action")], className="told"
            ),
            html.Div(_answers(), className="answers"),
        ],
        className="alarm",
        **data(set="key=.key severity=.severity attention=.attention"),
    )
    return html.Template(line)


def _answers() -> list[Any]:
    shelves = [_button(f"for {_time(minutes)}", "shelve", for_s=minutes * 60) for minutes in SHELVES_MIN]
    return [
        html.Span("", className="refused", role="status", **data(lost=LOST)),
        when(".is_new", _button(WORDS["acknowledge"], "acknowledge")),
        html.Details(
            [html.Summary(WORDS["shelve"]), *shelves], className="shelve", hidden=True, **data(**{"if": ".is_new"})
        ),
        when(".is_quiet", _button(WORDS["reactivate"], "reactivate")),
    ]


def _button(label: str, way: str, **further: int) -> Any:
    body = orjson.dumps({"order": way} | further).decode()
    return html.Button(label, type="button", className=way, **data(order=ASKED, body=body))


def _time(minutes: int) -> str:
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h"
