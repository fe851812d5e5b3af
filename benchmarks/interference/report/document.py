"""The report of an experiment as one HTML file: it opens offline, asks nothing of the outside and runs no script."""

import time
from collections.abc import Iterator

from benchmarks.html.document import document
from benchmarks.html.elements import card, definitions, repeated_by, section, settings_card, tile, tiles, warnings
from benchmarks.html.markup import Markup, tag
from benchmarks.interference.report.dose import dose_response
from benchmarks.interference.report.tables import agreement, readers, server, writing
from benchmarks.interference.report.timeline import key, panels
from benchmarks.interference.statistics.verdicts import factor, range_of
from benchmarks.report.formatting import counted, number
from daemon.workloads.interference.command_line import readers_words
from schemas.api.interference import Record, Result, Row
from schemas.states import RunState

TITLE = "What readers do to the writing"
STATES = {
    RunState.STOPPED: "It was stopped before its end",
    RunState.INTERRUPTED: "The daemon ended under it",
    RunState.FAILED: "It failed",
}


def page(record: Record) -> str:
    """Write the whole file. The record has its result."""
    assert record.result is not None
    of = record.conditions
    facts = (
        f"{of.server} · {readers_words(record.settings)} · {of.machine}, {counted(of.cores, 'core')} · {_date(record)}"
    )
    sections = _sections(record, record.result)
    return document(TITLE, facts, sections, date=_date(record), command="triggerlog interference")


def _sections(record: Record, result: Result) -> Iterator[Markup]:
    yield _found(record, result)
    note = (
        "Blocks of A, without readers, and of B, with readers, take turns under the same load. What is paler does not "
        "count: the start of a block, which is its warm-up, and blocks that are left out."
    )
    yield section("The run", key(), panels(record), name="run", note=note)
    yield dose_response(record)
    if result.rows:
        ab = (
            "Each block of B is compared with the two blocks of A around it, so that a straight drift cancels; small "
            "below a ratio is its interval of 95 % confidence, n the number of blocks of B. Latencies count from a "
            "trigger’s closing to its commit acknowledged. The ratio of the backlog is of the backlog plus one."
        )
        yield section("The writing, without and with readers", writing(result), name="writing", note=ab)
    if result.agreement:
        aa = "The same method, with every second block of A in the place of B: a steady machine gives 1."
        yield section("Was the machine steady?", agreement(result), name="steady", note=aa)
    yield readers(record)
    yield server(result, record.conditions.server)
    yield _conditions(record)


def _date(record: Record) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.began_ns // 10**9))


# --- what was found --------------------------------------------------------------------------------------------------


def _found(record: Record, result: Result) -> Markup:
    most = max((row.readers for row in result.rows), default=0)
    found = [
        _tile(title, figure, unit, rows[0])
        for figure, title, unit in (("p99_ms", "Commit p99", "ms"), ("rate", "Commit rate", "triggers/s"))
        if (rows := [row for row in result.rows if row.figure == figure and row.readers == most])
    ]
    found += [_readers_tile(result, most)] if result.readers else []
    advice = [tag("span", tag("strong", result.headline))]
    advice += [tag("span", result.crossing_words)] if result.crossing_words else []
    advice += [tag("span", result.steadiness)] if result.steady is not False else []  # else it is a warning
    return tag(
        "section",
        tiles(found),
        tag("p", *advice, class_="advice"),
        warnings(_warnings(record, result)),
        id="found",
    )


def _tile(title: str, figure: str, unit: str, row: Row) -> Markup:
    return tile(
        f"{title}, {counted(row.readers, 'reader')}",
        f"×{factor(row.b_to_a.ratio)}",
        f"{number(row.a)} → {number(row.b)} {unit}",
        unit=range_of(row.b_to_a),
        style=figure,
    )


def _readers_tile(result: Result, most: int) -> Markup:
    rows = [row for row in result.readers if row.readers == most]
    asked = sum(row.cycles + row.failed for row in rows)
    known = [row for row in rows if row.efficiency is not None]
    weights = [row.cycles + row.failed for row in known]
    in_time = sum(row.efficiency.value * n for row, n in zip(known, weights, strict=True) if row.efficiency)
    share = f"{100 * in_time / sum(weights):.1f} %" if sum(weights) else "nothing"
    small = f"of {counted(asked, 'question')} in {counted(len(rows), 'workload')}"
    return tile("The readers", share, small, unit="in time", style="readers")


def _warnings(record: Record, result: Result) -> Iterator[str]:
    if record.state in STATES:
        why = f": {record.problem}" if record.problem else ""
        done = sum(block.whole for block in record.blocks)
        yield f"{STATES[record.state]}{why}. {done} of {record.planned} blocks were measured."
    if result.steady is False:
        yield result.steadiness
    if record.conditions.governor:
        yield f"The governor was on ({record.conditions.governor}): it may have admitted fewer readers than B asks for."
    yield from record.notes


# --- conditions ------------------------------------------------------------------------------------------------------


def _conditions(record: Record) -> Markup:
    settings = record.conditions.settings
    return section(
        "How and on what it was measured",
        card(definitions(_facts(record)), repeated_by(record.command)),
        settings_card("The server’s settings", settings.items()) if settings else Markup(),
        name="conditions",
    )


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    of, settings = record.conditions, record.settings
    yield "Date", _date(record)
    yield "Machine", f"{of.machine}, {counted(of.cores, 'core')}, {of.memory_gib:.0f} GiB"
    yield "Load before", f"{of.load_average:.2f}"
    yield "triggerlog", f"{of.version}, Python {of.python}"
    yield "Database", f"{of.server}, {of.target}"
    if of.read_from != of.target:
        yield "Read from", of.read_from
    yield "Durability", of.durability
    for name, words in of.groups.items():
        yield f"Group {name}", words
    yield "Journal", "yes" if of.journal else "no"
    yield "Stored before", counted(of.stored, "trigger")
    offered = [block.received_rate for block in record.blocks if block.whole]
    if offered:
        yield "Load offered", f"{sum(offered) / len(offered):,.0f} readings/s"
    yield "Readers", readers_words(settings)
    warm_up = f"the first {settings.warm_up_s:g} s of each cut off" if settings.warm_up_s else "nothing cut off"
    yield "Blocks", f"{record.planned} of {settings.block_s:g} s, {warm_up}"
    if settings.doses:
        yield (
            "Doses",
            f"{', '.join(map(str, settings.doses))}, each {settings.pairs} times, shuffled by seed {settings.seed}",
        )
    else:
        yield "Order", "A B A B … A"
    yield "Daemon’s budget", f"commit p99 {number(of.budget_ms)} ms"
