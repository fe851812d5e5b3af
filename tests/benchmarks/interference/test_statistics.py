import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.interference.analysis import TOO_WIDE, _crossing, analysed, verdict
from benchmarks.interference.estimate import (
    against_neighbours,
    contrast,
    crossing_of,
    fraction_of,
    independent,
)
from benchmarks.interference.report import doses, timeline
from benchmarks.report.render import drawing
from daemon.workloads.interference.experiment import (
    command_of,
    dealt,
    experiment_of,
    planned,
    seconds_of,
    staffed,
    workload_of,
    workload_words,
)
from daemon.workloads.interference.runner import summary_of
from schemas.api.interference import Block, Dose, Experiment, Mean, Ratio, Record
from schemas.checking.problems import ConfigError
from schemas.config import Workload
from tests.support.interference_records import HISTORY, SCAN, made_record

# --- the order of the blocks -----------------------------------------------------------------------------------------


@given(pairs=st.integers(1, 9), doses=st.lists(st.integers(1, 64), max_size=5, unique=True), seed=st.integers(0, 99))
def test_every_block_with_readers_stands_between_two_without(pairs: int, doses: list[int], seed: int) -> None:
    experiment = Experiment(workloads=(SCAN, HISTORY), pairs=pairs, doses=tuple(doses), seed=seed)

    order = planned(experiment)

    assert [block.kind for block in order] == ["A", *["B", "A"] * (pairs * max(1, len(doses)))]
    read = [block.readers for block in order if block.kind == "B"]
    each = len(doses) or 1
    for repeat in range(pairs):
        assert sorted(read[repeat * each : (repeat + 1) * each]) == (sorted(doses) or [6])
    most = {workload.name: workload.clients for workload in staffed(experiment)}
    for block in order:
        clients = dealt(experiment, block)
        assert sum(clients.values()) == block.readers
        assert all(count <= most[name] for name, count in clients.items())
    assert seconds_of(experiment) == len(order) * 20


def test_doses_come_in_another_order_each_time() -> None:
    order = planned(Experiment(workloads=(SCAN,), pairs=6, doses=(1, 2, 4, 8)))
    read = [block.readers for block in order if block.kind == "B"]
    assert len({tuple(read[i : i + 4]) for i in range(0, 24, 4)}) > 2


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"block_s": 2.0, "warm_up_s": 2.0}, "warm_up_s: not less than block_s, which is 2; leave something"),
        ({"doses": [2, 2]}, "doses[1]: 2 is there already; name each dose once"),
        ({"doses": [0]}, "doses[0]: 0 clients cannot be admitted; use 1 to 256; A, which is 0 readers"),
        ({"workloads": []}, "workloads: an array of 0 is out of range"),
    ],
)
def test_what_cannot_be_tried_is_told_by_its_field(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=r"; ") as refused:
        experiment_of({"workloads": [SCAN.model_dump(mode="json")], **fields})
    assert str(refused.value).startswith(problem)


def test_workloads_are_written_as_they_are_read() -> None:
    found = workload_of("history:4:0.5:stretch_s=600:step_s=30", ["history"])
    assert found == Workload.model_validate(
        {"name": "history_2", "kind": "history", "clients": 4, "period_s": 0.5, "stretch_s": 600.0, "step_s": 30.0}
    )
    assert workload_of(workload_words(found)) == found
    with pytest.raises(ConfigError, match="kind: 'histori' is not known here; did you mean `history`"):
        workload_of("histori:4")
    words = command_of(Experiment(workloads=(SCAN,), doses=(2, 4)), "--backend", "mysql")
    assert words == (
        "triggerlog interference --backend mysql --workload scan:4:0:1 --pairs 6 --block 20 --warm-up 3 --doses 2,4"
    )


# --- the statistics --------------------------------------------------------------------------------------------------


def _weights(pairs: int) -> np.ndarray:
    chosen = range(1, 2 * pairs, 2)
    return against_neighbours(chosen, [i - 1 for i in chosen], [i + 1 for i in chosen], 2 * pairs + 1)


@given(
    pairs=st.integers(2, 8),
    effect=st.floats(-2, 2),
    drift=st.floats(-3, 3),
    level=st.floats(-5, 5),
)
def test_a_straight_drift_does_not_show(pairs: int, effect: float, drift: float, level: float) -> None:
    blocks = np.arange(2 * pairs + 1)
    found = contrast(level + drift * blocks + effect * (blocks % 2), _weights(pairs))
    assert found.value == pytest.approx(effect, abs=1e-9)
    assert found.half == pytest.approx(0, abs=1e-8)


