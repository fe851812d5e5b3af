"""The layout of the tab Storage: sizes, room left, and what an outage or a crash would mean."""

from typing import Any

from dash import dcc, html

from dashboard.tabs.parts import aria, panel_head, tick
from dashboard.tabs.tables import Column, columns, table

TEN_DIGITS_PX = 120

OUTAGE = [
    *columns(
        ("group", "Group"),
        ("waiting", "Triggers waiting"),
        ("readings", "Readings waiting"),
        ("room", "Room for", "how long there is room for new readings if the database accepts nothing"),
    ),
    Column(
        name="drained",
        label="Drained in",
        title="until the backlog is gone, at the current rates",
        width=136,
        wide=True,
    ),
    *columns(("risk", "At risk", "committed so recently that a crash of the server now could lose them")),
]
STORED = [
    *columns(("group", "Group")),
    *columns(
        ("readings", "Readings", "the server's estimate, or this logger's count where that is higher"),
        ("rows", "Rows", "the server's estimate where counting is expensive"),
        width=TEN_DIGITS_PX,
    ),
    *columns(
        ("size", "Size", "with indexes and ledger"),
        ("each", "Per reading"),
        ("rate", "Per day, current rate"),
        ("measured", "Per day, measured"),
        ("over", "Measured over"),
        ("partitions", "Partitions"),
    ),
]
PARTITIONS = [
    Column(name="name", label="Partition", width=100, wide=True),
    Column(name="from", label="From, UTC", width=104, wide=True),
    Column(name="until", label="Until", width=104, wide=True),
    *columns(("rows", "Rows"), ("size", "Size"), width=92),
    Column(name="share", label="Share", bar=True, width=64, wide=True),
    Column(name="what", label="When"),
]
JOURNALS = columns(
    ("group", "Group"),
    ("size", "In use"),
    ("room", "Room left"),
    ("limit", "Limit"),
    ("files", "Files left", "segments that still have room"),
    ("full", "Full in", "if the database accepted nothing from now on"),
    ("problem", "State"),
)
ACCOUNT = [
    *columns(("group", "Group"), width=64),
    *columns(("received", "Received"), width=TEN_DIGITS_PX),
    *columns(("recovered", "+ recovered", "found in the journal at the start: left by an earlier daemon"), width=64),
    *columns(("committed", "= committed"), width=TEN_DIGITS_PX),
    *columns(
        ("duplicate", "+ duplicate"),
        ("refused", "+ refused"),
        ("aside", "+ aside", "for no trigger that is known; kept in the dead letters"),
        ("dead", "+ dead", "rejected by the database since the start; it may have been stored or discarded since"),
        ("waiting", "+ waiting"),
        ("assembling", "+ assembling"),
        ("unaccounted", "Unaccounted"),
        ("late", "Late"),
        ("letters", "Dead letters", "readings that are there now, whenever they came"),
        ("complete", "Complete triggers"),
        ("incomplete", "Incomplete"),
        ("skipped", "Skipped", "trigger numbers between those of a run that no trigger was closed for"),
        ("lost", "Lost", "proven lost: never received, by the numbers of senders, or no longer in the database"),
        width=64,
    ),
]
NO_JOURNAL = "There is no journal: what waits for the database is in memory only."


def panel() -> list[Any]:
    """The state of an outage, sizes, partitions, journals, durability and the account of every reading."""
    return [
        tick("storage-tick", every_ms=1000),
        dcc.Store(id="durability-shown"),
        html.Div(
            [
                html.P("", id="storage-problem", className="outcome", role="status", hidden=True),
                html.Div(
                    [_section("Outage", table("outage", OUTAGE)), _section("Durability", _durability())],
                    className="columns",
                ),
                _section("Stored", table("stored", STORED)),
                html.Div(
                    [
                        _section(
                            "Partitions",
                            table("partitions", PARTITIONS, "None are known of this group."),
                        ),
                        _section("Journal", table("journals", JOURNALS, NO_JOURNAL), name="journals"),
                    ],
                    className="columns",
                ),
                _section(
                    "Where every reading went since the daemon started",
                    table("account", ACCOUNT),
                    name="account",
                ),
            ],
            className="stack",
        ),
    ]


def _section(title: str, shown: Any, *, name: str | None = None) -> Any:
    note = f"{name or title.lower()}-note"
    return html.Section([panel_head(title, note), shown], className="panel", **aria(title))


def _durability() -> Any:
    return html.Dl(id="durability", className="pairs")
