"""Elements that tabs are made of."""

from typing import Any

from dash import dcc, html

from dashboard.tabs.figures import CHART_HEIGHT, chart, graph_config

HIDDEN: dict[str, Any] = {"aria-hidden": "true"}
UNPRESSED: dict[str, Any] = {"aria-pressed": "false"}

Trace = tuple[str, str, str]
"""Name, column of frames.COLUMNS, colour."""


def attributes(**named: str) -> dict[str, Any]:
    """Attributes whose names have a `-`, written with `_`."""
    return {name.replace("_", "-"): value for name, value in named.items()}


def aria(label: str, **further: str) -> dict[str, Any]:
    """`aria-label`, and further attributes of that family."""
    return attributes(aria_label=label, **further)


def data(**named: str) -> dict[str, Any]:
    """`data-` attributes."""
    return {f"data-{name}": value for name, value in named.items()}


def panel_head(title: str, note: str) -> Any:
    """The head of a panel; note: id of what a script writes next to the title."""
    return html.Div([html.H2(title), html.Span("", id=note, className="aside")], className="panel-head")


def section(title: str, name: str, note: str) -> Any:
    """A panel whose contents a script makes; name: id of the element for these."""
    return html.Section([panel_head(title, note), html.Div(id=name)], className="panel", **aria(title))


def chart_panel(name: str, title: str, traces: tuple[Trace, ...], unit: str, *, height: int = CHART_HEIGHT) -> Any:
    """A live chart over time, drawn by assets/charts.js while it is seen.

    name: its element is `chart-NAME`, and what stands beside its title `note-NAME`; `T.scales[NAME]` and
    `T.notes[NAME]` in the scripts say how its axis lies and what that note is, where the common ones do not do.
    """
    keys = [html.Span([html.I(style={"background": colour}), label], className="key") for label, _, colour in traces]
    return html.Figure(
        className="panel",
        children=[
            html.Figcaption(
                [
                    html.H2(title),
                    html.Span(keys if len(keys) > 1 else [], className="keys"),
                    html.Span("", id=f"note-{name}", className="note"),
                ]
            ),
            dcc.Graph(
                id=f"chart-{name}",
                className="chart",
                figure=chart(*traces, unit=unit, height=height),
                config=graph_config(),
                style={"height": f"{height}px"},
            ),
        ],
    )
