"""The layout of the tab Conditions: figures, tags, a type's intervals over keys, two tags compared, and who asks."""

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from dashboard.tabs.conditions.figures import height
from dashboard.tabs.conditions.folders import folders_panel
from dashboard.tabs.figures import empty, graph_config
from dashboard.tabs.parts import aria, data, live, over, panel_head, room, tick, when
from dashboard.tabs.tables import Column, columns, table

LOOK_MS = 3000
MOST_TAGS = 6
"""Tags in the timeline."""

TAGS = [
    Column(name="name", label="Global tag", width=180, wide=True),
    Column(name="status", label="Status", words=True, width=104, wide=True),
    *columns(("lists", "Types", "payload lists: one a type"), ("intervals", "Intervals")),
    Column(name="author", label="Author", words=True, width=110, wide=True),
    *columns(("created", "Created"), ("changed", "Changed"), width=164),
]
CLIENTS = [
    Column(name="address", label="Address", width=170, wide=True),
    Column(name="agent", label="User agent", words=True),
    *columns(("requests", "Requests"), ("rate", "Requests/s"), ("sent", "Sent", "bodies of the answers")),
]
DIFFERENCES = [
    Column(name="type", label="Type", width=150, wide=True),
    *columns(("start", "From", "key"), ("end", "Until", "key, which is not part of it"), width=170),
    Column(name="left", label="In the first tag", words=True),
    Column(name="right", label="In the second tag", words=True),
]


def panel() -> list[Any]:
    """What to do where no server runs, else all that there is to see."""
    return [
        tick("conditions-tick", every_ms=LOOK_MS),
        dcc.Store(id="conditions-listed"),
        dcc.Store(id="conditions-shown"),
        dcc.Store(id="conditions-offered"),
        html.Div([_none(), _served(), *folders_panel()], className="stack"),
    ]


def _served() -> Any:
    shown = [_tiles(), _tags(), _chosen(), _clients()]
    return html.Div(shown, className="stack", hidden=True, **data(**{"if": "conditions"}))


def _none() -> Any:
    return html.Section(
        [
            html.H2("No server of conditions"),
            html.P(
                [
                    "The daemon serves no conditions. Set ",
                    html.Code("serve = true"),
                    " in the section ",
                    html.Code("[conditions]"),
                    " of its configuration, and restart it. ",
                    html.Code("triggerlog conditions -h"),
                    " lists what can be done then.",
                ],
                className="hint",
            ),
        ],
        id="conditions-none",
        className="panel stack",
        hidden=True,
        **data(**{"if": "head !conditions"}),
    )


def _tiles() -> Any:
    limit = [" of ", live("conditions.limit_mib", "plain"), " in a process"]
    return html.Section(
        [
            _tile("rate", "Requests", "rate", "/s", ["what is valid at a key"]),
            _tile("p50", "p50", "p50_ms", "ms", ["in the server, last 10 s"]),
            _tile("p99", "p99", "p99_ms", "ms", ["in the server, last 10 s"]),
            _tile(
                "memory",
                "From memory",
                "from_memory",
                "%",
                ["of ", live("conditions.asked", "count"), " since the start"],
                form="percent",
            ),
            _tile("304", "Not modified", "not_modified", "", ["the client had it (304)"], form="count"),
            _tile(
                "kept",
                "In memory",
                "memory_mib",
                "MiB",
                [*limit, " · ", live("conditions.tags", "count"), " tags"],
            ),
            _tile(
                "running",
                "Processes",
                "running",
                ["of ", live("conditions.processes", "count")],
                [
                    live("conditions.state", "text"),
                    when("conditions.problem", ": ", live("conditions.problem", "text")),
                ],
                form="count",
                **over("conditions.wrong"),
            ),
        ],
        id="conditions-tiles",
        className="tiles",
        **aria("Figures of the server of conditions"),
    )


def _tile(
    name: str, label: str, figure: str, unit: Any, note: list[Any], *, form: str = "number", **attributes: Any
) -> Any:
    value = live(f"conditions.{figure}", form, className="value")
    return html.Div(
        [
            html.H2(label),
            html.P([value, html.Span(unit, className="unit")], className="number"),
            html.P(note, className="aside"),
        ],
        id=f"conditions-tile-{name}",
        className="tile",
        **attributes,
    )


def _problem(name: str) -> Any:
    return html.P("", id=name, className="outcome", role="status", hidden=True, **data(level="wrong"))


def _tags() -> Any:
    return html.Section(
        [
            panel_head("Global tags", "conditions-tags-note"),
            _problem("conditions-problem"),
            table("conditions-tags", TAGS, "There are no tags yet: triggerlog conditions import"),
        ],
        className="panel",
        **aria("Global tags"),
    )


def _clients() -> Any:
    return html.Section(
        [
            panel_head("Who asks", "conditions-clients-note"),
            table("conditions-clients", CLIENTS, "Nobody asked within the last minute."),
        ],
        className="panel",
        **aria("Clients of the server of conditions within the last minute"),
    )


def _chosen() -> Any:
    return html.Div(
        [
            html.Div([_choices(), *_timeline()], className="panel stack"),
            html.Section(
                [
                    panel_head("What differs", "conditions-differences-note"),
                    table("conditions-differences", DIFFERENCES, "Choose two tags above."),
                ],
                className="panel",
                **aria("What differs between the first two tags"),
            ),
        ],
        className="stack",
    )


def _choices() -> Any:
    common: dict[str, Any] = {"data": [], "size": "sm", "checkIconPosition": "right"}
    tags = dmc.MultiSelect(
        id="conditions-chosen",
        label="Tags; the first two are compared",
        value=[],
        maxValues=MOST_TAGS,
        searchable=True,
        **common,
    )
    type_ = dmc.Select(id="conditions-type", label="Payload type", allowDeselect=False, searchable=True, **common)
    return html.Div([tags, type_], className="order columns")


def _timeline() -> list[Any]:
    tall = height(1)
    graph = dcc.Graph(
        id="conditions-timeline", figure=empty(tall), config=graph_config(), style={"height": f"{tall}px"}
    )
    return [
        _problem("conditions-drawn-problem"),
        html.Figure(
            [
                html.Figcaption(
                    [html.H2("Intervals"), html.Span("", id="conditions-timeline-note", className="aside")],
                    className="panel-head",
                ),
                # Dash passes no name for screen readers on to a Graph.
                html.Div(graph, role="img", style=room(tall), **aria("Intervals of the chosen type by tag, over keys")),
            ]
        ),
    ]
