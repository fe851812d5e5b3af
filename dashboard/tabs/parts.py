"""Elements that tabs are made of."""

from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import ctx, dcc, html, set_props

from dashboard.tabs.figures import CHART_HEIGHT, chart, graph_config

HIDDEN: dict[str, Any] = {"aria-hidden": "true"}
UNPRESSED: dict[str, Any] = {"aria-pressed": "false"}

ASKING = "Asking the daemon …"
"""What stands where nothing is known yet."""

CHOOSE = "choose"
"""The dcc.Store that `chosen` sets."""

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


def live(figure: str, form: str = "number", *, dead: str | None = None, **further: Any) -> Any:
    """A figure of the stream, kept up to date by assets/live.js; docs/live-elements.md has the paths and the formats.

    figure: its path, such as `group.commit_ms.p99`. dead: what stands there without data in place of a dash; `keep`:
    the figure as it was.
    """
    shown = data(live=figure, format=form) | ({} if dead is None else data(dead=dead))
    return html.Span("", **shown, **further)


def when(condition: str, *children: Any, **further: Any) -> Any:
    """What is there only while these figures, separated by spaces, are neither 0 nor nothing; `!` turns one round."""
    return html.Span(list(children), hidden=True, **data(**{"if": condition}), **further)


def over(figure: str, limit: str | None = None) -> dict[str, Any]:
    """Attributes of an element that stands out while a figure is over its limit: another figure, or a number."""
    return data(over=figure) | ({} if limit is None else data(limit=limit))


def tick(name: str, *sections: str, every_ms: int = 0) -> Any:
    """A store for callbacks to draw on: its data is set anew when a section of the stream, or the view, has changed.

    every_ms: so often at most, and without sections just so often. Its data: `view`, the choices in the address; `dead`
    without data from the daemon; `at`, the time of the newest frame in ms.
    """
    of = data(of=" ".join(sections)) if sections else {}
    return html.Div(dcc.Store(id=name), hidden=True, **data(tick=name, every=str(every_ms)), **of)


def chosen(**change: str | None) -> tuple[str, dict[str, Any]]:
    """What to set to change what the address chooses: `experiment`, `visits`, `channel`, `tags` or another.

    The data of `tick` has it as `view`, by which callbacks draw.
    """
    return CHOOSE, {"data": change}


def choose(**change: str | None) -> None:
    """Change what is chosen from within a callback, see `chosen`; raises TypeError on what no page chooses."""
    for name, value in change.items():
        if not isinstance(value, str | None):
            raise TypeError(f"{name} is no text")
    set_props(*chosen(**change))


def pressed_of(kind: str) -> Any:
    """Return what the id of the pressed key says, of those with ids `{kind: …}`; None where one was only put in."""
    return ctx.triggered_id[kind] if ctx.triggered[0]["value"] else None


def widths(*shares: float) -> dict[str, Any]:
    """The style of `columns` that share their width like this, where there is room to stand side by side."""
    return {"--columns": " ".join(f"minmax(0, {share}fr)" for share in shares)}


def panel_head(title: str, note: str) -> Any:
    """The head of a panel; note: id of what a script writes next to the title."""
    return html.Div([html.H2(title), html.Span("", id=note, className="aside")], className="panel-head")


def section(title: str, name: str, note: str) -> Any:
    """A panel whose contents a script makes; name: id of the element for these."""
    return html.Section([panel_head(title, note), html.Div(id=name)], className="panel", **aria(title))


def dialog(name: str, *children: Any, title: str = "") -> Any:
    """A dialog, closed: it is open while its `opened` is true, and Escape closes it."""
    return dmc.Modal(
        list(children),
        id=name,
        title=title,
        opened=False,
        centered=True,
        closeButtonProps={"aria-label": "Close"},
        transitionProps={"duration": 0},
    )


def key(label: str, colour: str, look: str = "solid") -> Any:
    """What a colour of a chart means; look: `solid`, `dotted` or `dashed` as a line is, or `block`."""
    style: dict[str, Any] = {"background": colour}
    if look in ("dotted", "dashed"):
        style = {"width": "16px", "height": 0, "borderTop": f"2px {look} {colour}"}
    elif look == "block":
        style |= {"width": "9px", "height": "9px"}
    return html.Span([html.I(style=style, **HIDDEN), label], className="key")


def room(height: int) -> dict[str, str]:
    """The style of what a Graph of so many px is in: there is none before plotly.js has come, and nothing may jump."""
    return {"minHeight": f"{height}px"}


def drawn_panel(name: str, title: str, figure: Any, height: int, *beside: Any, note: str = "aside") -> Any:
    """A chart that a callback draws: the `figure` of the Graph NAME; height: in px.

    beside: what stands by the title, before what NAME-note says. note: that one's class. NAME-drawn: what a screen
    reader reads in place of the chart, its `aria-label`.
    """
    drawn = dcc.Graph(id=name, figure=figure, config=graph_config(), style={"height": f"{height}px"})
    said = html.Span("", id=f"{name}-note", className=note)
    caption = html.Figcaption([html.H2(title), *beside, said], className="panel-head")
    # Dash passes no name for screen readers on to a Graph.
    picture = html.Div(drawn, id=f"{name}-drawn", role="img", style=room(height), **aria(title))
    return html.Figure([caption, picture], className="panel")


def chart_panel(
    name: str,
    title: str,
    traces: tuple[Trace, ...],
    unit: str,
    *,
    height: int = CHART_HEIGHT,
    axis: Mapping[str, Any] | None = None,
    note: Any = "",
) -> Any:
    """A live chart over time, drawn by assets/charts.js while it is seen.

    name: its element is `chart-NAME`. axis: how the axis of values lies; see `chart`. note: what stands beside its
    title.
    """
    keys = [html.Span([html.I(style={"background": colour}), label], className="key") for label, _, colour in traces]
    return html.Figure(
        className="panel",
        children=[
            html.Figcaption(
                [
                    html.H2(title),
                    html.Span(keys if len(keys) > 1 else [], className="keys"),
                    html.Span(note, className="note"),
                ]
            ),
            html.Div(
                dcc.Graph(
                    id=f"chart-{name}",
                    className="chart",
                    figure=chart(*traces, unit=unit, height=height, axis=axis),
                    config=graph_config(),
                    style={"height": f"{height}px"},
                ),
                style=room(height),
            ),
        ],
    )
