"""The tab Live: how the writing goes now."""

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, dcc, html

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.figures import CALM, GREY
from dashboard.tabs.parts import aria, chart_panel, data, live, over, when
from dashboard.tabs.tab import Tab
from dashboard.tabs.tables import GRID, Column, search, table

TERMS = ("received", "committed", "duplicate", "refused", "aside", "dead", "waiting", "assembling")
ALARMING = {"refused": "refused", "aside": "aside", "dead": "dead_now"}
"""Terms that stand out, and by which figure: what was rejected and is stored by now is no trouble any more."""

COLUMNS = (
    Column(name="name", label="Group", press=True, width=120),
    Column(name="state", label="State", words=True, sort="desc"),
    Column(name="rate", label="Triggers committed/s", width=110),
    Column(name="p99", label="Commit p99, ms", width=96),
    Column(name="waiting", label="Backlog", width=84),
    Column(name="missing", label="Missing", width=84),
    Column(name="minute", label="Committed/s, last minute", spark=True, width=150),
)

EXPLAINED = ("refused", "aside", "dead")
SELDOM = ("aside",)
"""Most days nothing is set aside."""


def panel() -> list[Any]:
    """Charts, the conservation equation, the grid of instruments, the last events."""
    return [
        _groups(),
        html.Section(_charts(), className="charts", **aria("Charts")),
        _totals(),
        html.Section(className="grids", **aria("Instruments")),
        _events(),
    ]


def _groups() -> Any:
    """The table of groups, which is put in once there are several: its script is large."""
    return html.Section(
        [
            html.Div([html.H2("Groups"), html.Div(id="groups-found")], className="panel-head"),
            html.Div(id="groups-listed", className="listed"),
            html.Div(dcc.Store(id="groups-open-data"), id="groups-open", hidden=True, **data(needs=GRID[0])),
        ],
        id="groups-panel",
        className="panel",
        hidden=True,
        **aria("Groups"),
        **data(**{"if": "together.many !view.group"}),
    )


def callbacks(app: Dash, _hub: Hub, _api: DaemonApi) -> None:
    """Fill in the table of groups, and open the one whose name is pressed."""

    @app.callback(
        Output("groups-listed", "children"),
        Output("groups-found", "children"),
        Input("groups-open-data", "data"),
        prevent_initial_call=True,
    )
    async def fill(_: bool) -> Any:
        return table("groups", COLUMNS), search("groups", "Find a group")

    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("triggerlog", "group"),
        Input("groups-open", "title"),
        Input("groups-table", "cellRendererData"),
        prevent_initial_call=True,
    )


def _charts() -> list[Any]:
    few = when("group.words.few", "longest in place of p99: fewer than 1,000 commits in 10 s")
    budget = [few, when("limits.commit_p99_ms", " budget ", live("limits.commit_p99_ms", "plain"))]
    from_ = html.Span(["axis from ", html.Span("", className="axis-from")], hidden=True, className="axis-note")
    return [
        chart_panel(
            "rates",
            "Triggers/s",
            (("received", "received", GREY), ("committed", "committed", CALM)),
            "/s",
            axis={"from": "around", "least": 0.2},
            note=from_,
        ),
        chart_panel(
            "latency",
            "Commit latency, ms",
            (("p50", "p50", GREY), ("p99", "p99", CALM)),
            "ms",
            axis={"limit": "limits.commit_p99_ms"},
            note=budget,
        ),
        chart_panel(
            "backlog",
            "Backlog",
            (("open", "open", GREY), ("waiting", "waiting", CALM)),
            "triggers",
            axis={"least": 5},
            note="triggers",
        ),
        chart_panel(
            "missing",
            "Missing per trigger",
            (("missing", "missing", CALM),),
            "instruments",
            note=["of ", live("group.instruments", "count", dead="keep"), " instruments"],
        ),
    ]


def _totals() -> Any:
    terms: list[Any] = []
    for place, name in enumerate(TERMS):
        seldom = {"hidden": True} | data(**{"if": f"group.totals.{name}"}) if name in SELDOM else {}
        if place:
            terms.append(html.Span("=" if name == "committed" else "+", className="sign", **seldom))
        terms.append(_term(name, seldom))
    return html.Section(
        [
            html.H2("Readings since the daemon started"),
            html.P(terms, className="equation"),
            html.P(
                [
                    live("group.words.verdict", "text", dead="keep"),
                    when("group.totals.newest", " · newest ", live("group.totals.newest", "text", dead="keep")),
                ],
                className="verdict",
            ),
        ],
        id="totals",
        className="panel totals",
        **aria("Readings since the daemon started"),
        **data(set="adds=group.words.adds"),
    )


def _events() -> Any:
    line = html.Li(
        [
            html.Time(live(".t", "moment", dead="keep")),
            live(".severity", "text", dead="keep", className="severity"),
            live(".text", "text", dead="keep", className="words"),
        ],
        **data(set="severity=.severity"),
    )
    return html.Section(
        [
            html.H2("Last events"),
            html.Ol([html.Template(line)], id="events", **data(each="events", by="t text")),
            when("!events.0", html.P("No events yet.", className="nothing")),
        ],
        className="panel events",
    )


def _term(name: str, seldom: dict[str, Any]) -> Any:
    why = [live(f"group.words.{name}", "text", dead="keep")] if name in EXPLAINED else []
    alarming = over(f"group.totals.{ALARMING[name]}") if name in ALARMING else {}
    shown = html.B(live(f"group.totals.{name}", "count", dead="keep"))
    words = html.Span([f" {name}", *why], className="name")
    return html.Span([shown, words, " "], className="term", **data(term=name), **alarming, **seldom)


TAB = Tab(key="live", title="Live", layout=panel, callbacks=callbacks)
