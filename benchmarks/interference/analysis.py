"""From the blocks of a record to its result: pure functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import numpy as np

from benchmarks.interference.estimate import (
    against_neighbours,
    arithmetic_mean,
    contrast,
    crossing_of,
    drift_of,
    fraction_of,
    geometric_mean,
    ratio_of,
)
from benchmarks.report.model import counted, listed, number
from schemas.api.interference import (
    FIGURES,
    Agreement,
    Block,
    Dose,
    Mean,
    Ratio,
    ReaderRow,
    Record,
    Result,
    Row,
    ServerRow,
    WorkloadBlock,
)

# --- verdicts --------------------------------------------------------------------------------------------------------

NO_MATTER = 0.005
"""An effect that is surely smaller than this fraction does not matter."""


TOO_WIDE = 3.0
"""An interval whose ends differ by more than this factor says nothing where it holds 1."""


def factor(value: float) -> str:
    """A ratio with the digits that tell it from 1: 0.998, 1.04, 2.4, 31."""
    if value >= 10:
        return f"{value:,.0f}"
    if value >= 2:
        return f"{value:.1f}"
    if 0.95 <= value <= 1.05:
        return f"{value:.3f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def range_of(found: Ratio) -> str:
    """The interval of a ratio: `0.99 to 1.02`; empty without one."""
    return "" if found.low is None or found.high is None else f"{factor(found.low)} to {factor(found.high)}"


def is_negligible(found: Ratio) -> bool:
    """Whether the whole interval is so near 1 that it does not matter."""
    return found.low is not None and found.high is not None and found.low >= 1 - NO_MATTER <= 2 - found.high


def is_unknown(found: Ratio) -> bool:
    """Whether there is no interval, or one that holds 1 and nearly everything else."""
    if found.low is None or found.high is None:
        return True
    return bool(found.holds_one) and found.high > TOO_WIDE * found.low


def verdict(figure: str, found: Ratio) -> str:
    """What a ratio of B to A says of a figure."""
    if found.low is None or found.high is None:
        return f"ratio {factor(found.ratio)}, of one pair of blocks, which has no interval"
    if is_negligible(found):
        return f"no effect: the ratio is 1 to within {100 * max(1 - found.low, found.high - 1, 0.0005):.1f} %"
    if is_unknown(found):
        return f"not known: the ratio is {range_of(found)}"
    if found.holds_one:
        return f"no effect visible: the ratio is {range_of(found)}"
    is_long = figure in ("p50_ms", "p99_ms")
    if found.ratio >= 1.5:
        return f"{_times(found.low)} to {_times(found.high)} times as {'long' if is_long else 'high'}"
    if found.low > 1:
        return f"{_percent(found.low - 1, found.high - 1)} {'longer' if is_long else 'higher'}"
    return f"{_percent(1 - found.high, 1 - found.low)} {'shorter' if is_long else 'lower'}"


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _percent(low: float, high: float) -> str:
    return f"{_digits(100 * low)} to {_digits(100 * high)} %"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


ADDED = {"backlog": 1.0}
"""What is added to a figure before logarithms are taken: nothing may wait."""

STEADY_BY = ("rate", "p99_ms")
"""Figures by which A has to agree with A. By chance alone each fails in one run of twenty: that is what 95 % are."""


def analysed(record: Record) -> Result:
    """Compare the blocks of B with those of A; a figure with too few blocks is left out, and the result says so."""
    blocks = [block for block in record.blocks if block.counts]
    doses = sorted({block.readers for block in blocks if block.kind == "B"})
    rows = [row for readers in doses for row in _rows(blocks, readers)]
    agreement = list(_agreement(blocks))
    steady, steadiness = _steadiness(agreement)
    points = _doses(blocks, rows) if record.settings.doses else []
    budget_ms = record.conditions.budget_ms
    flooded = _flooding(record.blocks)
    lost = {block.readers for block in blocks} - {point.readers for point in points} | flooded.keys()
    crossing, crossing_words = _crossing(points, _beyond(blocks, lost, budget_ms), budget_ms)
    shown = [block for block in blocks if block.kind == "A" or block.readers == doses[-1]] if doses else []
    return Result(
        headline=_headline(rows, steady, flooded),
        rows=rows,
        agreement=agreement,
        steady=steady,
        steadiness=steadiness,
        readers=[row for readers in doses for row in _readers(record, blocks, readers)],
        server=server_rows(shown),
        waits=wait_rows(shown),
        processor=processor_rows(shown),
        doses=points,
        crossing=crossing,
        crossing_words=crossing_words if points else "",
    )


# --- the writing -----------------------------------------------------------------------------------------------------


def _rows(blocks: Sequence[Block], readers: int) -> Iterator[Row]:
    chosen = [
        i
        for i in range(1, len(blocks) - 1)
        if blocks[i].kind == "B" and blocks[i].readers == readers and _stands_between(blocks, i)
    ]
    for figure in FIGURES:
        triples = [(i - 1, i, i + 1) for i in chosen]
        values, used = _known(blocks, figure, triples)
        if not used:
            continue
        before, middle, after = zip(*used, strict=True)
        y = np.log(values + ADDED.get(figure, 0.0))
        quiet = np.array([block.kind == "A" for block in blocks])
        found = ratio_of(contrast(y, against_neighbours(middle, before, after, len(blocks)), quiet))
        around = sorted({*before, *after})
        words = verdict(figure, found)
        unknown = {i for triple in triples for i in triple if not _is_known(blocks[i], figure)}
        if unknown:
            words += f" ({counted(len(unknown), 'block')} left out, in which nothing was committed)"
        mean = _mean_of(figure)
        yield Row(
            figure=figure,
            readers=readers,
            a=mean(values[around]),
            b=mean(values[list(middle)]),
            b_to_a=found,
            verdict=words,
        )


def _stands_between(blocks: Sequence[Block], i: int) -> bool:
    """Whether both neighbours are A, and were measured right before and after it."""
    around = (blocks[i - 1], blocks[i + 1])
    return all(block.kind == "A" and abs(block.number - blocks[i].number) == 1 for block in around)


def _mean_of(figure: str) -> Callable[[np.ndarray], float]:
    if figure in ADDED:
        return lambda values: float(values.mean())
    return lambda values: float(np.exp(np.log(values).mean()))


def _known(
    blocks: Sequence[Block], figure: str, triples: Sequence[tuple[int, int, int]]
) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """The figure by block (1 where it is not known: it has no weight), and the triples of which all are known."""
    known = [_is_known(block, figure) for block in blocks]
    values = [getattr(block, figure) if good else 1.0 for block, good in zip(blocks, known, strict=True)]
    return np.array(values, np.float64), [triple for triple in triples if all(known[i] for i in triple)]


def _is_known(block: Block, figure: str) -> bool:
    value = getattr(block, figure)
    return value is not None and (value > 0 or figure in ADDED)


def _agreement(blocks: Sequence[Block]) -> Iterator[Agreement]:
    """A against A by the method by which B is: every second block of A in the place of a B."""
    quiet = [block for block in blocks if block.kind == "A"]
    number = [block.number for block in quiet]
    # In the middle of its neighbours, or a straight drift would show.
    triples = [(i - 1, i, i + 1) for i in range(1, len(quiet) - 1, 2) if number[i - 1] + number[i + 1] == 2 * number[i]]
    for figure in FIGURES:
        values, used = _known(quiet, figure, triples)
        if figure in ADDED or not used:
            continue
        before, middle, after = zip(*used, strict=True)
        seen = sorted({*before, *middle, *after})
        y, at = np.log(values), np.array([block.from_s for block in quiet])
        drift, scatter = drift_of(y[seen], at[seen])
        found = ratio_of(contrast(y, against_neighbours(middle, before, after, len(quiet))))
        yield Agreement(figure=figure, a_to_a=found, scatter=scatter, drift=float(np.exp(drift)))


def _steadiness(agreement: Sequence[Agreement]) -> tuple[bool | None, str]:
    looked = [each for each in agreement if each.figure in STEADY_BY and each.a_to_a.holds_one is not None]
    if not looked:
        return (
            None,
            "There are too few blocks of A to say whether the machine was steady: five are needed, with four pairs.",
        )
    moved = [each for each in looked if not (each.a_to_a.holds_one or is_negligible(each.a_to_a))]
    if moved:
        words = listed([f"{_title(each.figure)} {verdict(each.figure, each.a_to_a)}" for each in moved])
        return False, (
            f"The machine was not steady: blocks of A differ from their neighbours, which are A as well ({words}). "
            "Nothing below should be believed beyond that; repeat it when the machine is quiet, with longer blocks."
        )
    unknown = [each for each in looked if is_unknown(each.a_to_a)]
    if unknown:
        words = listed([f"{_title(each.figure)} {verdict(each.figure, each.a_to_a)}" for each in unknown])
        return None, (
            f"Whether the machine was steady is not known: blocks of A scatter too much to tell ({words}). Repeat it "
            "when the machine is quiet, with more or longer blocks."
        )
    scatter = listed([f"{100 * each.scatter:.1f} % in the {_title(each.figure)}" for each in looked])
    return True, f"The blocks of A agree with each other within their intervals; a block of A scatters by {scatter}."


def _title(figure: str) -> str:
    words = FIGURES[figure][0]
    return words[0].lower() + words[1:]


def _headline(rows: Sequence[Row], steady: bool | None, flooded: Mapping[int, tuple[int, int]]) -> str:
    compared = {row.readers for row in rows}
    words = [_compared(rows)] if rows else []
    for readers, (left, blocks) in sorted(flooded.items()):
        of, without = f"{left} of {counted(blocks, 'block')}", "did not go away before the next one"
        if readers not in compared:
            words.append(f"With {counted(readers, 'reader')} nothing can be compared: the backlog of {of} {without}.")
        elif readers == max(compared):  # the one that is spoken of
            words.append(f"Not compared: after {of} with {counted(readers, 'reader')} the backlog {without}.")
    if steady is False:
        words.append("The machine was not steady.")
    return " ".join(words) or (
        "Too few blocks were measured to compare anything: each block of B needs one of A before and after it."
    )


def _compared(rows: Sequence[Row]) -> str:
    most = max(row.readers for row in rows)
    found = {row.figure: row for row in rows if row.readers == most}
    parts = [f"{_title(figure)} {found[figure].verdict}" for figure in ("p99_ms", "rate") if figure in found]
    if not parts:
        parts = ["nothing was committed in so many blocks that neither rate nor latency can be compared"]
    return f"With {counted(most, 'reader')}: {'; '.join(parts)}."


def _flooding(blocks: Sequence[Block]) -> dict[int, tuple[int, int]]:
    """By number of readers: after how many blocks of B the next one began with their backlog, and how many there were.

    Those of which none did are left out.
    """
    began = {block.number for block in blocks if not block.drained}
    found = {}
    for readers in {block.readers for block in blocks if block.kind == "B"}:
        numbers = [block.number for block in blocks if block.kind == "B" and block.readers == readers]
        if left := sum(number + 1 in began for number in numbers):
            found[readers] = (left, len(numbers))
    return found


# --- doses -----------------------------------------------------------------------------------------------------------


def _doses(blocks: Sequence[Block], rows: Sequence[Row]) -> list[Dose]:
    """The points of the plot: A's own means at 0 readers, and at each dose these times the ratios of its row."""
    quiet = [block for block in blocks if block.kind == "A"]
    p99 = [block.p99_ms for block in quiet if block.p99_ms]
    rate = [block.rate for block in quiet if block.rate]
    if not p99 or not rate:
        return []
    alone = Dose(readers=0, p99_ms=geometric_mean(p99), rate=geometric_mean(rate))
    found = {(row.readers, row.figure): row.b_to_a for row in rows}
    points = [alone]
    for readers in sorted({row.readers for row in rows}):
        of = [found.get((readers, figure)) for figure in ("p99_ms", "rate")]
        if of[0] is not None and of[1] is not None:
            scaled = [
                Mean(
                    value=base.value * ratio.ratio,
                    low=None if ratio.low is None else base.value * ratio.low,
                    high=None if ratio.high is None else base.value * ratio.high,
                    blocks=ratio.pairs,
                )
                for base, ratio in ((alone.p99_ms, of[0]), (alone.rate, of[1]))
            ]
            points.append(Dose(readers=readers, p99_ms=scaled[0], rate=scaled[1]))
    return points


