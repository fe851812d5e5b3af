"""The tables of the report: pure functions."""

from collections.abc import Iterator
from statistics import median

from benchmarks.report.formatting import counted, number, times
from benchmarks.report.table import Table
from benchmarks.rounds.summary import Ratio
from benchmarks.tiers.plan import (
    ALL,
    BESIDE,
    FAST,
    HOT,
    MIX,
    MOVERS,
    PLACES,
    PLANNING,
    QUERIES,
    QUESTIONS,
    SEARCHES,
    SIZES,
    SLOW,
    SPECTRA,
    WHOLE,
    Plan,
    predicted,
)
from benchmarks.tiers.record import Record
from benchmarks.tiers.report.figures import (
    BLOG_S,
    BLOG_SEARCH_S,
    block_ratio,
    by_prediction,
    layouts,
    leaves_ratio,
    p99s,
    prediction,
    searched_s,
    seconds,
    workloads,
)

NOTHING = ""
WORDS = {ALL: "mean of all", WHOLE: "random triggers of all", HOT: "random triggers of the hot 20 %"}


def shown(value: float | None, factor: float = 1.0) -> str:
    """A figure, or nothing."""
    return NOTHING if value is None else number(value * factor)


def ratio_words(found: Ratio) -> str:
    """A ratio with its 95 % interval, where it has one."""
    if found.low is None or found.high is None:
        return times(found.value)
    return f"{times(found.value)} ({times(found.low)} to {times(found.high)})"


def tables(record: Record) -> list[Table]:
    """All that were measured."""
    found = (
        *(_disks(record), _queries(record), _movers(record), _beside(record)),
        *(_planning(record), _sizes(record), _spectra(record)),
    )
    return [each for each in found if each.rows]


def facts(record: Record) -> Iterator[tuple[str, str]]:
    """What it was measured on."""
    yield "date", record.date
    yield "server", record.server
    yield from record.machine.items()
    for part, scale in record.scales.items():
        yield f"scale of {part}", f"{scale:g}"


def _command(record: Record, part: str) -> str:
    return f"`{record.commands.get(part, '')}`"


def _disks(record: Record) -> Table:
    rows = [
        (
            f"{each.part}: {each.kind}",
            *(number(each.iops), number(each.mb_per_s)),
            *(number(each.fast_iops), number(each.fast_mb_per_s)),
        )
        for each in record.disks
    ]
    note = (
        "Random reads of 8 KiB one after the other, and a sequential read, just before each part. The blog's disks had"
        " 68 and 140, and 5,986 and 431."
    )
    columns = ("", "slow: reads/s", "MB/s", "fast: reads/s", "MB/s")
    return Table(title="The disks", columns=columns, rows=tuple(rows), note=note)


def _queries(record: Record) -> Table:
    plan = Plan(scale=record.scales.get(QUERIES, 1.0))
    rounds = len({each.round for each in record.asked})
    rows = []
    for question in QUESTIONS:
        of = BLOG_S[question]
        expected = predicted(question, of[FAST], of[SLOW])
        figures = (*(number(of[place]) for place in PLACES), number(expected), times(of[MIX] / expected))
        rows.append((f"the blog: {WORDS[question]}", *figures))
        for layout in layouts(record):
            found = by_prediction(record, layout, question)
            rows.append(
                (
                    f"{layout}: {WORDS[question]}",
                    *(shown(seconds(record, layout, place, question)) for place in PLACES),
                    shown(prediction(record, layout, question)),
                    NOTHING if found is None else ratio_words(found),
                )
            )
    note = (
        f"Seconds, all caches cold; medians of {counted(rounds, 'round')} by turns, and mean ratios with their 95 %"
        f" intervals. {plan.periods} hours of {plan.triggers:,} triggers of 120 readings;"
        f" {counted(plan.ids, 'random trigger')}, looked up by indexes. In the mix the newest fifth is on the fast"
        " disk. Predicted is 0.2 of what the question takes on the fast disk and 0.8 of that on the slow one, and all"
        " of the former for the hot 20 % (the blog: `210*0.8 + 90*0.2`). The blog has 1e9 rows, asks for 10,000, and"
        f" had its indexes on the fast disk, as ours are. {_command(record, QUERIES)}"
    )
    columns = ("", FAST, SLOW, "20/80", "predicted", "20/80 by it")
    title = "Questions on the fast disk, the slow one, and 20/80"
    return Table(title=title, columns=columns, rows=tuple(rows) if record.asked else (), note=note)


