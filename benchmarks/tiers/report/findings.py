"""What the blog found, and what tiers have to do, one by one, with the verdict of a record: pure functions."""

from collections.abc import Iterator

from benchmarks.report.formatting import number, times
from benchmarks.report.verdict import Finding, Verdict
from benchmarks.rounds.summary import Ratio
from benchmarks.tiers.plan import (
    ALL,
    FILTER,
    HOT,
    INSERT_DELETE,
    MIX,
    OURS,
    OURS_ELSEWHERE,
    PEAKS,
    RANGE,
    REDUCED,
    SLOW,
    WHOLE,
)
from benchmarks.tiers.record import Record
from benchmarks.tiers.report.figures import (
    BLOG_PAGES,
    block_ratio,
    by_place,
    by_prediction,
    layouts,
    leaves_ratio,
    moved_by,
    scan_by_picks,
    searched_s,
    workloads,
)
from benchmarks.tiers.report.tables import ratio_words
from schemas.batch import Layout

AS_PREDICTED = (0.8, 1.25)
FAR_FASTER = 0.75
TWICE = 1.8
ANEW = 1.1
COMMITS_MOST, READERS_MOST = 1.5, 2.0
"""What p99 may become with moves."""
PLANNING_MOST = 2.0
A_THIRD = 0.4
FEWER_PEAKS = 5.0
"""So much faster is what the number of peaks has to make a search."""


def findings(record: Record) -> Iterator[Finding]:
    """All of them that were measured."""
    for layout in layouts(record):
        yield from _mix(record, layout)
    yield from _movers(record)
    yield from _beside(record)
    yield from _planning(record)
    yield from _sizes(record)
    yield from _spectra(record)


def _verdict(holds: bool) -> Verdict:
    return Verdict.REPRODUCED if holds else Verdict.REFUTED


def _mix(record: Record, layout: str) -> Iterator[Finding]:
    scan, whole = (by_prediction(record, layout, question) for question in (ALL, WHOLE))
    if scan is not None:
        yield Finding(
            claim=f"{layout}: a scan of 20/80 takes what its parts take",
            paper="0.96 of it: 178 s, predicted 186",
            verdict=_between(scan, *AS_PREDICTED),
            measured=ratio_words(scan),
        )
    if whole is not None:
        yield Finding(
            claim=f"{layout}: random ids of all of 20/80 are far faster than predicted",
            paper="0.62 of it: 50 s, predicted 81 (“an anomaly I cannot explain”)",
            verdict=_within(whole, FAR_FASTER),
            measured=ratio_words(whole),
        )
    hot = by_place(record, layout, HOT, MIX)
    if hot is not None:
        yield Finding(
            claim=f"{layout}: random ids of the hot 20 % are as fast as with all on the fast disk",
            paper="0.8 times as long: 4 s, and 5 with all on the fast disk",
            verdict=_within(hot, AS_PREDICTED[1]),
            measured=f"{ratio_words(hot)} times as long",
        )
    scanned, picked = (by_place(record, layout, question, SLOW) for question in (ALL, WHOLE))
    both = scan_by_picks(record, layout)
    if scanned is not None and picked is not None and both is not None:
        yield Finding(
            claim=f"{layout}: a slow disk slows random ids down more than twice as much as a scan",
            paper="16 and 2.3 times as long",
            verdict=_within(both, 0.5),
            measured=f"{ratio_words(picked)} and {ratio_words(scanned)} times as long",
        )


def _movers(record: Record) -> Iterator[Finding]:
    blogs = moved_by(record, INSERT_DELETE)
    if blogs is not None:
        yield Finding(
            claim="INSERT, then DELETE loses rows that are committed in between",
            paper="not noticed",
            verdict=Verdict.REPRODUCED if blogs.lost else Verdict.UNKNOWN,
            measured=f"{blogs.lost:,} of {blogs.committed:,} rows lost",
        )
        yield Finding(
            claim="What half of the rows were moved out of is twice as large as it needs to be",
            paper=f"{BLOG_PAGES[1]:,} pages, and {BLOG_PAGES[0]:,} written anew",
            verdict=_verdict(blogs.pages_after >= TWICE * blogs.pages_full),
            measured=f"{blogs.pages_after:,} pages, and {blogs.pages_full:,} written anew",
        )
    ours = [each for each in (moved_by(record, OURS), moved_by(record, OURS_ELSEWHERE)) if each is not None]
    if ours:
        words = [
            f"{each.way}: {each.lost} lost, {each.doubled} doubled, {each.wrong} wrong answers, {each.pages_after:,}"
            f" pages ({each.pages_full:,} written anew)"
            for each in ours
        ]
        are_whole = all(
            not each.lost and not each.doubled and not each.wrong and each.pages_after <= ANEW * each.pages_full
            for each in ours
        )
        yield Finding(
            claim="Ours loses and doubles nothing, and leaves no room unused",
            paper="aim",
            verdict=_verdict(are_whole),
            measured="; ".join(words),
        )


