"""The report of a benchmark of tiers: what the blog found and what tiers have to do, with verdicts, and the figures."""

from collections.abc import Iterator
from statistics import median

from benchmarks.report.model import (
    Facts,
    Finding,
    Report,
    Section,
    Table,
    Verdict,
    Warnings,
    counted,
    findings_table,
    holds,
    number,
    ratio_words,
    shown,
    times,
    within,
    worst,
)
from benchmarks.tiers.figures import (
    BLOG_PAGES,
    BLOG_S,
    BLOG_SEARCH_S,
    block_ratio,
    by_place,
    by_prediction,
    layouts,
    leaves_ratio,
    moved_by,
    p99s,
    prediction,
    scan_by_picks,
    searched_s,
    seconds,
    workloads,
)
from benchmarks.tiers.plan import (
    ALL,
    BESIDE,
    FAST,
    FILTER,
    HOT,
    INSERT_DELETE,
    MIX,
    MOVERS,
    OURS,
    OURS_ELSEWHERE,
    PEAKS,
    PLACES,
    PLANNING,
    QUERIES,
    QUESTIONS,
    RANGE,
    REDUCED,
    SEARCHES,
    SIZES,
    SLOW,
    SPECTRA,
    WHOLE,
    Plan,
    Record,
    predicted,
)
from schemas.batch import Layout

AS_PREDICTED = (0.8, 1.25)
FAR_FASTER = 0.75
TWICE = 1.8
ANEW = 1.1
COMMITS_MOST, READERS_MOST = 1.5, 2.0
"""The limit of p99 with moves."""
PLANNING_MOST = 2.0
A_THIRD = 0.4
FEWER_PEAKS = 5.0
"""So much faster is what the number of peaks has to make a search."""
WORDS = {ALL: "mean of all", WHOLE: "random triggers of all", HOT: "random triggers of the hot 20 %"}
FINDINGS = (
    "The blog is “The Long Tail - vertical table partitioning” (2015); an aim is one of tiers. Each verdict is of the "
    "figures beside it."
)


def report(record: Record) -> Report:
    """Make the report."""
    machine, found = record.machine, list(findings(record))
    return Report(
        title="Tiers: old readings on a slow disk",
        facts=f"{machine.get('processor', '')}, {machine.get('cores', '?')} cores · {record.date}",
        date=record.date,
        command="make bench-tiers",
        sections=[
            Section("", [Warnings(record.notes)] if record.notes else []),
            Section("Findings", [findings_table(found, FINDINGS, "Finding", "The blog, or aim")] if found else []),
            Section("Figures", tables(record)),
            Section("Measured on", [Facts("The run", list(facts(record)))]),
        ],
    )


# --- findings --------------------------------------------------------------------------------------------------------


def findings(record: Record) -> Iterator[Finding]:
    """Judge all findings that were measured."""
    for layout in layouts(record):
        yield from _mix(record, layout)
    yield from _movers(record)
    yield from _beside(record)
    yield from _planning(record)
    yield from _sizes(record)
    yield from _spectra(record)


def _mix(record: Record, layout: str) -> Iterator[Finding]:
    scan, whole = (by_prediction(record, layout, question) for question in (ALL, WHOLE))
    if scan is not None:
        yield Finding(
            f"{layout}: a scan of 20/80 takes what its parts take",
            "0.96 of it: 178 s, predicted 186",
            within(scan, AS_PREDICTED[1], AS_PREDICTED[0]),
            ratio_words(scan),
        )
    if whole is not None:
        yield Finding(
            f"{layout}: random ids of all of 20/80 are far faster than predicted",
            "0.62 of it: 50 s, predicted 81 (“an anomaly I cannot explain”)",
            within(whole, FAR_FASTER),
            ratio_words(whole),
        )
    hot = by_place(record, layout, HOT, MIX)
    if hot is not None:
        yield Finding(
            f"{layout}: random ids of the hot 20 % are as fast as with all on the fast disk",
            "0.8 times as long: 4 s, and 5 with all on the fast disk",
            within(hot, AS_PREDICTED[1]),
            f"{ratio_words(hot)} times as long",
        )
    scanned, picked = (by_place(record, layout, question, SLOW) for question in (ALL, WHOLE))
    both = scan_by_picks(record, layout)
    if scanned is not None and picked is not None and both is not None:
        yield Finding(
            f"{layout}: a slow disk slows random ids down more than twice as much as a scan",
            "16 and 2.3 times as long",
            within(both, 0.5),
            f"{ratio_words(picked)} and {ratio_words(scanned)} times as long",
        )


