"""The findings of the paper one by one, with the verdict of a record: pure functions."""

from collections.abc import Iterator

from benchmarks.folders.plan import CHUNKS, CLIFF, COLD, EFFICIENCY, OURS, PAPERS, PAYLOAD
from benchmarks.folders.record import Record
from benchmarks.folders.report.figures import (
    backends,
    cliffs,
    counted,
    edge,
    efficiency,
    last_seconds,
    middle,
    of,
)
from benchmarks.folders.report.tables import MB, percent, server
from benchmarks.report.formatting import number
from benchmarks.report.verdict import Finding, Verdict

WHOLE = 0.999
"""Efficiency from here on is all."""
COMPRESSED = 2.0
"""Random by constant values: from here on, something compresses."""


def findings(record: Record) -> Iterator[Finding]:
    """All of them, for each database on which they were measured."""
    measured = [each.backend for each in record.measured]
    every = dict.fromkeys([*measured, *(each.backend for each in record.writing)])
    for backend in every:
        name = server(record, backend)
        for found in (_wire, _disk, _cliff, _order, _query, _load, _chunk, _changes, _control, _efficiency, _writes):
            made = found(record, backend)
            if made is not None:
                yield Finding(
                    claim=f"{name}: {made.claim}", paper=made.paper, verdict=made.verdict, measured=made.measured
                )


def _verdict(holds: bool) -> Verdict:
    return Verdict.REPRODUCED if holds else Verdict.REFUTED


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
        claim=claim,
        paper=paper,
        verdict=_verdict(random / constant >= COMPRESSED),
        measured=f"{random / MB:.3g} MB random, {constant / MB:.3g} MB constant",
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
        claim="A snapshot of a fifth of the cache is read from the disk again, each time",
        paper="40 MB stay in a cache of 400 MB, 50 MB do not",
        verdict=_verdict(again is not None and again <= cache / 5),
        measured=f"cache {record.caches[CLIFF]} MiB; " + "; ".join(parts),
    )


def _order(record: Record, backend: str) -> Finding | None:
    found = {name: counted(record, COLD, backend, name, "blocks") for name in ("lateral", "channel-lateral")}
    by_since, by_channel = found["lateral"], found["channel-lateral"]
    if by_since is None or by_channel is None:
        return None
    return Finding(
        claim="Rows in the order of (since, channel) need fewer blocks than by (channel, since), with the same query",
        paper="asked as a question",
        verdict=_verdict(by_since < by_channel),
        measured=f"{by_since:,.0f} and {by_channel:,.0f} blocks for a folder, cold",
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
        claim="Other plans than MAX(since) of each channel are better",
        paper="“other sub-optimal execution plans most certainly exist”",
        verdict=_verdict(ours[1] < papers[1]),
        measured="; ".join(words) + " (a folder cold; all folders read again)",
    )


def _load(record: Record, backend: str) -> Finding | None:
    # Of the paper's layout alone, which is under the paper's load: a database that is asked for less refutes nothing.
    found = of(record, EFFICIENCY, backend, PAPERS)
    alone, loaded = last_seconds(found), middle(found, lambda each: each.p50_s)
    if alone is None or loaded is None:
        return None
    return Finding(
        claim=f"Alone a snapshot takes far less than under load ({PAPERS})",
        paper="“standalone query takes << 500 s”",
        verdict=_verdict(alone < loaded / 2),
        measured=f"{number(alone)} s alone, {number(loaded)} s among {found[0].run.settings.clients} clients",
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
        claim="Longer chunks, which share a snapshot, reduce the load",
        paper="“database load easily reduced if processing longer chunks”",
        verdict=_verdict((last or 0) > (first or 0) or cpu[max(parts)] < cpu[min(parts)] / 2),
        measured=f"{PAPERS}, " + "; ".join(words),
    )


def _changes(record: Record, backend: str) -> Finding | None:
    whole, changed = of(record, CHUNKS, backend, f"{OURS} 5 s"), of(record, CHUNKS, backend, f"{OURS} changes")
    if not whole or not changed:
        return None
    rows = [middle(each, lambda one: one.row_rate) or 0.0 for each in (whole, changed)]
    cpu = [middle(each, lambda one: one.server_percent) or 0.0 for each in (whole, changed)]
    return Finding(
        claim="To ask for changes in place of snapshots needs far fewer rows",
        paper="“only 1/60 of conditions data change”: 300 rows/s in place of 20,000",
        verdict=_verdict(rows[1] < rows[0] / 5),
        measured=f"{rows[0]:,.0f} and {rows[1]:,.0f} rows/s (a first snapshot of each client among them); server"
        f" {cpu[0]:.0f} and {cpu[1]:.0f} % of a core",
    )


def _control(record: Record, backend: str) -> Finding | None:
    spread = efficiency(of(record, CHUNKS, backend, f"{PAPERS} 5 s"))
    control = efficiency(of(record, CHUNKS, backend, f"{PAPERS} control"))
    if spread is None or control is None:
        return None
    return Finding(
        claim="As many rows that lie together are no trouble for the same server",
        paper="the control sample of 100 MB “comfortably retrieved”",
        verdict=_verdict(control >= WHOLE and spread < WHOLE),
        measured=f"in time: {percent(control)} of the control sample, {percent(spread)} of folders ({PAPERS})",
    )


def _efficiency(record: Record, backend: str) -> Finding | None:
    ours, papers = of(record, EFFICIENCY, backend, OURS), of(record, EFFICIENCY, backend, PAPERS)
    if not ours or not papers:
        return None
    rows = ours[0].run.settings.rows_asked
    return Finding(
        claim=f"The paper's way falls at {rows:,.0f} rows/s, and windows do not",
        paper="20,000 rows/s: 100 % with a cache of 1.2 GB; 400 MB: 85 % of a snapshot of 80 MB",
        verdict=_verdict((efficiency(ours) or 0) >= WHOLE and (efficiency(papers) or 0) < WHOLE),
        measured=f"in time: {percent(efficiency(ours))} by {OURS}, {percent(efficiency(papers))} by {PAPERS}",
    )


def _writes(record: Record, backend: str) -> Finding | None:
    found = {each.name: each for each in record.writing if each.backend == backend}
    alone, beside = found.get("alone"), found.get(f"with {OURS}")
    if alone is None or beside is None:
        return None
    words = [f"{name}: {each.rate:,.1f} triggers/s, p99 {number(each.p99_ms or 0)} ms" for name, each in found.items()]
    return Finding(
        claim="Snapshot readers leave the rate of writing as it is",
        paper="not measured",
        verdict=_verdict(beside.rate > 0.98 * alone.rate),
        measured="; ".join(words),
    )


def measured_backends(record: Record) -> list[str]:
    """Databases of which a cliff was measured."""
    return [backend for backend in backends(record, CLIFF) if cliffs(record, backend)]