def _beside(record: Record) -> Iterator[Finding]:
    blocks = record.blocks
    if not blocks:
        return
    commits = block_ratio(blocks, None)
    if commits is not None:
        yield Finding(
            claim=f"Moves make the commit p99 at most {COMMITS_MOST:g} times as long",
            paper="aim",
            verdict=_within(commits, COMMITS_MOST),
            measured=ratio_words(commits),
        )
    readers = {name: ratio for name in workloads(blocks) if (ratio := block_ratio(blocks, name)) is not None}
    if readers:
        words = [f"{name} {ratio_words(each)}" for name, each in readers.items()]
        verdicts = {_within(each, READERS_MOST) for each in readers.values()}
        yield Finding(
            claim=f"Moves make the p99 of readers at most {READERS_MOST:g} times as long",
            paper="aim",
            verdict=_worst(verdicts),
            measured=", ".join(words),
        )
    wrong, looks = sum(each.wrong for each in blocks), sum(each.counted for each in blocks)
    yield Finding(
        claim="Counts are right at every moment of a move",
        paper="aim",
        verdict=_verdict(not wrong) if looks else Verdict.UNKNOWN,
        measured=f"{wrong:,} of {looks:,} counts are wrong",
    )


def _worst(verdicts: set[Verdict]) -> Verdict:
    return next(each for each in (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.REPRODUCED) if each in verdicts)


def _within(found: Ratio, most: float) -> Verdict:
    """Whether a ratio, with its whole interval, is at most so much."""
    return _between(found, 0.0, most)


def _between(found: Ratio, least: float, most: float) -> Verdict:
    """Whether a ratio is there with its whole interval; refuted if none of it is."""
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    if least <= low and high <= most:
        return Verdict.REPRODUCED
    return Verdict.REFUTED if low > most or high < least else Verdict.UNKNOWN


def _planning(record: Record) -> Iterator[Finding]:
    most = max((each.periods for each in record.planned), default=0)
    found = {each.question: leaves_ratio(each) for each in record.planned if each.periods == most and not each.first}
    if not found:
        return
    words = [f"{question} {ratio_words(each)}" for question, each in found.items()]
    yield Finding(
        claim=f"Twice as many tables, a leaf for each of {most:,} periods, at most double the planning of a question",
        paper="asked as a question",
        verdict=_worst({_within(each, PLANNING_MOST) for each in found.values()}),
        measured=", ".join(words),
    )


def _sizes(record: Record) -> Iterator[Finding]:
    found = {each.layout: each.data / each.readings for each in record.sizes}
    rows, arrays, figures = (found.get(name) for name in (Layout.ROWS, Layout.ARRAYS, REDUCED))
    if rows is not None and arrays is not None:
        yield Finding(
            claim="A reading takes a third of the room in arrays",
            paper="93 bytes, and 31 to 34, measured beforehand",
            verdict=_verdict(arrays <= A_THIRD * rows),
            measured=f"{number(rows)} bytes, and {number(arrays)}",
        )
    if rows is not None and figures is not None:
        yield Finding(
            claim="What is reduced takes a hundredth of the room",
            paper="93 bytes, and 0.37, measured beforehand",
            verdict=_verdict(figures <= 0.01 * rows),
            measured=f"{number(rows)} bytes, and {number(figures)}",
        )


def _spectra(record: Record) -> Iterator[Finding]:
    found = [searched_s(record, way) for way in (FILTER, PEAKS, RANGE)]
    computed, peaks, by_range = found
    if computed is None or peaks is None or by_range is None:
        return
    yield Finding(
        claim="An index of the number of peaks makes a search many times as fast, and one of their range far more",
        paper="23 and 532 times as fast (18,696, 797 and 35 ms; the blog says 534)",
        verdict=_verdict(computed >= FEWER_PEAKS * peaks and peaks > 2 * by_range),
        measured=f"{times(computed / peaks)} and {times(computed / by_range)} times as fast",
    )