def _movers(record: Record) -> Iterator[Finding]:
    blogs = moved_by(record, INSERT_DELETE)
    if blogs is not None:
        yield Finding(
            "INSERT, then DELETE loses rows that are committed in between",
            "not noticed",
            Verdict.REPRODUCED if blogs.lost else Verdict.UNKNOWN,
            f"{blogs.lost:,} of {blogs.committed:,} rows lost",
        )
        yield Finding(
            "What half of the rows were moved out of is twice as large as it needs to be",
            f"{BLOG_PAGES[1]:,} pages, and {BLOG_PAGES[0]:,} written anew",
            holds(blogs.pages_after >= TWICE * blogs.pages_full),
            f"{blogs.pages_after:,} pages, and {blogs.pages_full:,} written anew",
        )
    ours = [each for each in (moved_by(record, OURS), moved_by(record, OURS_ELSEWHERE)) if each is not None]
    if ours:
        words = [
            f"{each.way}: {each.lost} lost, {each.doubled} doubled, {each.wrong} wrong answers, {each.pages_after:,} "
            f"pages ({each.pages_full:,} written anew)"
            for each in ours
        ]
        are_whole = all(
            not each.lost and not each.doubled and not each.wrong and each.pages_after <= ANEW * each.pages_full
            for each in ours
        )
        yield Finding(
            "Ours loses and doubles nothing, and leaves no room unused", "aim", holds(are_whole), "; ".join(words)
        )


def _beside(record: Record) -> Iterator[Finding]:
    blocks = record.blocks
    if not blocks:
        return
    commits = block_ratio(blocks, None)
    if commits is not None:
        yield Finding(
            f"Moves make the commit p99 at most {COMMITS_MOST:g} times as long",
            "aim",
            within(commits, COMMITS_MOST),
            ratio_words(commits),
        )
    readers = {name: ratio for name in workloads(blocks) if (ratio := block_ratio(blocks, name)) is not None}
    if readers:
        words = [f"{name} {ratio_words(each)}" for name, each in readers.items()]
        verdicts = {within(each, READERS_MOST) for each in readers.values()}
        yield Finding(
            f"Moves make the p99 of readers at most {READERS_MOST:g} times as long",
            "aim",
            worst(verdicts),
            ", ".join(words),
        )
    wrong, looks = sum(each.wrong for each in blocks), sum(each.counted for each in blocks)
    yield Finding(
        "Counts are right at every moment of a move",
        "aim",
        holds(not wrong) if looks else Verdict.UNKNOWN,
        f"{wrong:,} of {looks:,} counts are wrong",
    )


def _planning(record: Record) -> Iterator[Finding]:
    most = max((each.periods for each in record.planned), default=0)
    found = {each.question: leaves_ratio(each) for each in record.planned if each.periods == most and not each.first}
    if not found:
        return
    words = [f"{question} {ratio_words(each)}" for question, each in found.items()]
    yield Finding(
        f"Twice as many tables, a leaf for each of {most:,} periods, at most double the planning of a question",
        "asked as a question",
        worst({within(each, PLANNING_MOST) for each in found.values()}),
        ", ".join(words),
    )


def _sizes(record: Record) -> Iterator[Finding]:
    found = {each.layout: each.data / each.readings for each in record.sizes}
    rows, arrays, figures = (found.get(name) for name in (Layout.ROWS, Layout.ARRAYS, REDUCED))
    if rows is not None and arrays is not None:
        yield Finding(
            "A reading takes a third of the room in arrays",
            "93 bytes, and 31 to 34, measured beforehand",
            holds(arrays <= A_THIRD * rows),
            f"{number(rows)} bytes, and {number(arrays)}",
        )
    if rows is not None and figures is not None:
        yield Finding(
            "What is reduced takes a hundredth of the room",
            "93 bytes, and 0.37, measured beforehand",
            holds(figures <= 0.01 * rows),
            f"{number(rows)} bytes, and {number(figures)}",
        )