def test_of_independent_values_it_is_students_interval() -> None:
    found = independent(np.array([4.0, 5.0, 6.0, 9.0]))
    # Mean 6, s = sqrt(14/3), t(3, 97.5 %) = 3.182446 (Student's table).
    assert found.value == pytest.approx(6)
    assert found.half == pytest.approx(3.182446 * np.sqrt(14 / 3 / 4), rel=1e-6)
    assert independent(np.array([4.0])).half is None


@pytest.mark.parametrize(
    ("pairs", "scatter_b", "least", "most"),
    [(3, 0.05, 0.96, 0.99), (6, 0.05, 0.96, 0.99), (6, 0.1, 0.97, 1.0), (4, 0.0, 0.93, 0.96), (10, 0.0, 0.92, 0.95)],
)
def test_95_of_100_intervals_hold_the_effect(pairs: int, scatter_b: float, least: float, most: float) -> None:
    random, weights = np.random.default_rng(5), _weights(pairs)
    scatter = np.where(np.arange(2 * pairs + 1) % 2, scatter_b, 0.05)
    held = 0
    for _ in range(2000):
        y = random.normal(0, scatter) + np.linspace(0, 1, len(scatter)) + 0.3 * (np.arange(len(scatter)) % 2)
        found = contrast(y, weights, np.arange(len(y)) % 2 == 0)
        assert found.half is not None
        held += abs(found.value - 0.3) <= found.half
    # Of 2,000 the standard error of the part is 0.5 %. Where B scatters as well the interval is wider than need be.
    assert least <= held / 2000 <= most


def test_the_budget_is_crossed_between_two_points() -> None:
    assert crossing_of([0, 1, 2, 4], [5, 6, 8, 12], 10) == 3
    assert crossing_of([0, 1], [5, 6], 10) is None
    assert crossing_of([0, 1], [11, 9], 10) == 0


# --- what follows from a record --------------------------------------------------------------------------------------


def test_a_known_effect_is_found_and_drift_is_not_taken_for_one() -> None:
    record = made_record(Experiment(workloads=(SCAN, HISTORY)), p99_a_reader=1.15, drift=1.0)

    result = analysed(record)

    (p99,) = [row for row in result.rows if row.figure == "p99_ms"]
    assert p99.b_to_a.low is not None
    assert p99.b_to_a.high is not None
    assert p99.b_to_a.low < 1.15**6 < p99.b_to_a.high
    assert p99.b_to_a.pairs == 6
    assert result.steady is True
    (rate,) = [row for row in result.rows if row.figure == "rate"]
    assert rate.verdict == "no effect: the ratio is 1 to within 0.1 %"
    assert [row.workload for row in result.readers] == ["scan", "history"]
    assert result.readers[0].efficiency is not None
    assert result.readers[0].efficiency.value == pytest.approx(0.97)
    hits = next(row for row in result.server if row.name == "cache_hit_percent")
    assert (hits.a, round(hits.b, 2)) == (100, 99.95)


def test_a_machine_that_jumps_about_is_said_not_to_be_steady() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=8), noise=0.01)
    quiet = [block for block in record.blocks if block.kind == "A"]
    slow = {block.number for block in quiet[1::2]}
    blocks = [
        block.model_copy(update={"p99_ms": 2 * (block.p99_ms or 0)}) if block.number in slow else block
        for block in record.blocks
    ]

    result = analysed(record.model_copy(update={"blocks": blocks}))

    assert result.steady is False
    assert "The machine was not steady" in result.steadiness
    assert result.headline.endswith("The machine was not steady.")


def test_doses_give_points_and_the_crossing_of_the_budget() -> None:
    record = made_record(Experiment(workloads=(SCAN,), doses=(1, 2, 4, 8), pairs=5), p99_a_reader=1.15, noise=0.01)

    result = analysed(record)

    assert [dose.readers for dose in result.doses] == [0, 1, 2, 4, 8]
    assert result.crossing is not None
    assert 5 < result.crossing < 7  # 8 ms, times 1.15 a reader, is 20 ms at 6.6; the line lies above the curve
    for dose in result.doses[1:]:
        assert dose.p99_ms.low is not None
        assert dose.p99_ms.value == pytest.approx(8.0 * 1.15**dose.readers, rel=0.05)