def _beyond(blocks: Sequence[Block], lost: Set[int], budget_ms: float) -> tuple[int, str] | None:
    """The lowest dose that was over the budget whatever the points say, and how that is known.

    In a block of it nothing was committed; or blocks of it are in no point, as those after it began with its backlog.

    lost: doses with such blocks.
    """
    for readers in sorted({block.readers for block in blocks if block.kind == "B"}):
        tried = [block for block in blocks if block.kind == "B" and block.readers == readers]
        # Where nothing came and nothing waits, there was nothing to commit.
        still = sum(not block.triggers and bool(block.received_rate or block.backlog) for block in tried)
        over = [block.p99_ms for block in tried if block.p99_ms is not None and block.p99_ms > budget_ms]
        if still:
            return readers, f"nothing was committed in {still} of {counted(len(tried), 'block')}"
        if over and readers in lost:
            return readers, f"it was {number(min(over))} ms or more in {len(over)} of {counted(len(tried), 'block')}"
    return None


def _crossing(points: Sequence[Dose], beyond: tuple[int, str] | None, budget_ms: float) -> tuple[float | None, str]:
    if not points:
        return None, ""
    readers, values = [point.readers for point in points], [point.p99_ms.value for point in points]
    crossing = crossing_of(readers, values, budget_ms)
    budget = f"The budget of {number(budget_ms)} ms for the commit p99"
    if beyond is not None and (crossing is None or crossing > beyond[0]):
        dose, words = beyond
        return float(dose), f"{budget} is crossed at {counted(dose, 'reader')} at the latest, with which {words}."
    unknown = f"{budget} is not known to be crossed"
    if crossing is None:
        above = [point.readers for point in points if point.p99_ms.high is None or point.p99_ms.high > budget_ms]
        if above:
            where = f"up to {counted(readers[-1], 'reader')} the p99 lies below it, but its interval does not"
            return None, f"{unknown}: {where} from {counted(above[0], 'reader')} on."
        return None, f"{budget} is not crossed up to {counted(readers[-1], 'reader')}."
    where = f"at about {number(crossing)} readers, by straight lines between the points"
    if not any(point.p99_ms.low is not None and point.p99_ms.low > budget_ms for point in points):
        return crossing, f"{unknown}: the p99 is over it {where}, but no interval lies above it."
    if crossing == 0:
        return crossing, f"{budget} is crossed without any reader already."
    return crossing, f"{budget} is crossed {where}."


