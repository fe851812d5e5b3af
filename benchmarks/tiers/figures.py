"""Figures of a record, of which the tables and the findings are made: pure functions."""

from collections.abc import Sequence
from statistics import median

import numpy as np

from benchmarks.interference.estimate import against_neighbours, contrast, ratio_of
from benchmarks.rounds.summary import Ratio, mean_ratio
from benchmarks.tiers.plan import ALL, FAST, MIX, SLOW, WHOLE, Block, Moved, Planned, Record, Searched, predicted

BLOG_S: dict[str, dict[str, float]] = {
    "all": {FAST: 90.0, SLOW: 210.0, MIX: 178.0},
    "whole": {FAST: 6.0, SLOW: 100.0, MIX: 50.0},
    "hot": {FAST: 5.0, SLOW: 80.0, MIX: 4.0},
}
"""Seconds in the blog, of 1e9 rows and 10,000 of them, by question and place."""
BLOG_SEARCH_S = {"computed filter": 18.695619, "number of peaks": 0.797346, "range index": 0.035128}
BLOG_PAGES = (221_239, 442_478)
"""Pages of the half that stayed, written anew and as the mover left it."""


def layouts(record: Record) -> list[str]:
    """Those that were asked, in their order."""
    return list(dict.fromkeys(each.layout for each in record.asked))


def seconds(record: Record, layout: str, place: str, question: str) -> float | None:
    """Median of the rounds of a question."""
    found = _rounds(record, layout, place, question)
    return median(found.values()) if found else None


def prediction(record: Record, layout: str, question: str) -> float | None:
    """Seconds of a question on the mix, after what it takes on either disk alone."""
    fast, slow = (seconds(record, layout, place, question) for place in (FAST, SLOW))
    return None if fast is None or slow is None else predicted(question, fast, slow)


def by_prediction(record: Record, layout: str, question: str) -> Ratio | None:
    """Seconds on the mix by those that are predicted, round by round."""
    fast, slow, mix = _together(record, layout, *((place, question) for place in (FAST, SLOW, MIX)))
    expected = [predicted(question, *each) for each in zip(fast, slow, strict=True)]
    return mean_ratio(mix, expected) if mix else None


def by_place(record: Record, layout: str, question: str, place: str) -> Ratio | None:
    """Seconds in a place by those on the fast disk, round by round."""
    there, fast = _together(record, layout, (place, question), (FAST, question))
    return mean_ratio(there, fast) if there else None


def scan_by_picks(record: Record, layout: str) -> Ratio | None:
    """How much longer a scan takes on the slow disk, by how much longer random triggers take, round by round."""
    asked = ((place, question) for question in (ALL, WHOLE) for place in (SLOW, FAST))
    slow, fast, picked_slow, picked_fast = (np.array(each) for each in _together(record, layout, *asked))
    return mean_ratio(slow / fast, picked_slow / picked_fast) if len(slow) else None


def _together(record: Record, layout: str, *asked: tuple[str, str]) -> list[list[float]]:
    """Seconds of questions in places, of each round that has all of them."""
    found = [_rounds(record, layout, place, question) for place, question in asked]
    numbers = sorted(set.intersection(*(set(each) for each in found)))
    return [[each[number] for number in numbers] for each in found]


def _rounds(record: Record, layout: str, place: str, question: str) -> dict[int, float]:
    """Seconds by the number of the round."""
    wanted = (layout, place, question)
    return {each.round: each.seconds for each in record.asked if (each.layout, each.place, each.question) == wanted}


def moved_by(record: Record, way: str) -> Moved | None:
    """A mover."""
    return next((each for each in record.moved if each.way == way), None)


def workloads(blocks: Sequence[Block]) -> list[str]:
    """The reader workloads, in their order."""
    return list(dict.fromkeys(name for each in blocks for name in each.readers_p99_ms))


def p99s(blocks: Sequence[Block], workload: str | None) -> list[float | None]:
    """The p99 of each block, of commits or of a workload, in ms; None where there was none."""
    if workload is None:
        return [each.commit_p99_ms for each in blocks]
    return [each.readers_p99_ms.get(workload) for each in blocks]


def block_ratio(blocks: Sequence[Block], workload: str | None) -> Ratio | None:
    """A p99 with moves by that without: each block with moves by its neighbours, as interference is (decision 0033)."""
    values = p99s(blocks, workload)
    chosen = [
        k
        for k in range(1, len(blocks) - 1)
        if blocks[k].down and not blocks[k - 1].down and not blocks[k + 1].down and all(values[k - 1 : k + 2])
    ]
    if not chosen:
        return None
    y = np.log(np.array([value or 1.0 for value in values], np.float64))
    weights = against_neighbours(chosen, [k - 1 for k in chosen], [k + 1 for k in chosen], len(blocks))
    quiet = np.array([not each.down for each in blocks])
    found = ratio_of(contrast(y, weights, quiet))
    return Ratio(value=found.ratio, low=found.low, high=found.high)


def leaves_ratio(planned: Planned) -> Ratio:
    """Planning with leaves by that without, round by round."""
    return mean_ratio(planned.leaves_ms, planned.plain_ms)


def searched_s(record: Record, way: str) -> float | None:
    """Median of the rounds of a search, in s."""
    found: list[Searched] = [each for each in record.searched if each.way == way]
    return median(found[0].seconds) if found else None
