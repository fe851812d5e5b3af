"""Tables: ag-grid with cells that are words, a level and what they are sorted by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dash_ag_grid as dag
import dash_mantine_components as dmc
from dash import html

from dashboard.tabs.parts import ASKING, aria

GRID = ("/_dash-component-suites/dash_ag_grid/dash_ag_grid.min.js",)
"""What a tab needs that has a table."""

# Else every page would load it at once, whatever tab is open: 1.3 MB.
dag._js_dist[0]["dynamic"] = True

ROW_PX = 30
WORDS_PX = 190
NAME_PX = 112
FIGURE_PX = 84
LETTER_PX, PADDING_PX = 7.8, 22
"""Of a head, whose words are not to be broken."""

Cell = Mapping[str, Any]
Row = dict[str, Any]

THEME = (
    "themeQuartz.withParams({backgroundColor: 'transparent', foregroundColor: 'inherit', fontFamily: 'inherit',"
    " fontSize: 14, borderColor: '#222b35', wrapperBorder: false, headerBackgroundColor: 'transparent',"
    " headerTextColor: '#8b98a8', headerColumnResizeHandleColor: 'transparent', headerFontSize: 12.5,"
    " headerFontWeight: 400, cellHorizontalPadding: 10,"
    " rowHoverColor: '#ffffff08', browserColorScheme: 'dark', focusShadow: '0 0 0 2px #7fb8ec'})"
)
"""The look of the page's other panels (assets/page.css)."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """name: of the cell in a row. title: what it means, where the label does not say it. words: not a figure.

    bar: its cells are bars, as long as `by` says in %.
    press: whether its cells are buttons, which say what the cell says; the row's key is what a callback is given, see
    `pressed`. links: whether its cells are made by `links`. spark: its cells draw the last minute of a column of the
    stream, which is their text, of the group that is the row's key.
    width: in px, of a `wide` one at least. sort: how the table is sorted by it at first, `asc` or `desc`.
    """

    name: str
    label: str = ""
    title: str | None = None
    words: bool = False
    bar: bool = False
    press: bool = False
    links: bool = False
    spark: bool = False
    width: int | None = None
    wide: bool = False
    sort: str | None = None


def columns(*described: tuple[str, ...], width: int | None = None) -> list[Column]:
    """Columns from (name, label) or (name, label, title), all as wide at least."""
    return [
        Column(name=name, label=label, title=title[0] if title else None, width=width, wide=True)
        for name, label, *title in described
    ]


def cell(
    text: str,
    by: float | str | None = None,
    *,
    over: bool = False,
    title: str | None = None,
    style: Mapping[str, str] | None = None,
) -> Cell:
    """A cell. by: what its column is sorted by, the text where it is left out. over: whether it stands out.

    style: of its element, as React names them.
    """
    return {"text": text, "by": text if by is None else by, "over": over, "title": title, "style": style}


def choice(text: str, *, chosen: bool) -> Cell:
    """A cell of a column with `press`: a button that is pressed while its row is the one that is shown."""
    return {"text": text, "by": text, "chosen": chosen}


def button(text: str, label: str) -> Cell:
    """A cell of a column with `press`, with its accessible name: what all of its rows say is said of this one."""
    return {"text": text, "by": text, "label": label}


def links(*named: tuple[str, str, str]) -> Cell:
    """A cell of links, (words, address, accessible name) each, which open in a new tab."""
    return {"links": [{"text": text, "href": href, "label": label} for text, href, label in named]}


def row(key: str, **cells: Cell | str) -> Row:
    """A row, found again by its key."""
    return {"key": key} | {name: cell(one) if isinstance(one, str) else dict(one) for name, one in cells.items()}


def table(name: str, shown: Sequence[Column], empty: str = "") -> Any:
    """A table, whose rows (see `row`) are the `rowData` of `NAME-table`; until it is set, it is said to be asked for.

    empty: what stands there without a row.
    """
    grid = dag.AgGrid(
        id=f"{name}-table",
        columnDefs=[_definition(column, is_first=place == 0) for place, column in enumerate(shown)],
        getRowId="params.data.key",
        style={"height": None},
        dashGridOptions={
            "theme": {"function": THEME},
            "domLayout": "autoHeight",
            "rowHeight": ROW_PX,
            "headerHeight": ROW_PX,
            "localeText": {"noRowsToShow": empty, "loadingOoo": ASKING},
            "suppressCellFocus": False,
            "suppressMovableColumns": True,
            "suppressColumnVirtualisation": True,
            "enableCellTextSelection": True,
            "ensureDomOrder": True,
            "tooltipShowDelay": 400,
            "animateRows": False,
        },
    )
    return html.Div(grid, id=name, className="table")


def search(name: str, label: str) -> Any:
    """A field that filters the rows of a table by what is typed there."""
    return dmc.TextInput(id=f"{name}-search", placeholder=label, size="xs", w=200, **aria(label))


def _definition(column: Column, *, is_first: bool) -> dict[str, Any]:
    is_words = column.words or is_first
    common: dict[str, Any] = {
        "colId": column.name,
        "headerName": column.label,
        "headerTooltip": column.title,
        "minWidth": _least_px(column, is_first=is_first),
        "comparator": {"function": "byCell"},
        "sortingOrder": ["asc", "desc"] if is_words else ["desc", "asc"],
        "sort": column.sort,
        "resizable": True,
        "wrapHeaderText": True,
        "autoHeaderHeight": True,
        "cellDataType": False,
        "getQuickFilterText": {"function": "params.value && params.value.text"},
    }
    if column.width is None or column.wide:
        common["flex"] = 2 if column.words else 1
    else:
        common |= {"width": column.width, "suppressSizeToFit": True}
    if column.links:
        return common | {"field": column.name, "cellRenderer": "Links", "sortable": False}
    if column.press:
        return common | {"field": column.name, "cellRenderer": "Press"}
    if column.spark:
        return common | {"field": column.name, "cellRenderer": "Spark", "sortable": False}
    if column.bar:
        return common | {"field": column.name, "cellRenderer": "Bar", "sortable": False}
    # A glyph beside the colour: words have their own.
    mark = "" if column.words else "(params.value && params.value.over ? '▲ ' : '') + "
    look = {"cellClass": "words", "wrapText": True, "autoHeight": True} if column.words else {}
    return (
        common
        | look
        | ({} if is_words else {"type": "rightAligned"})
        | {
            "field": column.name,
            "cellClassRules": {"over": "params.value && params.value.over"},
            "valueFormatter": {"function": f"{mark}(params.value ? params.value.text : '')"},
            "tooltipValueGetter": {"function": "params.value && params.value.title"},
            "cellStyle": {"function": "params.value && params.value.style"},
        }
    )


def _least_px(column: Column, *, is_first: bool) -> int:
    letters = max(map(len, column.label.split(" ")))
    least = column.width or (WORDS_PX if column.words else NAME_PX if is_first else FIGURE_PX)
    return max(least, round(PADDING_PX + LETTER_PX * letters))


def pressed(given: Mapping[str, Any] | None) -> str | None:
    """The key of the row whose button was pressed, from the `cellRendererData` of `NAME-table`."""
    return None if given is None else str(given["rowId"])
