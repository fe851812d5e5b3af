"""The page: its frame, an empty panel a tab, which is filled when the tab is opened, and settings for the scripts."""

import os
from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
import orjson
from dash import dcc, html

from dashboard import zone
from dashboard.access.login import ENDED
from dashboard.feed.frames import PATHS
from dashboard.feed.groups import SIDE_BY_SIDE_MOST
from dashboard.feed.history import GAP_S, HOUR_S, KEPT_S, LONG_BUCKET_S
from dashboard.tabs.alarm_strip import alarm_strip
from dashboard.tabs.figures import COLOURS
from dashboard.tabs.instruments.drawer import STATE_WORDS
from dashboard.tabs.marks import marks_panel
from dashboard.tabs.orders import order_dialog
from dashboard.tabs.parts import CHOOSE, HIDDEN, UNPRESSED, aria, attributes, data, dialog, live, over, when
from dashboard.tabs.tab import Tab
from schemas.states import STATE_LETTERS

RANGES: tuple[tuple[str, str, float | None], ...] = (
    ("1m", "1 m", 60.0),
    ("5m", "5 m", 300.0),
    ("1h", "1 h", 3600.0),
    ("run", "run", None),
)
"""Name in the address, label, width in seconds; None is the whole run."""

SHADES = ("ink", "soft", "faint", "faint", "edge", "pressed", "raised", "panel", "raised", "ground")
THEME = {"colors": {"dark": [f"var(--{shade})" for shade in SHADES]}}
"""The shades of Mantine's dark scheme, from the letters to the ground, are those of assets/_parts.css."""

BADGE = {
    "live": {"glyph": "●", "word": "LIVE", "title": "triggerlog"},
    "delayed": {"glyph": "◐", "word": "DELAYED", "title": "DELAYED · triggerlog"},
    "none": {"glyph": "○", "word": "NO DATA", "title": "NO DATA · triggerlog"},
}
"""How old the newest data is, on the badge and in the title of the browser's tab, where a live page counts alarms."""

DIGITS = 9

KEYS = (
    ("p", "pause the charts, or resume them"),
    ("[ and ]", "a shorter or longer time range"),
    ("?", "this list"),
    ("Escape", "close the open dialog or drawer"),
)


def page(build: str, tabs: Sequence[Tab]) -> Any:
    """The whole layout; the first of the tabs is open."""
    return dmc.MantineProvider(
        forceColorScheme="dark",
        theme=THEME,
        children=html.Div(
            id="page",
            **data(link="none", build=build),
            children=[
                header(),
                banner(),
                alarm_strip(),
                html.Main(
                    html.Div(
                        [
                            whose(),
                            tiles(),
                            bar(tabs),
                            marks_panel(),
                            *(_panel(tab, is_open=tab is tabs[0]) for tab in tabs),
                        ],
                        className="live",
                    )
                ),
                html.Footer(
                    [
                        "triggerlog ",
                        live("head.version", "text", dead="keep"),
                        " · daemon up since ",
                        live("head.started_ms", "moment", dead="keep"),
                        f" {zone.label()}",
                    ],
                    id="footer",
                    **data(frame="footer"),
                ),
                keys(len(tabs)),
                order_dialog(),
                dcc.Store(id=CHOOSE),
                *(tab.overlay() for tab in tabs if tab.overlay is not None),
            ],
        ),
    )


def header() -> Any:
    """Who, what, where to, and whether it is live."""
    return html.Header(
        [
            html.H1("triggerlog"),
            html.Div(
                [
                    _fact("logger", "head.logger", "text"),
                    _fact("run", "group.run", "text"),
                    _fact("", "head.state", "text", dead="state unknown"),
                ],
                id="who",
                className="facts",
            ),
            html.Div(
                [_fact("", "store.words", "text"), _fact("durability", "store.durability", "text")],
                id="store",
                className="facts",
                **data(title="store.title"),
            ),
            html.Div(
                _fact("disk", "disk.words", "text"),
                id="disk",
                className="facts",
                hidden=True,
                **data(title="disk.title", **{"if": "disk"}),
            ),
            html.Time(
                [live("clock.now", "moment", dead="keep"), f" {zone.label()}"],
                id="clock",
                title="Coordinated Universal Time" if zone.label() == "UTC" else f"Time zone {zone.label()}",
            ),
            html.Div(
                live("alarm_count.text", "text", dead="alarms unknown"),
                id="alarm-count",
                **data(set="severity=alarm_count.severity"),
            ),
            _badge(),
        ],
        **data(frame="header"),
    )


def _fact(name: str, figure: str, form: str, *, dead: str = "keep") -> Any:
    named = [html.Span(f"{name} ", className="name")] if name else []
    return html.Span([*named, html.B(live(figure, form, dead=dead))], className="fact")