@pytest.mark.parametrize("kept", range(4))
def test_of_a_run_cut_short_there_is_what_there_is(kept: int) -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=2))
    result = analysed(record.model_copy(update={"blocks": record.blocks[:kept]}))
    if kept < 3:
        assert result.rows == []
        assert result.headline.startswith("Too few blocks were measured")
    else:
        assert result.rows[0].b_to_a.low is None
        assert "which has no interval" in result.rows[0].verdict
    assert result.steady is None


def test_blocks_of_a_that_scatter_without_end_do_not_show_a_steady_machine() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=5))
    factors = [1, 1, 30, 1, 0.02, 1, 1, 1, 40, 1, 1]
    blocks = [b.model_copy(update={"p99_ms": (b.p99_ms or 0) * f}) for b, f in zip(record.blocks, factors, strict=True)]
    result = analysed(record.model_copy(update={"blocks": blocks}))
    assert result.steady is None
    assert result.steadiness.startswith("Whether the machine was steady is not known: ")


def changed(record: Record, update: Callable[[Block], dict[str, Any]]) -> Record:
    """The record with fields of its blocks changed."""
    return record.model_copy(update={"blocks": [block.model_copy(update=update(block)) for block in record.blocks]})


def test_a_figure_that_moved_is_told_beside_one_of_which_nothing_is_known() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=5), noise=0.01)
    factors = [1, 1, 30, 1, 0.02, 1, 1, 1, 40, 1, 1]
    result = analysed(
        changed(
            record,
            lambda b: {
                "p99_ms": (b.p99_ms or 0) * factors[b.number - 1],
                "rate": 50.0 if b.number in (3, 7, 11) else 100.0,
            },
        )
    )
    assert result.steady is False
    assert result.steadiness.startswith("The machine was not steady: ")
    assert "(commit rate 50 to 50 % lower)" in result.steadiness
    assert result.headline.endswith("The machine was not steady.")


def test_a_straight_drift_does_not_show_in_what_a_is_to_a_where_a_block_is_left_out() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=8), noise=0.0, drift=2.0)
    found = analysed(changed(record, lambda b: {"drained": b.number != 5})).agreement
    ratio = next(each.a_to_a for each in found if each.figure == "p99_ms")
    assert ratio.ratio == pytest.approx(1, abs=1e-6)
    assert ratio.pairs >= 2


def test_what_was_in_time_is_a_fraction_of_all_questions_and_not_of_blocks() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=4))
    with_readers = [block for block in record.blocks if block.kind == "B"]
    for block, (cycles, in_time) in zip(with_readers, [(1, 1), (1, 1), (1, 1), (997, 0)], strict=True):
        scan = block.workloads["scan"].model_copy(update={"cycles": cycles, "in_time": in_time, "failed": 0})
        block.workloads["scan"] = scan
    blocks = record.blocks
    (row,) = analysed(record.model_copy(update={"blocks": blocks})).readers
    assert row.cycles == 1000
    assert row.efficiency is not None
    assert row.efficiency.value == pytest.approx(0.003)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_a_fraction_lies_within_its_interval_and_that_within_0_and_1(answers: list[tuple[int, int]]) -> None:
    parts = [part for part, _ in answers]
    wholes = [part + more for part, more in answers]
    assume(any(wholes))
    found = fraction_of(parts, wholes)
    assert found.value == sum(parts) / sum(wholes)
    if len(answers) > 1:
        assert found.low is not None
        assert found.high is not None
        assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("part", [0.03, 0.5, 0.9, 0.97])
@pytest.mark.parametrize(("blocks", "questions"), [(4, 3), (4, 12), (6, 12), (6, 100)])
def test_95_of_100_intervals_hold_the_fraction_also_of_few_questions(part: float, blocks: int, questions: int) -> None:
    random, held = np.random.default_rng(5), 0
    for _ in range(1000):
        asked = 1 + random.poisson(questions, blocks)
        found = fraction_of(random.binomial(asked, part).tolist(), asked.tolist())
        assert found.low is not None
        assert found.high is not None
        held += found.low <= part <= found.high
    assert held / 1000 >= 0.94


