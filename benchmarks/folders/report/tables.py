"""The tables of the report: pure functions."""

from collections.abc import Iterator
from statistics import median

from benchmarks.folders.plan import CHUNKS, CLIFF, COLD, EFFICIENCY, PAYLOAD
from benchmarks.folders.record import Record
from benchmarks.folders.report.figures import (
    backends,
    cliffs,
    counted,
    edge,
    efficiency,
    last_seconds,
    middle,
    names,
    of,
)
from benchmarks.report.formatting import number
from benchmarks.report.table import Table

MB = 1e6
NOTHING = ""


def percent(value: float | None) -> str:
    """Of a fraction."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def shown(value: float | None, divided: float = 1.0) -> str:
    """A figure, or nothing."""
    return NOTHING if value is None else number(value / divided)


def server(record: Record, backend: str) -> str:
    """The product that answers, and its version."""
    return record.servers.get(backend, backend)


def tables(record: Record) -> list[Table]:
    """All that were measured."""
    found = [_runs(record, EFFICIENCY), _cliff(record), _cold(record), _payload(record), _runs(record, CHUNKS)]
    return [each for each in (*found, _writing(record)) if each is not None and each.rows]


TITLES = {
    EFFICIENCY: "Efficiency: cycles that ended in time, by turns",
    CHUNKS: "Longer chunks, changes in place of snapshots, and everything in one channel",
}


def _runs(record: Record, part: str) -> Table | None:
    columns = (
        *("", "asked rows/s", "in time", "alone s", "p50 s", "p90 s", "max s", "rows/s", "MB/s", "blocks read"),
        *("server CPU %", "clients CPU %"),
    )
    rows = []
    for backend in backends(record, part):
        for name in names(record, part, backend):
            found = of(record, part, backend, name)
            settings = found[0].run.settings
            rows.append(
                (
                    f"{server(record, backend)}, {name}",
                    number(settings.rows_asked),
                    percent(efficiency(found)),
                    shown(last_seconds(found)),
                    shown(middle(found, lambda each: each.p50_s)),
                    shown(middle(found, lambda each: each.p90_s)),
                    shown(max((each.run.figures.max_s or 0.0 for each in found), default=None)),
                    shown(middle(found, lambda each: each.row_rate)),
                    shown(middle(found, lambda each: each.byte_rate), MB),
                    shown(middle(found, lambda each: each.blocks_read)),
                    shown(middle(found, lambda each: each.server_percent)),
                    shown(middle(found, lambda each: each.clients_percent)),
                )
            )
    note = (
        f"Cache of the server: {record.caches.get(part, 0)} MiB, and nothing is read through the page cache. Seconds "
        "are from when a cycle was due until the snapshot was there; `alone` is one client with nobody beside it. "
        "Blocks read are those of a snapshot that were not in the cache. CPU is of one core of two. Medians of rounds; "
        f"in time is of all rounds. `{record.commands.get(part, '')}`"
    )
    return Table(title=TITLES[part], columns=columns, rows=tuple(rows), note=note)


def _cliff(record: Record) -> Table:
    columns = ("", "stays in the cache MB", "by the cache", "read again MB", "by the cache", "blocks read again there")
    cache = record.caches.get(CLIFF, 0) * 2**20
    rows = []
    for backend in backends(record, CLIFF):
        for name, points in cliffs(record, backend).items():
            stays, again = edge(points)
            blocks = next((point.read for point in points if point.value_bytes == again), None)
            rows.append(
                (
                    f"{server(record, backend)}, {name}",
                    *(shown(stays, MB), f"{stays / cache:.2f}" if cache else NOTHING),
                    *(shown(again, MB), f"{again / cache:.2f}" if again is not None and cache else NOTHING),
                    NOTHING if blocks is None else f"{blocks:,}",
                )
            )
    note = (
        f"A snapshot that was read just before is read again, with a cache of {record.caches.get(CLIFF, 0)} MiB. The "
        "first columns are the largest snapshot of which less than a tenth of its blocks were read again, the others "
        f"the next that was tried. `{record.commands.get(CLIFF, '')}`"
    )
    return Table(
        title="The cliff: the largest snapshot that can be read again", columns=columns, rows=tuple(rows), note=note
    )


def _cold(record: Record) -> Table:
    rows = [
        (f"{server(record, backend)}, {name}", shown(counted(record, COLD, backend, name, "blocks")))
        for backend in backends(record, COLD)
        for name in names(record, COLD, backend)
    ]
    note = (
        "Blocks that are read for a folder of 1,000 rows of 1 kB by a server that has just started. PostgreSQL counts "
        "those of the tables (8 kB), without its catalog, MariaDB those of the whole server (16 kB). "
        f"`{record.commands.get(COLD, '')}`"
    )
    return Table(
        title="Blocks read for a folder with a cold cache", columns=("", "blocks"), rows=tuple(rows), note=note
    )


def _payload(record: Record) -> Table:
    rows = []
    for backend in backends(record, PAYLOAD):
        for name in names(record, PAYLOAD, backend):
            run = of(record, PAYLOAD, backend, name)[0].run
            wire, disk = (counted(record, PAYLOAD, backend, name, what) for what in ("wire", "disk"))
            values = run.settings.rows_in_snapshot * run.settings.payload_bytes
            stored = run.loading.rows_in_all * run.settings.payload_bytes
            rows.append(
                (
                    f"{server(record, backend)}, {name}",
                    *(shown(wire, MB), NOTHING if wire is None else f"{wire / values:.2f}"),
                    *(shown(disk, MB), NOTHING if disk is None else f"{disk / stored:.2f}"),
                )
            )
    columns = ("", "MB on the wire", "by its values", "MB on the disk", "by its values")
    note = f"A snapshot on the wire, and all intervals on the disk. `{record.commands.get(PAYLOAD, '')}`"
    return Table(title="Random and constant payloads", columns=columns, rows=tuple(rows), note=note)


def _writing(record: Record) -> Table:
    rows = []
    for backend, name in dict.fromkeys((each.backend, each.name) for each in record.writing):
        found = [each for each in record.writing if (each.backend, each.name) == (backend, name)]
        figures = [
            [value for each in found if (value := getattr(each, figure)) is not None]
            for figure in ("rate", "p50_ms", "p99_ms", "efficiency")
        ]
        rate, p50, p99, efficient = (median(values) if values else None for values in figures)
        rows.append((f"{server(record, backend)}, {name}", shown(rate), shown(p50), shown(p99), percent(efficient)))
    columns = ("", "triggers/s", "commit p50 ms", "commit p99 ms", "readers in time")
    note = (
        "A daemon that writes triggers of 120 instruments, 100 a second; with FerretDB of 20, 5 a second. Readers ask "
        f"for 100,000 rows/s beside it. `{record.commands.get('writing', '')}`"
    )
    return Table(title="Writing of triggers beside snapshot readers", columns=columns, rows=tuple(rows), note=note)


def facts(record: Record) -> Iterator[tuple[str, str]]:
    """What it was measured on."""
    yield "date", record.date
    yield from record.machine.items()
    yield from record.servers.items()
