"""The report as one HTML file: findings, the cliff of each layout as a chart, and all tables."""

from benchmarks.folders.plan import CLIFF
from benchmarks.folders.record import Record
from benchmarks.folders.report.figures import cliffs
from benchmarks.folders.report.findings import findings, measured_backends
from benchmarks.folders.report.markdown import FINDINGS_NOTE
from benchmarks.folders.report.tables import MB, facts, server, tables
from benchmarks.html.axes import from_zero
from benchmarks.html.document import document
from benchmarks.html.elements import card, chart, definitions, keys, section, warnings
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import Column, table
from benchmarks.report.html.figures import figures_section

TITLE = "Folders: snapshots with a deadline"
STROKES = {
    "window": "daemon",
    "brin": "visit",
    "lateral": "sender",
    "channel-lateral": "published",
    "channel-max": "bare",
    "arrays": "alone",
}


def page(record: Record) -> str:
    """Write the whole file."""
    on = f"{record.machine.get('processor', '')}, {record.machine.get('cores', '?')} cores · {record.date}"
    charts = [_chart(record, backend) for backend in measured_backends(record)]
    sections = [
        warnings(record.notes),
        _findings(record),
        section("The cliff", *charts, name="cliff", note=_cliff_note(record)) if charts else Markup(),
        figures_section("Figures", *tables(record), name="figures"),
        section("Measured on", card(definitions(facts(record))), name="machine"),
    ]
    return document(TITLE, on, sections, date=record.date, command="make bench-folders")


def _findings(record: Record) -> Markup:
    columns = (Column("finding"), Column("paper"), Column("verdict"), Column("measured"))
    rows = [("", (each.claim, each.paper, each.verdict.value, each.measured)) for each in findings(record)]
    if not rows:
        return Markup()
    return section("Findings of the paper", table("Findings", columns, rows), name="findings", note=FINDINGS_NOTE)


def _cliff_note(record: Record) -> str:
    return (
        f"Blocks that a snapshot needs again which was read just before, with a cache of {record.caches.get(CLIFF, 0)} "
        "MiB: none as long as all that it touches stays in the cache. By channel, each row of 1 kB drags a block of "
        "its own, so that the cliff is at an eighth of the cache (blocks of 8 kB) or at a sixteenth (of 16 kB)."
    )


def _chart(record: Record, backend: str) -> Markup:
    found = cliffs(record, backend)
    points = [point for each in found.values() for point in each]
    across = from_zero(point.value_bytes / MB for point in points)
    up = from_zero(float(point.read or 0) for point in points)
    lines = []
    for name, each in found.items():
        places = (
            f"{across.at(point.value_bytes / MB):.2f} {100 - up.at(float(point.read or 0)):.2f}" for point in each
        )
        lines.append(tag("path", tag("title", name), d="M" + "L".join(places), class_=f"curve {STROKES[name]}"))
    drawn = chart(
        server(record, backend),
        "blocks read again, against the size of the snapshot",
        lines,
        (across, across.ticks(6)),
        (up, up.ticks(5)),
        label=f"{backend}: blocks read again against MB of the snapshot, a line a layout",
        unit="MB",
    )
    return join([drawn, keys((f"stroke {STROKES[name]}", name) for name in found)])
