"""The layout of the tab Storage: sizes, room left, and what an outage or a crash would mean."""

from typing import Any

from dash import dcc, html

from dashboard.tabs.figures import empty
from dashboard.tabs.forms import Field, form
from dashboard.tabs.parts import ASKING, aria, drawn_panel, panel_head, tick
from dashboard.tabs.tables import Column, columns, table
from schemas.api.tiers import TierMove

TEN_DIGITS_PX = 120
PICTURE_HEIGHT = 176
"""Of one group, in px."""

OUTAGE = [
    *columns(("group", "Group"), width=64),
    *columns(
        ("waiting", "Triggers waiting"),
        ("readings", "Readings waiting"),
        ("risk", "At risk", "committed so recently that a crash of the server now could lose them"),
        width=104,
    ),
    Column(
        name="room",
        label="Room for",
        title="how long there is room for new readings if the database accepts nothing",
        words=True,
        width=100,
        wide=True,
    ),
    Column(
        name="drained",
        label="Drained in",
        title="until the backlog is gone, at the current rates",
        width=140,
        wide=True,
    ),
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
        ("instrument", "Per instrument"),
        ("rate", "Per day, current rate"),
        ("measured", "Per day, measured"),
    ),
    *columns(("over", "Measured over"), width=112),
    *columns(("partitions", "Partitions")),
]
PARTITIONS = [
    Column(name="name", label="Partition", width=100, wide=True),
    Column(name="from", label="From, UTC", width=104, wide=True),
    Column(name="until", label="Until", width=104, wide=True),
    *columns(("rows", "Rows"), width=108),
    *columns(("size", "Size")),
    Column(name="share", label="Share", bar=True, width=64, wide=True),
    Column(name="tier", label="Tier", width=80, wide=True),
    Column(name="heat", label="Heat", title="what its readers wait longer on a slow disk", width=96, wide=True),
    Column(name="what", label="When", width=96, wide=True),
]
REDUCED = [
    *columns(("group", "Group")),
    *columns(("periods", "Partitions")),
    *columns(
        ("readings", "Readings gone", "that are there as figures, or as each trigger that stays"), width=TEN_DIGITS_PX
    ),
    *columns(("rows", "Rows before"), ("stayed", "Rows after", "that stayed as they were"), width=108),
    *columns(("before", "Bytes before"), ("after", "Bytes after", "without the figures")),
    Column(name="saved", label="Saved", width=72, wide=True),
    Column(name="stretches", label="Of the time, UTC", words=True, width=220, wide=True),
]
JOURNALS = [
    *columns(
        ("group", "Group"),
        ("size", "In use"),
        ("room", "Room left"),
        ("limit", "Limit"),
        ("files", "Files left", "segments that still have room"),
        ("full", "Full in", "if the database accepted nothing from now on"),
    ),
    Column(name="problem", label="State", words=True, width=100, wide=True),
]
ACCOUNT = [
    *columns(("group", "Group"), width=64),
    *columns(("received", "Received"), width=TEN_DIGITS_PX),
    *columns(("committed", "=\xa0committed"), width=TEN_DIGITS_PX),
    *columns(
        ("duplicate", "+\xa0duplicate"),
        ("refused", "+\xa0refused"),
        ("aside", "+\xa0aside", "for no trigger that is known; kept in the dead letters"),
        ("dead", "+\xa0dead", "rejected by the database since the start; it may have been stored or discarded since"),
        ("waiting", "+\xa0waiting"),
        ("assembling", "+\xa0assembling"),
        ("unaccounted", "Unaccounted"),
    ),
]
BESIDE = columns(
    ("group", "Group"),
    ("lost", "Lost", "proven lost: never received, by the numbers of senders, or no longer in the database"),
    ("late", "Late"),
    ("letters", "Dead letters", "readings that are there now, whenever they came"),
    ("complete", "Complete triggers"),
    ("incomplete", "Incomplete triggers"),
    ("skipped", "Skipped triggers", "numbers between those of a run that no trigger was closed for"),
)
"""What is no term of the account."""

NO_PARTITIONS = "None are known of this group."
NO_JOURNAL = "There is no journal: what waits for the database is in memory only."


def panel() -> list[Any]:
    """The state of an outage, sizes, partitions, journals, durability and the account of every reading."""
    return [
        tick("storage-tick", every_ms=1000),
        dcc.Store(id="durability-shown"),
        dcc.Store(id="storage-picture-stamp"),
        html.Div(
            [
                html.P("", id="storage-problem", className="outcome", role="status", hidden=True),
                html.Div(
                    [_section("Outage", table("outage", OUTAGE)), _section("Durability", _durability())],
                    className="columns",
                ),
                _section("Stored", table("stored", STORED)),
                _picture(),
                html.Div([], id="storage-next"),
                html.Div(_section("Reduced", table("reduced", REDUCED)), id="reduced-box", hidden=True),
                html.Div(
                    [
                        _section("Partitions", html.Div([table("partitions", PARTITIONS, NO_PARTITIONS), _move()])),
                        _section("Journal", table("journals", JOURNALS, NO_JOURNAL), name="journals"),
                    ],
                    className="columns",
                ),
                _section(
                    "Where every reading went since the daemon started",
                    html.Div([table("account", ACCOUNT), table("beside", BESIDE)]),
                    name="account",
                ),
            ],
            className="stack",
        ),
    ]


def _section(title: str, shown: Any, *, name: str | None = None) -> Any:
    note = f"{name or title.lower()}-note"
    return html.Section([panel_head(title, note), shown], className="panel", **aria(title))


def _picture() -> Any:
    return drawn_panel("storage-picture", "Partitions by time", empty(PICTURE_HEIGHT), PICTURE_HEIGHT, note="keys")


def _durability() -> Any:
    # A term without its description is no list to a screen reader.
    return html.Dl([html.Dt("Durability"), html.Dd(ASKING)], id="durability", className="pairs")


def _move() -> Any:
    shown = [
        Field(name="partition", label="Partition of this group"),
        Field(name="tier", label="To the tier", offered=[]),
    ]
    return html.Div(form("move", TierMove, shown, "Move"), id="move-box", hidden=True)