def _movers(record: Record) -> Table:
    rows = [
        (
            each.way,
            *(number(each.seconds), f"{each.committed:,}", f"{each.lost:,}", f"{each.doubled:,}"),
            *(f"{each.thrown_away}", shown(each.writer_s, 1e3), shown(each.reader_s, 1e3)),
            *(f"{each.wrong:,} of {each.asked:,}", f"{each.pages_before:,}", f"{each.pages_after:,}"),
            f"{each.pages_full:,}",
        )
        for each in record.moved
    ]
    columns = (
        *("", "s", "rows written", "lost", "doubled", "copies given up", "writer waits ms", "reader waits ms"),
        *("wrong answers", "pages before", "after", "written anew"),
    )
    note = (
        "Half of the readings are moved to the slow disk; a writer commits rows of the time that is moved (in the last"
        " row of the other half), and a reader asks for triggers that are moved. Waits are the longest. Pages are those"
        " of what the readings were taken from, on the fast disk: before, after VACUUM, and after VACUUM FULL. With"
        f" late rows ours is tried until they end; its seconds are those of the move. {_command(record, MOVERS)}"
    )
    return Table(title="Movers beside a writer and a reader", columns=columns, rows=tuple(rows), note=note)


def _beside(record: Record) -> Table:
    blocks, rows = record.blocks, []
    for workload in (None, *workloads(blocks)) if blocks else ():
        values = p99s(blocks, workload)
        quiet = [value for value, each in zip(values, blocks, strict=True) if value is not None and not each.down]
        busy = [value for value, each in zip(values, blocks, strict=True) if value is not None and each.down]
        ratio = block_ratio(blocks, workload)
        rows.append(
            (
                "commits" if workload is None else f"reader `{workload}`",
                *(shown(median(each) if each else None) for each in (quiet, busy)),
                NOTHING if ratio is None else ratio_words(ratio),
            )
        )
    down, up, tries = (sum(getattr(each, name) for each in blocks) for name in ("down", "up", "tries"))
    wrong, looks = (sum(getattr(each, name) for each in blocks) for name in ("wrong", "counted"))
    note = (
        f"100 triggers/s of 120 instruments, three reader workloads, and by turns blocks without moves and with:"
        f" {down} hours moved down and {up} up in {tries} tries, at most 16 MiB/s. Medians; the ratio is of each block"
        f" with moves by its neighbours, with a 95 % interval. {looks:,} times the readings of an hour were counted"
        f" meanwhile, {wrong:,} times wrongly. {_command(record, BESIDE)}"
    )
    columns = ("p99, ms", "without moves", "with moves", "ratio")
    return Table(title="Moves beside writing and reading", columns=columns, rows=tuple(rows), note=note)


def _planning(record: Record) -> Table:
    rows = []
    for each in record.planned:
        ratio = leaves_ratio(each)
        which = "first" if each.first else "again"
        rows.append(
            (
                f"{each.question}, {which}",
                f"{each.periods:,}",
                *(number(median(each.plain_ms)), number(median(each.leaves_ms))),
                ratio_words(ratio),
                *(f"{each.plain_locks:,}", f"{each.leaves_locks:,}"),
            )
        )
    note = (
        "Planning time as EXPLAIN (SUMMARY) says it, medians of rounds by turns; the ratio with its 95 % interval."
        " `first` is the first question of a session. Locks are of tables and indexes: a server has room for"
        " max_locks_per_transaction times its connections, 6,400 by default. Layout `rows`, no readings."
        f" {_command(record, PLANNING)}"
    )
    columns = ("", "periods", "ms", "with leaves, ms", "ratio", "locks", "with leaves")
    return Table(title="What a leaf below each period costs the planner", columns=columns, rows=tuple(rows), note=note)


def _sizes(record: Record) -> Table:
    rows = []
    for each in record.sizes:
        parts = (each.data, each.indexes, each.ledger, each.data + each.indexes + each.ledger)
        rows.append((each.layout, *(number(part / each.readings) for part in parts)))
    plan = Plan(scale=record.scales.get(SIZES, 1.0))
    note = (
        "Of complete triggers of 120 instruments with four float64 channels: a row of the arrays has 4.9 kB, and"
        f" one fits a page. Figures are of stretches of {plan.sized_triggers // plan.buckets} triggers, with what is"
        f" left of the partition that their readings were in. {_command(record, SIZES)}"
    )
    columns = ("layout", "readings", "their indexes", "ledger", "all")
    return Table(title="Bytes a reading", columns=columns, rows=tuple(rows), note=note)


def _spectra(record: Record) -> Table:
    first, blog_first = searched_s(record, SEARCHES[0]), BLOG_SEARCH_S[SEARCHES[0]]
    rows = []
    for way in SEARCHES:
        took = searched_s(record, way)
        if took is not None and first is not None:
            blog = BLOG_SEARCH_S[way]
            faster = (times(first / took), times(blog_first / blog))
            rows.append((way, number(1e3 * took), faster[0], number(1e3 * blog), faster[1]))
    spectra = record.searched[0].spectra if record.searched else 0
    hits = record.searched[0].hits if record.searched else 0
    note = (
        f"{hits} of {spectra:,} generated spectra have a spectral contrast of 1 to two given peaks; the blog had 71 of"
        f" about 270,000. {_command(record, SPECTRA)}"
    )
    columns = ("", "ms", "times faster", "the blog, ms", "times faster")
    return Table(title="Mass spectra", columns=columns, rows=tuple(rows), note=note)