def _spectra(record: Record) -> Iterator[Finding]:
    found = [searched_s(record, way) for way in (FILTER, PEAKS, RANGE)]
    computed, peaks, by_range = found
    if computed is None or peaks is None or by_range is None:
        return
    yield Finding(
        "An index of the number of peaks makes a search many times as fast, and one of their range far more",
        "23 and 532 times as fast (18,696, 797 and 35 ms; the blog says 534)",
        holds(computed >= FEWER_PEAKS * peaks and peaks > 2 * by_range),
        f"{times(computed / peaks)} and {times(computed / by_range)} times as fast",
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def tables(record: Record) -> list[Table]:
    """Make the tables of what was measured."""
    found = (
        *(_disks_table(record), _queries_table(record), _movers_table(record), _beside_table(record)),
        *(_planning_table(record), _sizes_table(record), _spectra_table(record)),
    )
    return [each for each in found if each.rows]


def facts(record: Record) -> Iterator[tuple[str, str]]:
    """Return what it was measured on."""
    yield "date", record.date
    yield "server", record.server
    yield from record.machine.items()
    for part, scale in record.scales.items():
        yield f"scale of {part}", f"{scale:g}"


def _command(record: Record, part: str) -> str:
    return f"`{record.commands.get(part, '')}`"


def _disks_table(record: Record) -> Table:
    rows = [
        (
            f"{each.part}: {each.kind}",
            *(number(each.iops), number(each.mb_per_s)),
            *(number(each.fast_iops), number(each.fast_mb_per_s)),
        )
        for each in record.disks
    ]
    note = (
        "Random reads of 8 KiB one after the other, and a sequential read, just before each part. The blog's disks had "
        "68 and 140, and 5,986 and 431."
    )
    columns = ("", "slow: reads/s", "MB/s", "fast: reads/s", "MB/s")
    return Table("The disks", columns, rows, note)


def _queries_table(record: Record) -> Table:
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
                    "" if found is None else ratio_words(found),
                )
            )
    note = (
        f"Seconds, all caches cold; medians of {counted(rounds, 'round')} by turns, and mean ratios with their 95 % "
        f"intervals. {plan.periods} hours of {plan.triggers:,} triggers of 120 readings; "
        f"{counted(plan.ids, 'random trigger')}, looked up by indexes. In the mix the newest fifth is on the fast "
        "disk. Predicted is 0.2 of what the question takes on the fast disk and 0.8 of that on the slow one, and all "
        "of the former for the hot 20 % (the blog: `210*0.8 + 90*0.2`). The blog has 1e9 rows, asks for 10,000, and "
        f"had its indexes on the fast disk, as ours are. {_command(record, QUERIES)}"
    )
    columns = ("", FAST, SLOW, "20/80", "predicted", "20/80 by it")
    title = "Questions on the fast disk, the slow one, and 20/80"
    return Table(title, columns, rows if record.asked else [], note)


def _movers_table(record: Record) -> Table:
    rows = [
        (
            each.way,
            *(number(each.seconds), f"{each.committed:,}", f"{each.lost:,}", f"{each.doubled:,}"),
            *(f"{each.thrown_away}", number(1e3 * each.writer_s), number(1e3 * each.reader_s)),
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
        "Half of the readings are moved to the slow disk; a writer commits rows of the time that is moved (in the last "
        "row of the other half), and a reader asks for triggers that are moved. Waits are the longest. Pages are those "
        "of what the readings were taken from, on the fast disk: before, after VACUUM, and after VACUUM FULL. With "
        f"late rows ours is tried until they end; its seconds are those of the move. {_command(record, MOVERS)}"
    )
    return Table("Movers beside a writer and a reader", columns, rows, note)


def _beside_table(record: Record) -> Table:
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
                "" if ratio is None else ratio_words(ratio),
            )
        )
    down, up, tries = (sum(getattr(each, name) for each in blocks) for name in ("down", "up", "tries"))
    wrong, looks = (sum(getattr(each, name) for each in blocks) for name in ("wrong", "counted"))
    note = (
        "100 triggers/s of 120 instruments, three reader workloads, and by turns blocks without moves and with: "
        f"{down} hours moved down and {up} up in {tries} tries, at most 16 MiB/s. Medians; the ratio is of each block "
        f"with moves by its neighbours, with a 95 % interval. {looks:,} times the readings of an hour were counted "
        f"meanwhile, {wrong:,} times wrongly. {_command(record, BESIDE)}"
    )
    columns = ("p99, ms", "without moves", "with moves", "ratio")
    return Table("Moves beside writing and reading", columns, rows, note)


def _planning_table(record: Record) -> Table:
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
        "Planning time as EXPLAIN (SUMMARY) says it, medians of rounds by turns; the ratio with its 95 % interval. "
        "`first` is the first question of a session. Locks are of tables and indexes: a server has room for "
        "max_locks_per_transaction times its connections, 6,400 by default. Layout `rows`, no readings. "
        f"{_command(record, PLANNING)}"
    )
    columns = ("", "periods", "ms", "with leaves, ms", "ratio", "locks", "with leaves")
    return Table("What a leaf below each period costs the planner", columns, rows, note)


def _sizes_table(record: Record) -> Table:
    rows = []
    for each in record.sizes:
        parts = (each.data, each.indexes, each.ledger, each.data + each.indexes + each.ledger)
        rows.append((each.layout, *(number(part / each.readings) for part in parts)))
    plan = Plan(scale=record.scales.get(SIZES, 1.0))
    note = (
        "Of complete triggers of 120 instruments with four float64 channels: a row of the arrays has 4.9 kB, and one "
        f"fits a page. Figures are of stretches of {plan.sized_triggers // plan.buckets} triggers, with what is left "
        f"of the partition that their readings were in. {_command(record, SIZES)}"
    )
    columns = ("layout", "readings", "their indexes", "ledger", "all")
    return Table("Bytes a reading", columns, rows, note)


def _spectra_table(record: Record) -> Table:
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
        f"{hits} of {spectra:,} generated spectra have a spectral contrast of 1 to two given peaks; the blog had 71 of "
        f"about 270,000. {_command(record, SPECTRA)}"
    )
    columns = ("", "ms", "times faster", "the blog, ms", "times faster")
    return Table("Mass spectra", columns, rows, note)
