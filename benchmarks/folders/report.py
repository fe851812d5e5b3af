"""The report of a benchmark of folders: the findings of the paper with verdicts, the cliffs, and all figures."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from benchmarks.folders.plan import CHUNKS, CLIFF, COLD, EFFICIENCY, OURS, PAPERS, PAYLOAD, Measured, Record
from benchmarks.report.model import (
    Axis,
    Chart,
    Facts,
    Finding,
    Panel,
    Report,
    Section,
    Series,
    Table,
    Warnings,
    findings_table,
    holds,
    number,
    shown,
)
from schemas.api.snapshots import CliffPoint, SnapshotFigures

MB = 1e6
WHOLE = 0.999
"""Efficiency from here on is all."""
COMPRESSED = 2.0
"""Random by constant values: from here on, something compresses."""
COLOURS = {
    "window": "green",
    "brin": "ink",
    "lateral": "violet",
    "channel-lateral": "red",
    "channel-max": "steel",
    "arrays": "amber",
}
FINDINGS = (
    "Findings of the paper (COOL for Atlas prompt reconstruction). Each verdict is of the figures beside it; the "
    "commands are below the tables."
)


def report(record: Record) -> Report:
    """Make the report."""
    machine, found = record.machine, list(findings(record))
    return Report(
        title="Folders: snapshots with a deadline",
        facts=f"{machine.get('processor', '')}, {machine.get('cores', '?')} cores · {record.date}",
        date=record.date,
        command="make bench-folders",
        sections=[
            Section("", [Warnings(record.notes)] if record.notes else []),
            Section("Findings of the paper", [findings_table(found, FINDINGS, "Finding", "Paper")] if found else []),
            Section("The cliff", list(_charts(record)), _cliff_note(record)),
            Section("Figures", tables(record)),
            Section("Measured on", [Facts("The run", list(facts(record)))]),
        ],
    )


def _cliff_note(record: Record) -> str:
    return (
        f"Blocks that a snapshot needs again which was read just before, with a cache of {record.caches.get(CLIFF, 0)} "
        "MiB: none as long as all that it touches stays in the cache. By channel, each row of 1 kB drags a block of "
        "its own, so that the cliff is at an eighth of the cache (blocks of 8 kB) or at a sixteenth (of 16 kB)."
    )


def _charts(record: Record) -> Iterator[Chart]:
    for backend in backends(record, CLIFF):
        lines = [
            Series(
                name=name,
                x=[point.value_bytes / MB for point in points],
                y=[float(point.read or 0) for point in points],
                colour=COLOURS[name],
            )
            for name, points in cliffs(record, backend).items()
        ]
        if lines:
            panel = Panel(Axis("blocks read again"), lines)
            yield Chart(server(record, backend), Axis("MB of the snapshot"), [panel])


# --- findings --------------------------------------------------------------------------------------------------------


def findings(record: Record) -> Iterator[Finding]:
    """Judge all findings, for each database on which they were measured."""
    measured = [each.backend for each in record.measured]
    every = dict.fromkeys([*measured, *(each.backend for each in record.writing)])
    for backend in every:
        name = server(record, backend)
        for found in (_wire, _disk, _cliff, _order, _query, _load, _chunk, _changes, _control, _efficiency, _writes):
            made = found(record, backend)
            if made is not None:
                yield Finding(f"{name}: {made.claim}", paper=made.paper, verdict=made.verdict, measured=made.measured)


def _wire(record: Record, backend: str) -> Finding | None:
    return _payload(
        record, backend, "wire", "Constant payloads are compressed on the wire", "10 MB/s random, 0.5 MB/s constant"
    )


def _disk(record: Record, backend: str) -> Finding | None:
    return _payload(record, backend, "disk", "Constant payloads are compressed on the disk", "not measured")


def _payload(record: Record, backend: str, what: str, claim: str, paper: str) -> Finding | None:
    sizes = [counted(record, PAYLOAD, backend, name, what) for name in ("random", "constant")]
    random, constant = sizes
    if random is None or constant is None:
        return None
    return Finding(
        claim,
        paper,
        holds(random / constant >= COMPRESSED),
        f"{random / MB:.3g} MB random, {constant / MB:.3g} MB constant",
    )


def _cliff(record: Record, backend: str) -> Finding | None:
    found = cliffs(record, backend)
    if PAPERS not in found:
        return None
    cache = record.caches[CLIFF] * 2**20
    _, again = edge(found[PAPERS])
    parts = []
    for name, points in found.items():
        held, next_ = edge(points)
        beyond = "the largest that was tried" if next_ is None else f"{next_ / MB:.3g} MB is read again"
        parts.append(f"{name}: {held / MB:.3g} MB stays, {beyond}")
    return Finding(
        "A snapshot of a fifth of the cache is read from the disk again, each time",
        "40 MB stay in a cache of 400 MB, 50 MB do not",
        holds(again is not None and again <= cache / 5),
        f"cache {record.caches[CLIFF]} MiB; " + "; ".join(parts),
    )


def _order(record: Record, backend: str) -> Finding | None:
    found = {name: counted(record, COLD, backend, name, "blocks") for name in ("lateral", "channel-lateral")}
    by_since, by_channel = found["lateral"], found["channel-lateral"]
    if by_since is None or by_channel is None:
        return None
    return Finding(
        "Rows in the order of (since, channel) need fewer blocks than by (channel, since), with the same query",
        "asked as a question",
        holds(by_since < by_channel),
        f"{by_since:,.0f} and {by_channel:,.0f} blocks for a folder, cold",
    )


def _query(record: Record, backend: str) -> Finding | None:
    found = {
        each.name: (counted(record, COLD, backend, each.name, "blocks"), last_seconds([each]))
        for each in of(record, CLIFF, backend)
    }
    ours, papers = found.get(OURS), found.get(PAPERS)
    if ours is None or papers is None or ours[1] is None or papers[1] is None:
        return None
    words = [
        f"{name} {'?' if blocks is None else f'{blocks:,.0f}'} blocks cold, {number(1e3 * (seconds or 0))} ms"
        for name, (blocks, seconds) in found.items()
    ]
    return Finding(
        "Other plans than MAX(since) of each channel are better",
        "“other sub-optimal execution plans most certainly exist”",
        holds(ours[1] < papers[1]),
        "; ".join(words) + " (a folder cold; all folders read again)",
    )


def _load(record: Record, backend: str) -> Finding | None:
    # Of the paper's layout alone, which is under the paper's load: a database that is asked for less refutes nothing.
    found = of(record, EFFICIENCY, backend, PAPERS)
    alone, loaded = last_seconds(found), middle(found, lambda each: each.p50_s)
    if alone is None or loaded is None:
        return None
    return Finding(
        f"Alone a snapshot takes far less than under load ({PAPERS})",
        "“standalone query takes << 500 s”",
        holds(alone < loaded / 2),
        f"{number(alone)} s alone, {number(loaded)} s among {found[0].run.settings.clients} clients",
    )


def _chunk(record: Record, backend: str) -> Finding | None:
    found = {chunk: of(record, CHUNKS, backend, f"{PAPERS} {chunk} s") for chunk in (5, 10, 60)}
    parts = {chunk: efficiency(each) for chunk, each in found.items() if each}
    if len(parts) < 2:
        return None
    cpu = {chunk: middle(each, lambda one: one.server_percent) or 0.0 for chunk, each in found.items() if each}
    words = [
        f"{chunk} s: {percent(each)} in time, server {cpu[chunk]:.0f} % of a core" for chunk, each in parts.items()
    ]
    first, last = parts[min(parts)], parts[max(parts)]
    return Finding(
        "Longer chunks, which share a snapshot, reduce the load",
        "“database load easily reduced if processing longer chunks”",
        holds((last or 0) > (first or 0) or cpu[max(parts)] < cpu[min(parts)] / 2),
        f"{PAPERS}, " + "; ".join(words),
    )


def _changes(record: Record, backend: str) -> Finding | None:
    whole, changed = of(record, CHUNKS, backend, f"{OURS} 5 s"), of(record, CHUNKS, backend, f"{OURS} changes")
    if not whole or not changed:
        return None
    rows = [middle(each, lambda one: one.row_rate) or 0.0 for each in (whole, changed)]
    cpu = [middle(each, lambda one: one.server_percent) or 0.0 for each in (whole, changed)]
    return Finding(
        "To ask for changes in place of snapshots needs far fewer rows",
        "“only 1/60 of conditions data change”: 300 rows/s in place of 20,000",
        holds(rows[1] < rows[0] / 5),
        f"{rows[0]:,.0f} and {rows[1]:,.0f} rows/s (a first snapshot of each client among them); server {cpu[0]:.0f} "
        f"and {cpu[1]:.0f} % of a core",
    )


def _control(record: Record, backend: str) -> Finding | None:
    spread = efficiency(of(record, CHUNKS, backend, f"{PAPERS} 5 s"))
    control = efficiency(of(record, CHUNKS, backend, f"{PAPERS} control"))
    if spread is None or control is None:
        return None
    return Finding(
        "As many rows that lie together are no trouble for the same server",
        "the control sample of 100 MB “comfortably retrieved”",
        holds(control >= WHOLE and spread < WHOLE),
        f"in time: {percent(control)} of the control sample, {percent(spread)} of folders ({PAPERS})",
    )


def _efficiency(record: Record, backend: str) -> Finding | None:
    ours, papers = of(record, EFFICIENCY, backend, OURS), of(record, EFFICIENCY, backend, PAPERS)
    if not ours or not papers:
        return None
    rows = ours[0].run.settings.rows_asked
    return Finding(
        f"The paper's way falls at {rows:,.0f} rows/s, and windows do not",
        "20,000 rows/s: 100 % with a cache of 1.2 GB; 400 MB: 85 % of a snapshot of 80 MB",
        holds((efficiency(ours) or 0) >= WHOLE and (efficiency(papers) or 0) < WHOLE),
        f"in time: {percent(efficiency(ours))} by {OURS}, {percent(efficiency(papers))} by {PAPERS}",
    )


def _writes(record: Record, backend: str) -> Finding | None:
    found = {each.name: each for each in record.writing if each.backend == backend}
    alone, beside = found.get("alone"), found.get(f"with {OURS}")
    if alone is None or beside is None:
        return None
    words = [f"{name}: {each.rate:,.1f} triggers/s, p99 {number(each.p99_ms or 0)} ms" for name, each in found.items()]
    return Finding(
        "Snapshot readers leave the rate of writing as it is",
        "not measured",
        holds(beside.rate > 0.98 * alone.rate),
        "; ".join(words),
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def percent(value: float | None) -> str:
    """Write a fraction."""
    return "" if value is None else f"{100 * value:.1f} %"


def server(record: Record, backend: str) -> str:
    """Name the product that answers, and its version."""
    return record.servers.get(backend, backend)


def tables(record: Record) -> list[Table]:
    """Make the tables of what was measured."""
    found = [
        _runs(record, EFFICIENCY),
        _cliff_table(record),
        _cold_table(record),
        _payload_table(record),
        _runs(record, CHUNKS),
    ]
    return [each for each in (*found, _writing_table(record)) if each is not None and each.rows]


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
    return Table(TITLES[part], columns, rows, note)


def _cliff_table(record: Record) -> Table:
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
                    *(shown(stays, MB), f"{stays / cache:.2f}" if cache else ""),
                    *(shown(again, MB), f"{again / cache:.2f}" if again is not None and cache else ""),
                    "" if blocks is None else f"{blocks:,}",
                )
            )
    note = (
        f"A snapshot that was read just before is read again, with a cache of {record.caches.get(CLIFF, 0)} MiB. The "
        "first columns are the largest snapshot of which less than a tenth of its blocks were read again, the others "
        f"the next that was tried. `{record.commands.get(CLIFF, '')}`"
    )
    return Table("The cliff: the largest snapshot that can be read again", columns, rows, note)


def _cold_table(record: Record) -> Table:
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
    return Table("Blocks read for a folder with a cold cache", ("", "blocks"), rows, note)


def _payload_table(record: Record) -> Table:
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
                    *(shown(wire, MB), "" if wire is None else f"{wire / values:.2f}"),
                    *(shown(disk, MB), "" if disk is None else f"{disk / stored:.2f}"),
                )
            )
    columns = ("", "MB on the wire", "by its values", "MB on the disk", "by its values")
    note = f"A snapshot on the wire, and all intervals on the disk. `{record.commands.get(PAYLOAD, '')}`"
    return Table("Random and constant payloads", columns, rows, note)


def _writing_table(record: Record) -> Table:
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
        "A daemon that writes triggers of 120 instruments, 100 a second. Readers ask for 100,000 rows/s beside it. "
        f"`{record.commands.get('writing', '')}`"
    )
    return Table("Writing of triggers beside snapshot readers", columns, rows, note)


def facts(record: Record) -> Iterator[tuple[str, str]]:
    """Return what it was measured on."""
    yield "date", record.date
    yield from record.machine.items()
    yield from record.servers.items()


# --- figures of a record ---------------------------------------------------------------------------------------------

BLOCK_BYTES = 8192
AGAIN, AGAIN_LEAST = 0.1, 20
"""A part of the blocks that the values alone would fill, and at least so many: where more are read again, a snapshot
does not stay in the cache."""


def backends(record: Record, part: str) -> list[str]:
    """Databases of which a part was measured, in their order."""
    return list(dict.fromkeys(each.backend for each in record.measured if each.part == part))


def names(record: Record, part: str, backend: str) -> list[str]:
    """Conditions of a part, in their order."""
    return list(dict.fromkeys(each.name for each in of(record, part, backend)))


def of(record: Record, part: str, backend: str, name: str | None = None) -> list[Measured]:
    """Runs of a part, or of one of its conditions."""
    return [
        each for each in record.measured if each.part == part and each.backend == backend and name in (None, each.name)
    ]


def middle(found: Sequence[Measured], figure: Callable[[SnapshotFigures], float | None]) -> float | None:
    """Median over the rounds of those that have the figure."""
    values = [value for each in found if (value := figure(each.run.figures)) is not None]
    return median(values) if values else None


def efficiency(found: Sequence[Measured]) -> float | None:
    """Cycles in time over all rounds, by those that ended."""
    ended = sum(each.run.figures.cycles for each in found)
    return sum(each.run.figures.in_time for each in found) / ended if ended else None


def counted(record: Record, part: str, backend: str, name: str, what: str) -> float | None:
    """The counts of a condition."""
    for each in record.counted:
        if (each.part, each.backend, each.name, each.what) == (part, backend, name, what):
            return each.value
    return None


def cliffs(record: Record, backend: str) -> dict[str, list[CliffPoint]]:
    """The cliff of each layout."""
    found = {each.name: each.run.cliff for each in of(record, CLIFF, backend)}
    return {name: points for name, points in found.items() if points and points[0].read is not None}


def edge(points: Sequence[CliffPoint]) -> tuple[int, int | None]:
    """Bytes of the largest snapshot that stays in the cache, 0 if none does, and of the next that was tried.

    The second is None where the largest of all stays.
    """
    stays = 0
    for point in points:
        assert point.read is not None
        if point.read > max(AGAIN_LEAST, AGAIN * point.value_bytes / BLOCK_BYTES):
            return stays, point.value_bytes
        stays = point.value_bytes
    return stays, None


def last_seconds(found: Sequence[Measured]) -> float | None:
    """Seconds of reading the whole snapshot again, alone."""
    return next((each.run.cliff[-1].seconds for each in found if each.run.cliff), None)