def test_blocks_in_which_nobody_looked_at_the_server_are_not_blocks_in_which_nothing_moved() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=4))
    seen = {row.name: (row.a, row.b) for row in analysed(record).server}
    blind = {"looks": 0, "server": {}, "waits": {}}
    blocks = [b.model_copy(update=blind) if b.number in (1, 2) else b for b in record.blocks]
    found = analysed(record.model_copy(update={"blocks": blocks}))
    assert {row.name for row in found.server} == set(seen)
    assert all(row.a == pytest.approx(seen[row.name][0], rel=0.3) for row in found.server)
    blocks = [b.model_copy(update=blind) for b in record.blocks]
    assert analysed(record.model_copy(update={"blocks": blocks})).server == []


def test_a_counter_that_a_block_does_not_know_is_not_one_that_stood_still() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=4))
    # The server was restarted in block 1, and nothing was looked up in block 3.
    unknown = {1: {"wal_bytes", "cache_hits"}, 3: {"cache_hits", "cache_misses"}}

    def known(block: Block) -> dict[str, Any]:
        there = {name: value for name, value in block.server.items() if name not in unknown.get(block.number, ())}
        return {"server": there | ({"cache_hits": 0.0, "cache_misses": 0.0} if block.number == 3 else {})}

    rows = {row.name: row for row in analysed(changed(record, known)).server}
    assert rows["cache_hit_percent"].a == pytest.approx(100)
    assert rows["wal_bytes"].a == pytest.approx(1.1e6)
    assert rows["cache_hits"].a == pytest.approx(5e4 * 3 / 4)


def test_a_dose_with_which_nothing_was_committed_crosses_every_budget() -> None:
    record = made_record(Experiment(workloads=(SCAN,), doses=(1, 2, 4), pairs=3), p99_a_reader=1.01, noise=0.01)
    assert analysed(record).crossing is None
    still = {"triggers": 0, "rate": 0.0, "reading_rate": 0.0, "p50_ms": None, "p99_ms": None}
    blocks = [b.model_copy(update=still) if b.readers == 4 else b for b in record.blocks]
    result = analysed(record.model_copy(update={"blocks": blocks}))
    assert result.crossing == 4
    assert "is crossed at 4 readers at the latest, with which nothing was committed in 3 of 3 blocks." in (
        result.crossing_words
    )


def test_a_stall_while_nothing_was_sent_is_none_of_the_readers() -> None:
    record = made_record(Experiment(workloads=(SCAN,), doses=(1, 2, 4), pairs=6), p99_a_reader=1.01, noise=0.01)
    still = {"triggers": 0, "rate": 0.0, "reading_rate": 0.0, "received_rate": 0.0, "p50_ms": None, "p99_ms": None}
    result = analysed(changed(record, lambda b: {**still, "backlog": 0} if 3 <= b.number <= 7 else {}))
    assert result.crossing is None
    assert "is not crossed up to 4 readers" in result.crossing_words


def test_a_dose_whose_backlog_never_went_away_is_not_passed_over() -> None:
    record = made_record(Experiment(workloads=(SCAN,), doses=(1, 2, 4), pairs=3), p99_a_reader=1.01, noise=0.01)
    after = {block.number + 1 for block in record.blocks if block.readers == 4}
    flooded = changed(
        record,
        lambda b: {"p99_ms": 9000.0} if b.readers == 4 else {"drained": b.number not in after},
    )

    result = analysed(flooded)

    assert {row.readers for row in result.rows} == {1, 2}
    assert result.crossing == 4
    assert "is crossed at 4 readers at the latest, with which it was 9,000 ms or more in 3 of 3 blocks." in (
        result.crossing_words
    )
    assert "With 4 readers nothing can be compared: the backlog of 3 of 3 blocks did not go away" in result.headline
    assert [row.readers for row in result.readers] == [1, 2, 4]


def test_a_block_that_is_left_out_is_in_no_mark_of_the_report() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=2), noise=0.0)
    slow = changed(record, lambda b: {"p99_ms": 5000.0, "drained": False} if b.number == 3 else {})
    (drawn,) = timeline(slow.model_copy(update={"result": analysed(slow)}))
    titles = [title for panel in drawn.panels for series in panel.series for title in series.titles]
    assert "median of the blocks of A: 8.00 ms" in titles
    assert not [title for title in titles if "p99 ×" in title]  # both blocks of B are next to it
    assert summary_of(slow, {}).blocks == 4