def _badge() -> Any:
    """How old the newest data is, as the scripts see it."""
    ages = [
        when("!page.dead", live("clock.age", "age", dead="keep")),
        when("page.dead", "since ", live("clock.lost", "time", dead="keep"), f" {zone.label()}"),
    ]
    return html.Div(
        id="badge",
        role="status",
        children=[
            html.Span(BADGE["none"]["glyph"], id="badge-glyph", **HIDDEN),
            html.Span(BADGE["none"]["word"], id="badge-text"),
            html.Span(ages, id="badge-age", **HIDDEN),
        ],
    )


def banner() -> Any:
    """What is wrong, and what to do, when nothing comes: the daemon is gone, or the page's own server."""
    since = html.Span(
        [
            " Since ",
            live("clock.lost", "time", dead="keep"),
            f" {zone.label()}, ",
            live("clock.lost", "ago", dead="keep"),
            " ago. ",
        ],
        className="since",
    )
    daemon = [
        html.Strong(
            [
                "NO DATA: the daemon at ",
                live("link.daemon", "text", dead="keep"),
                " does not answer (",
                live("link.problem", "text", dead="keep"),
                ").",
            ]
        ),
        since,
        html.Span(
            [
                "Instruments may not be recorded. ",
                *_look("systemctl status triggerlog", "triggerlog run FILE"),
                " This page reconnects by itself.",
            ],
            className="action",
        ),
    ]
    server = [
        html.Strong(
            [
                "NO DATA: this page has lost the connection to its server at ",
                live("page.host", "text", dead="keep"),
                ".",
            ]
        ),
        since,
        html.Span(
            [
                "The daemon may still be running: check with ",
                html.Code("triggerlog status"),
                ". ",
                *_look("systemctl status triggerlog-dashboard", "triggerlog dashboard FILE"),
                " This page reconnects by itself.",
            ],
            className="action",
        ),
    ]
    return html.Div(
        html.Div(
            [when("page.up", *daemon), when("!page.up", *server)],
            id="banner",
            role="alert",
            hidden=True,
            **data(**{"if": "page.dead"}),
        ),
        **data(frame="banner"),
    )


def _look(unit: str, command: str) -> list[Any]:
    """Where to look for a process that is gone: as a service, or where somebody started it by hand, as this one."""
    if os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        return ["Look at ", html.Code(unit), "."]
    return ["Look where ", html.Code(command), " was started, and start it again."]


def whose() -> Any:
    """Of which group the figures are, where there are several, and which are in trouble whatever is looked at."""
    return html.Div(
        html.Div(
            [
                html.H2(live("group.words.title", "text", dead="keep")),
                html.Span(live("together.words", "text", dead="keep"), **data(set="bad=together.bad.0")),
            ],
            id="whose",
            hidden=True,
            className="panel-head",
            **data(**{"if": "together.many"}),
        ),
        **data(frame="whose"),
    )


def tiles() -> Any:
    """The numbers that stand above every tab."""
    clients = when(
        "group.words.clients", live("group.words.clients", "text"), " clients · ", live("group.rows_read"), " rows/s"
    )
    risk = when(
        "group.words.risky", " · ", live("group.words.all", "text"), live("group.totals.at_risk", "count"), " at risk"
    )
    outlook = when("group.words.outlook", " · ", live("group.words.outlook", "text"))
    return html.Section(
        [
            _tile("received", "Triggers", "/s", [live("group.committed"), " committed /s"]),
            _tile(
                "written",
                "Readings written",
                "/s",
                [live("group.words.written", "text"), risk],
                **over("group.words.short"),
            ),
            _tile("p50", "Commit p50", "ms", ["longest ", live("group.commit_ms.max"), " ms"]),
            _tile(
                "p99",
                ["Commit ", live("group.words.tail", "text", dead="keep")],
                "ms",
                [
                    _worst("slow", "worst ", " · "),
                    when("limits.commit_p99_ms", "budget ", live("limits.commit_p99_ms", "plain"), " ms"),
                ],
                **over("group.commit_ms.p99", "limits.commit_p99_ms"),
            ),
            _tile(
                "waiting",
                "Backlog",
                "waiting",
                [live("group.triggers.open", "count"), " open", outlook, _worst("waits", " · most ")],
                form="count",
                **over("group.backpressure"),
            ),
            _tile(
                "absent",
                "Missing instruments",
                when("group.instruments", "of ", live("group.instruments", "count", dead="keep")),
                [when("group.words.idle", "no trigger lately "), _worst("misses", "most ")],
                form="count",
                **over("group.words.quiet"),
            ),
            _tile("reads", "Reads", "/s", [clients, when("!group.words.clients", "no readers")]),
        ],
        className="tiles",
        **aria("Figures"),
        **data(frame="tiles"),
    )


def _worst(figure: str, before: str, after: str = "") -> Any:
    """The group in which a figure of all groups together is worst."""
    name = f"group.words.{figure}"
    return when(name, before, live(name, "text"), after)


