"""The alarm strip above the tabs: new alarms in full, the rest behind a line; what one person says holds for all."""

from typing import Any

import orjson
from dash import html

from dashboard.alarms.board import SHELVES_MIN
from dashboard.tabs.parts import HIDDEN, aria, data, live, when

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
            html.Div(id="alarm-news", role="status", className="unseen"),
        ],
        **data(frame="alarms"),
    )


def _template() -> Any:
    words = [
        live(".severity", "text", dead="keep", className="word"),
        " ",
        html.Strong(live(".text", "text", dead="keep")),
        " ",
        html.Span(
            [
                "since ",
                live(".since_ms", "time", dead="keep"),
                " · ",
                html.Span("", **data(since=".since_ms")),
                live(".dealt", "text", dead="keep"),
            ],
            className="since",
        ),
        " ",
        live(".action", "prose", dead="keep", className="action"),
    ]
    line = html.Div(
        [
            live(".glyph", "text", dead="keep", className="glyph", **HIDDEN),
            html.Div(words, className="words"),
            html.Div(_answers(), className="answers"),
        ],
        className="alarm",
        **data(set="key=.key severity=.severity attention=.attention"),
    )
    return html.Template(line)


def _answers() -> list[Any]:
    shelves = [_button(f"for {_time(minutes)}", "shelve", minutes=minutes) for minutes in SHELVES_MIN]
    return [
        html.Span("", className="refused", role="status", **data(lost=LOST)),
        when(".is_new", _button("Acknowledge", "acknowledge")),
        html.Details([html.Summary("Shelve"), *shelves], className="shelve", hidden=True, **data(**{"if": ".is_new"})),
        when(".is_quiet", _button("Reactivate", "recall")),
    ]


def _button(label: str, order: str, **body: int) -> Any:
    given = data(body=orjson.dumps(body).decode()) if body else {}
    return html.Button(label, type="button", className=order, **data(post=f"/alarms/{order}"), **given)


def _time(minutes: int) -> str:
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h"