def test_blocks_that_are_not_compared_for_their_backlog_are_told_beside_those_that_are() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=5), p99_a_reader=1.0, noise=0.01)
    result = analysed(changed(record, lambda b: {"drained": b.number != 5}))
    row = next(row for row in result.rows if row.figure == "p99_ms")
    assert row.b_to_a.pairs == 3
    assert "Not compared: after 1 of 5 blocks with 4 readers the backlog did not go away" in result.headline


def test_a_dose_that_floods_now_and_then_crosses_the_budget_though_its_other_blocks_do_not() -> None:
    record = made_record(Experiment(workloads=(SCAN,), doses=(1, 4), pairs=6), p99_a_reader=1.0, noise=0.01)
    flooding = [block.number for block in record.blocks if block.readers == 4][:2]
    result = analysed(
        changed(
            record,
            lambda b: {"p99_ms": 9000.0} if b.number in flooding else {"drained": b.number - 1 not in flooding},
        )
    )
    assert {row.readers for row in result.rows} == {1, 4}
    assert result.crossing == 4
    assert "with which it was 9,000 ms or more in 2 of 6 blocks" in result.crossing_words


def test_readers_that_flood_each_block_are_said_and_not_that_there_were_few_blocks() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=4), noise=0.01)
    result = analysed(changed(record, lambda b: {"drained": b.number == 1 or b.kind == "B"}))
    assert result.rows == []
    assert result.headline.startswith(
        "With 4 readers nothing can be compared: the backlog of 4 of 4 blocks did not go away before the next one"
    )


P99 = st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.floats(0.1, 1e4)).map(sorted)


@given(st.lists(P99, min_size=1, max_size=5), st.booleans(), st.floats(0.1, 1e4))
def test_a_crossing_is_said_as_far_as_the_intervals_hold_it(
    limits: list[list[float]], few: bool, budget_ms: float
) -> None:
    points = [
        Dose(
            readers=readers,
            p99_ms=Mean(value=value, low=None if few else low, high=None if few else high, blocks=3),
            rate=Mean(value=1.0, low=None, high=None, blocks=3),
        )
        for readers, (low, value, high) in enumerate(limits)
    ]
    crossing, words = _crossing(points, None, budget_ms)
    assert (crossing is None) == all(value <= budget_ms for _, value, _ in limits)
    if "is crossed" in words:
        assert not few
        assert any(low > budget_ms for low, _, _ in limits)
    elif "is not crossed" in words:
        assert not few
        assert all(high <= budget_ms for _, _, high in limits)
    else:
        assert "is not known to be crossed" in words


def test_a_block_that_began_with_the_backlog_of_the_one_before_counts_for_nothing() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=4), noise=0.01)
    slow = record.blocks[4].model_copy(update={"p99_ms": 5000.0, "drained": False})
    result = analysed(record.model_copy(update={"blocks": [*record.blocks[:4], slow, *record.blocks[5:]]}))
    row = next(row for row in result.rows if row.figure == "p99_ms")
    assert row.b_to_a.pairs == 2
    assert row.a < 100
    assert result.steady is not False


@pytest.mark.parametrize("still", [2, 4])
def test_a_block_in_which_nothing_was_committed_is_counted_once(still: int) -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=4))
    nothing = {"rate": 0.0, "reading_rate": 0.0, "p50_ms": None, "p99_ms": None}
    blocks = [b.model_copy(update=nothing) if b.number == still + 1 else b for b in record.blocks]
    row = next(row for row in analysed(record.model_copy(update={"blocks": blocks})).rows if row.figure == "p99_ms")
    assert row.verdict.endswith("(1 block left out, in which nothing was committed)")


def test_a_block_in_which_nothing_was_committed_is_left_out_and_said() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=4))
    still = record.blocks[3].model_copy(update={"rate": 0.0, "reading_rate": 0.0, "p50_ms": None, "p99_ms": None})
    result = analysed(record.model_copy(update={"blocks": [*record.blocks[:3], still, *record.blocks[4:]]}))
    row = next(row for row in result.rows if row.figure == "p99_ms")
    assert row.b_to_a.pairs == 3
    assert row.verdict.endswith("(1 block left out, in which nothing was committed)")

    nothing = {"rate": 0.0, "reading_rate": 0.0, "p50_ms": None, "p99_ms": None}
    blocks = [block.model_copy(update=nothing) for block in record.blocks]
    words = analysed(record.model_copy(update={"blocks": blocks})).headline
    assert words.startswith("With 4 readers: nothing was committed in so many blocks")