# --- the readers -----------------------------------------------------------------------------------------------------


def _readers(record: Record, blocks: Sequence[Block], readers: int) -> Iterator[ReaderRow]:
    chosen = [block for block in blocks if block.kind == "B" and block.readers == readers]
    for workload in record.settings.workloads:
        found = [block.workloads[workload.name] for block in chosen if workload.name in block.workloads]
        asked = [each for each in found if each.admitted]
        if not asked:
            continue
        yield ReaderRow(
            workload=workload.name,
            readers=readers,
            admitted=max(each.admitted for each in asked),
            deadline_ms=workload.deadline_s * 1e3,
            cycles=sum(each.cycles for each in asked),
            failed=sum(each.failed for each in asked),
            rate=arithmetic_mean([each.rate for each in asked]),
            row_rate=arithmetic_mean([each.row_rate for each in asked]),
            p50_ms=_latency([each.p50_ms for each in asked]),
            p99_ms=_latency([each.p99_ms for each in asked]),
            efficiency=_in_time(asked),
        )


def _latency(values: Sequence[float | None]) -> Mean | None:
    known = [value for value in values if value]
    return geometric_mean(known) if known else None


def _in_time(blocks: Sequence[WorkloadBlock]) -> Mean | None:
    """The fraction of all questions that were answered in time."""
    asked = [each.cycles + each.failed for each in blocks]
    return fraction_of([each.in_time for each in blocks], asked) if any(asked) else None


