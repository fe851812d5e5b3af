"""Folders of channels on the tab Conditions: the values that one of them has now, with since when they hold."""

import time
from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html, no_update

from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.relay import NotThere, TtlCache, answer_of
from dashboard.tabs.parts import ASKING, aria, choose, panel_head, tick
from dashboard.tabs.tables import Column, Row, cell, columns, row, table
from dashboard.words import NONE, count, counted, lasted, moment
from schemas.api.folders import FolderDetails, FolderTree, IntervalColumns

EVERY_MS = 5000
ANSWER_S = 4.0
"""An answer younger than this is shown again: the daemon is asked once, however many look."""

MOST = 500
"""Channels in the table; more would be a scroll of stamps."""

LETTERS = 60
"""Of a text in a cell."""

VALUES = [
    Column(name="channel", label="Channel", width=150, wide=True, sort="asc"),
    Column(name="value", label="Value", words=True, width=240, wide=True),
    *columns(("since", "Since"), ("until", "Until"), width=164),
    Column(name="age", label="Age", title="how long the value has held", width=110, wide=True),
]

Known = tuple[FolderDetails, IntervalColumns]


def folders_panel() -> list[Any]:
    """A choice of the folder, and its values."""
    choice = dmc.Select(
        id="folders-path", label="Folder", data=[], searchable=True, allowDeselect=False, size="sm", disabled=True
    )
    return [
        tick("folders-tick", every_ms=EVERY_MS),
        dcc.Store(id="folders-offered"),
        html.Section(
            [
                panel_head("Folders of channels", "folders-note"),
                html.P(ASKING, id="folders-problem", className="hint", role="status"),
                html.Div(choice, className="order columns"),
                table("folders-values", VALUES, "No channel of this folder has a value now."),
            ],
            className="panel stack",
            **aria("Folders of channels"),
        ),
    ]


def folders_callbacks(app: Dash, api: DaemonApi) -> None:
    """Register what is asked while somebody looks."""
    trees, folders = TtlCache[FolderTree](), TtlCache[Known]()

    @app.callback(
        Output("folders-values-table", "rowData"),
        Output("folders-note", "children"),
        Output("folders-problem", "children"),
        Output("folders-problem", "hidden"),
        Output("folders-path", "data"),
        Output("folders-path", "value"),
        Output("folders-path", "disabled"),
        Output("folders-offered", "data"),
        Input("folders-tick", "data"),
        State("folders-offered", "data"),
        prevent_initial_call=True,
    )
    async def look(seen: dict[str, Any], before: list[Any] | None) -> Any:
        """List the folders, and the values of the one that the address names, or else of the first."""
        try:
            tree = await trees.get("", ANSWER_S, lambda: answer_of(api, FolderTree, "/folders"))
            paths = [folder.path for folder in tree.folders]
            path = seen["view"]["folder"] or next(iter(paths), None)
            known = None if path is None else await folders.get(path, ANSWER_S, lambda: _asked(api, path))
        except (DaemonUnavailable, NotThere) as problem:
            return [], "", f"Folders are not shown: {problem}.", False, *(no_update,) * 4
        now = [paths, path]
        offered = (no_update, no_update) if now == before else (paths, path)
        if known is None:
            return [], tree_words(tree), "", True, *offered, True, now
        note = f"{tree_words(tree)} · {folder_words(known)}"
        return value_rows(known, time.time_ns()), note, "", True, *offered, False, now

    @app.callback(Input("folders-path", "value"), State("folders-offered", "data"), prevent_initial_call=True)
    async def path(value: str | None, offered: list[Any] | None) -> None:
        """What a person chooses goes into the address; what the page has put there itself is no choice."""
        if value is not None and offered is not None and value != offered[1]:
            choose(folder=value)


async def _asked(api: DaemonApi, path: str) -> Known:
    details = await answer_of(api, FolderDetails, "/folders/folder", path=path)
    return details, await answer_of(api, IntervalColumns, "/folders/snapshot", path=path)


def tree_words(tree: FolderTree) -> str:
    """How many there are."""
    return f"{counted(len(tree.folders), 'folder')} in {counted(len(tree.sets), 'set')}"


def folder_words(known: Known) -> str:
    """What a folder is, and how many of its channels have a value."""
    details, values = known
    folder, amount = details.folder, len(values.channel)
    most = f", the first {count(MOST)} shown" if amount > MOST else ""
    return (
        f"{folder.kind.value}-version, layout {folder.layout.value}, {counted(folder.version, 'insertion')}, "
        f"{count(amount)} of {counted(len(details.channels), 'channel')} with a value{most}"
    )


def value_rows(known: Known, now_ns: int) -> list[Row]:
    """A row a channel that has a value now; now_ns: the time from which ages are counted."""
    details, found = known
    rows = []
    for place, number in enumerate(found.channel[:MOST]):
        since, until = found.since[place], found.until[place]
        age_s = (now_ns - since) / 1e9
        rows.append(
            row(
                str(number),
                channel=cell(details.channels.get(number, str(number)), number),
                value=_value({name: column[place] for name, column in found.values.items()}),
                since=cell(moment(since / 1e6), since),
                until=cell("open", since) if until is None else cell(moment(until / 1e6), until),
                age=cell(lasted(age_s) if age_s >= 0 else NONE, age_s),
            )
        )
    return rows


def _digits(value: float) -> str:
    """All digits of a measured value, and none of those that are of its representation."""
    return f"{value:,.9g}".replace("-", "−")


def _value(columns_: Mapping[str, float | str]) -> Any:
    texts = {name: value if isinstance(value, str) else _digits(value) for name, value in columns_.items()}
    only = len(texts) == 1
    said = " · ".join(text if only else f"{name} {text}" for name, text in texts.items())
    first = next(iter(columns_.values()))
    short = said if len(said) <= LETTERS else f"{said[:LETTERS]}…"
    return cell(short, said if isinstance(first, str) else first, title=None if short == said else said[:300])