@pytest.mark.parametrize(
    ("figure", "ratio", "low", "high", "words"),
    [
        ("p99_ms", 2.1, 1.8, 2.4, "1.8 to 2.4 times as long"),
        ("p99_ms", 1.2, 1.1, 1.3, "10 to 30 % longer"),
        ("rate", 0.97, 0.95, 0.99, "1.0 to 5.0 % lower"),
        ("rate", 0.99, 0.97, 1.01, "no effect visible: the ratio is 0.970 to 1.010"),
        (
            "p99_ms",
            1.2,
            0.5,
            2.9,
            "not known: the ratio is 0.50 to 2.9",
        ),
        ("rate", 1.0, 0.999, 1.003, "no effect: the ratio is 1 to within 0.3 %"),
        ("rate", 0.4, None, None, "ratio 0.40, of one pair of blocks, which has no interval"),
    ],
)
def test_verdicts(figure: str, ratio: float, low: float | None, high: float | None, words: str) -> None:
    assert verdict(figure, Ratio(ratio=ratio, low=low, high=high, pairs=3)) == words


@given(
    st.sampled_from(["rate", "p99_ms"]),
    st.tuples(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6)).map(sorted),
)
def test_a_verdict_never_says_what_the_interval_does_not_hold(figure: str, limits: list[float]) -> None:
    low, ratio, high = limits
    words = verdict(figure, Ratio(ratio=ratio, low=low, high=high, pairs=3))
    if "times as" in words or "longer" in words or "higher" in words:
        assert low > 1
    elif "shorter" in words or "lower" in words:
        assert high < 1
    elif words.startswith("no effect:"):
        assert 0.995 <= low <= high <= 1.005
    else:
        assert low <= 1 <= high
    assert words.startswith("not known") or high / low <= TOO_WIDE or not low <= 1 <= high


def test_the_report_is_one_file_without_scripts_and_escapes_what_servers_say(tmp_path: Path) -> None:
    kept = tmp_path / "record.json"
    kept.write_text(made_record(Experiment(workloads=(SCAN,), doses=(1, 2, 4, 8), pairs=3)).model_dump_json())

    subprocess.run([sys.executable, "-m", "benchmarks.interference", str(kept)], check=True)

    record = Record.model_validate_json(kept.read_bytes())
    assert record.result is not None
    html = kept.with_suffix(".html").read_text()
    assert record.result.headline in html
    assert record.result.crossing_words in html
    for never in ("<script", "http:", "https:", "Client:<x>", "<of>"):
        assert never not in html
    assert "a processor &lt;of&gt; no make" in html
    assert (
        html.count('class="band teal"') - 1 == 12 * 3
    )  # each block of B in the panels of p99, rate and readers, beside the key
    assert json.loads(kept.read_text())["result"]["doses"][0]["readers"] == 0


def test_a_crossing_beyond_the_points_has_its_place_in_the_plot() -> None:
    record = made_record(Experiment(workloads=(SCAN,), doses=(1, 2, 40), pairs=3), p99_a_reader=1.0, noise=0.01)
    still = {"triggers": 0, "rate": 0.0, "reading_rate": 0.0, "p50_ms": None, "p99_ms": None}
    stalled = changed(record, lambda b: still if b.readers == 40 else {})
    stalled = stalled.model_copy(update={"conditions": stalled.conditions.model_copy(update={"budget_ms": 5000.0})})
    result = analysed(stalled)
    assert (result.crossing, [dose.readers for dose in result.doses]) == (40, [0, 1, 2])

    drawn = drawing(doses(stalled.model_copy(update={"result": result}))[0]).plots[0].shapes

    places = {shape.style: float(shape.d[1:].split()[0]) for shape in drawn}
    assert places["point orange"] < places["at red"] / 5  # 2 readers and 40, on one axis


def test_what_is_no_record_is_told_in_one_line(tmp_path: Path) -> None:
    kept = tmp_path / "record.json"
    kept.write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.interference", str(kept)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"triggerlog: {kept} cannot be reported: ")
    assert done.stderr.count("\n") == 1
