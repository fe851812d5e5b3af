"""The tab Storage: sizes, room left, and what an outage or a crash would mean.

The script in assets fills it from the sections of the status, and from `GET /answers/storage` while it is seen.
"""

from typing import Any

from dash import html

from dashboard.tabs.parts import aria


def panel() -> list[Any]:
    """The state of an outage, sizes, partitions, journals, durability and the account of every reading."""
    return [
        html.Div(
            className="stack",
            children=[
                html.P("", id="storage-problem", className="outcome", role="status", hidden=True),
                html.Div(
                    className="columns",
                    children=[
                        _section("Outage", "outage", note="outage-note"),
                        _section("Durability", "durability", note="durability-note"),
                    ],
                ),
                _section("Stored", "stored", note="stored-note"),
                html.Div(
                    className="columns",
                    children=[
                        _section("Partitions", "partitions", note="partitions-note"),
                        _section("Journal", "journals", note="journals-note"),
                    ],
                ),
                _section("Where every reading went since the daemon started", "account", note="account-note"),
            ],
        )
    ]


def _section(title: str, name: str, *, note: str) -> Any:
    head = html.Div([html.H2(title), html.Span("", id=note, className="aside")], className="panel-head")
    return html.Section([head, html.Div(id=name)], className="panel", **aria(title))