def _tile(column: str, label: Any, unit: Any, note: list[Any], *, form: str = "number", **attributes: Any) -> Any:
    figure = f"group.{column}"
    return html.Div(
        id=f"tile-{column}",
        className="tile",
        **attributes,
        children=[
            html.H2(label),
            html.P(
                [live(figure, form, className="value"), html.Span(unit, className="unit")],
                className="number",
            ),
            html.P(note, className="aside", hidden=True, **data(**{"if": "!page.dead"})),
            html.P(
                ["was ", live(figure, form, dead="keep")], className="was", hidden=True, **data(**{"if": "page.dead"})
            ),
            html.Div(className="spark", **HIDDEN, **data(spark=column)),
        ],
    )


def bar(tabs: Sequence[Tab]) -> Any:
    """The tabs, and beside them what holds for all charts: group, range of time, pause."""
    buttons = [
        html.Button(
            tab.title,
            id=f"tab-{tab.key}",
            role="tab",
            tabIndex=0 if place == 0 else -1,
            **data(tab=tab.key),
            **attributes(aria_selected=str(place == 0).lower(), aria_controls=f"panel-{tab.key}"),
        )
        for place, tab in enumerate(tabs)
    ]
    ranges = [html.Button(label, className="range", **data(range=name), **UNPRESSED) for name, label, _ in RANGES]
    paused = when(
        "view.pausedAt",
        "Charts paused at ",
        live("view.pausedAt", "time", dead="keep"),
        f" {zone.label()}; data is still collected",
    )
    return html.Div(
        className="bar",
        children=[
            html.Div(buttons, id="tabs", role="tablist", **aria("What is shown")),
            html.Div(
                className="controls",
                children=[
                    html.Span(paused, id="paused", role="status"),
                    html.Div(id="groups", role="group", className="segments", hidden=True, **aria("Instrument group")),
                    html.Div(_group_choice(), id="groups-list", hidden=True),
                    html.Div(ranges, role="group", className="segments", **aria("Time range of the charts")),
                    html.Button(
                        [when("view.pausedAt", "Resume charts"), when("!view.pausedAt", "Pause charts")],
                        id="pause",
                        className="plain",
                        **UNPRESSED,
                    ),
                ],
            ),
        ],
        **data(frame="bar"),
    )


def _group_choice() -> Any:
    """The list of many groups, in which a name is typed."""
    return dmc.Select(
        id="group-choice",
        data=[],
        searchable=True,
        selectFirstOptionOnChange=True,
        allowDeselect=False,
        nothingFoundMessage="no such group",
        size="xs",
        w=170,
        **aria("Instrument group"),
    )


def keys(tabs: int) -> Any:
    """The list of single keys, and the switch that turns them off (WCAG 2.1.4). tabs: how many there are."""
    opening = (f"1 … {min(tabs, DIGITS)}", "open a tab")
    listed = [part for pressed, what in (opening, *KEYS) for part in (html.Dt(html.Kbd(pressed)), html.Dd(what))]
    switch = dmc.Checkbox(
        id="keys-on",
        label="use single-key shortcuts (saved in this browser)",
        checked=True,
        persistence=True,
        persistence_type="local",
        mt="md",
    )
    return dialog("keys-dialog", html.Dl(listed, className="pairs"), switch, title="Keys")


def _panel(tab: Tab, *, is_open: bool) -> Any:
    return html.Div(
        [html.Div(id=f"fill-{tab.key}"), dcc.Store(id=f"open-{tab.key}")],
        id=f"panel-{tab.key}",
        className="tab-panel",
        role="tabpanel",
        hidden=not is_open,
        **data(needs=" ".join(tab.needs)),
        **attributes(aria_labelledby=f"tab-{tab.key}"),
    )


def settings() -> dict[str, Any]:
    """All of it, as `Settings` in tests/javascript/page.d.ts declares it."""
    return {
        "colours": COLOURS,
        "session_ended": ENDED,
        "buttons_most": SIDE_BY_SIDE_MOST,
        "history": {"hour_s": HOUR_S, "bucket_s": LONG_BUCKET_S, "kept_s": KEPT_S, "gap_s": GAP_S},
        "ranges_s": {name: width for name, _, width in RANGES},
        "paths": PATHS,
        "time_zone": zone.label(),
        "badge": BADGE,
        "states": {letter: _state(letter) for letter in STATE_LETTERS},
    }


def settings_element() -> str:
    """The HTML element that carries them; what is in it cannot end it."""
    text = orjson.dumps(settings()).decode().replace("<", "\\u003c")
    return f'<script type="application/json" id="settings">{text}</script>'


def _state(letter: str) -> dict[str, str]:
    """said, said_lost: a cell's accessible name with and without data, `{}` for the name of its instrument."""
    state = STATE_LETTERS[letter]
    glyph, words = STATE_WORDS[state]
    short = words.partition(":")[0]
    said = {"said": f"{{}}: {short}", "said_lost": f"{{}}: unknown, was {short}"}
    return {"name": state.value, "glyph": glyph, "words": short} | said