# --- the server’s own view -------------------------------------------------------------------------------------------


def server_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """Counters a second, those of the server that ever moved, by name; and the part of cache lookups that hit."""
    # Growth is of two looks; a block without them says nothing, and is not one in which nothing moved.
    looked = [block for block in blocks if block.looks > 1]
    return _server_rows(looked, lambda block: {**block.server, **_hits(block.server)}, absent=None)


def processor_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """Load of the daemon and of the machine, in percent."""
    return _server_rows(
        blocks, lambda block: {"daemon": block.cpu_percent, "machine": block.machine_percent}, absent=0.0
    )


def wait_rows(blocks: Sequence[Block]) -> list[ServerRow]:
    """Sessions that waited, on average, by what for; the most of them with readers first."""
    looked = [block for block in blocks if block.looks]
    return sorted(
        _server_rows(looked, lambda block: block.waits, absent=0.0), key=lambda row: (-row.b, -row.a, row.name)
    )


def _hits(server: Mapping[str, float]) -> dict[str, float]:
    looked = server.get("cache_hits", 0.0) + server.get("cache_misses", 0.0)
    return {"cache_hit_percent": 100 * server["cache_hits"] / looked} if looked and "cache_hits" in server else {}


def _server_rows(
    blocks: Sequence[Block], of: Callable[[Block], Mapping[str, float]], *, absent: float | None
) -> list[ServerRow]:
    """absent: what a block has of a name that it does not tell of; None where that is not known."""
    kinds = [[of(block) for block in blocks if block.kind == kind] for kind in "AB"]
    names = sorted({name for kind in kinds for found in kind for name, value in found.items() if value})
    rows = []
    for name in names:
        told = [[found.get(name, absent) for found in kind] for kind in kinds]
        a, b = ([value for value in values if value is not None] for values in told)
        if a and b:
            mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
            rows.append(ServerRow(name=name, a=mean_a, b=mean_b, ratio=mean_b / mean_a if mean_a else None))
    return rows
