"""The benchmarks' pure parts: statistics, interleaving, the way into pytest-benchmark's JSON, tables and report."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from backends.postgresql.copy import decode_arrays, decode_ledger, decode_rows
from benchmarks.figures import tables
from benchmarks.report import markdown, print_report
from benchmarks.rounds import Round, interleaved
from benchmarks.sending import Sent
from benchmarks.strategies.bare_copy import encoded
from benchmarks.summary import acknowledged_after, commit_rate, percentiles, ratio, slope, spread
from benchmarks.throughput import CONTENDERS
from benchmarks.workload import GROUP, INSTRUMENTS, number, random_records
from schemas.batch import Layout

pytest_plugins = ["pytester"]


class TestSummary:
    def test_few_rounds_give_the_least_and_the_most(self) -> None:
        found = spread([3.0, 1.0, 2.0])
        assert (found.median, found.low, found.high) == (2.0, 1.0, 3.0)

    def test_many_rounds_give_quartiles(self) -> None:
        found = spread([5.0, 1.0, 100.0, 3.0, 4.0])
        assert (found.median, found.low, found.high) == (4.0, 3.0, 5.0)

    def test_no_rounds_give_no_median(self) -> None:
        with pytest.raises(ValueError, match="no rounds"):
            spread([])

    def test_ratios_are_taken_round_by_round(self) -> None:
        # The machine was twice as fast in the second round; the ratio does not know it.
        assert ratio([10.0, 20.0], [20.0, 40.0]) == spread([0.5, 0.5])

    def test_percentiles_are_values_that_were_measured(self) -> None:
        found = percentiles(np.arange(100, 0, -1.0))
        assert (found.p50, found.p99, found.max) == (50.0, 99.0, 100.0)

    def test_the_slope_is_of_the_second_half(self) -> None:
        times = np.arange(10.0)
        assert slope(times.tolist(), np.where(times < 5, 100 * times, 3 * times).tolist()) == pytest.approx(3.0)

    @pytest.mark.parametrize("times", [[], [0.0, 1.0], [0.0, 1.0, 2.0, 2.0]])
    def test_a_slope_needs_two_times(self, times: list[float]) -> None:
        with pytest.raises(ValueError, match="two different times"):
            slope(times, times)


class TestAcknowledgements:
    def test_the_rate_leaves_out_what_was_committed_before_the_clock_began(self) -> None:
        acks = np.array([[10.0, 120], [11.0, 120 * 51], [12.0, 120 * 101]])
        assert commit_rate(acks, 120) == (50.0, 2.0)

    def test_one_acknowledgement_gives_no_rate(self) -> None:
        with pytest.raises(ValueError, match="send for longer"):
            commit_rate(np.array([[10.0, 120]]), 120)

    def test_each_trigger_ends_with_the_first_acknowledgement_that_covers_it(self) -> None:
        sent = np.array([1.0, 2.0, 3.0])
        acks = np.array([[1.5, 120], [2.25, 239], [3.5, 360]])
        assert acknowledged_after(sent, acks, 120).tolist() == [0.5, 1.5, 0.5]

    def test_a_trigger_without_its_acknowledgement_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="not all"):
            acknowledged_after(np.array([1.0, 2.0]), np.array([[1.5, 239]]), 120)

    def test_what_the_sender_prints_is_read_back(self) -> None:
        sent = Sent.of('{"triggers": 2, "ended": 3.5, "acks": [[3.0, 120], [3.6, 240]], "sent": [1.0, 2.0]}')
        assert (sent.triggers, sent.acks.shape, sent.sent.tolist()) == (2, (2, 2), [1.0, 2.0])
        assert Sent.of('{"triggers": 0, "ended": 3.5, "acks": [], "sent": []}').acks.shape == (0, 2)


class TestEncoded:
    @pytest.mark.parametrize("layout", list(Layout))
    def test_a_batch_that_was_numbered_anew_holds_the_next_triggers(self, layout: Layout) -> None:
        batch = encoded(layout, 3, seed=7)
        batch.number(101, 1_000_000_000)
        decode = decode_rows if layout is Layout.ROWS else decode_arrays
        found = decode(batch.data.tobytes(), GROUP).reshape(3, INSTRUMENTS)
        wanted = random_records(3, seed=7)
        number(wanted, 101, 1_000_000_000)
        for name in ("trigger", "time_ns", "instrument", *(channel.name for channel in GROUP.channels)):
            assert np.array_equal(found[name], wanted[name]), name

    def test_its_ledger_rows_are_numbered_alike(self) -> None:
        batch = encoded(Layout.ROWS, 3)
        batch.number(101, 1_000_000_000)
        assert batch.ledger_rows["trigger_id"][:, 0].tolist() == [101, 102, 103]
        assert batch.ledger_rows["arrived"][:, 0].tolist() == [INSTRUMENTS] * 3
        with pytest.raises(ValueError, match="not whole rows"):
            decode_ledger(batch.ledger.tobytes(), INSTRUMENTS)  # the logger's name is in them


def test_rounds_take_turns() -> None:
    said: list[str] = []
    order: list[str] = []

    def contender(name: str) -> Round:
        order.append(name)
        return Round(seconds=float(len(order)))

    found = interleaved(
        {"a": lambda: contender("a"), "b": lambda: contender("b")},
        rounds=2,
        say=lambda name, number, _: said.append(f"{name}{number}"),
    )
    assert order == ["a", "b", "a", "b"]
    assert said == ["a0", "b0", "a1", "b1"]
    assert [done.seconds for done in found["a"]] == [1.0, 3.0]


REPLAYED = """
    import pytest
    from benchmarks.rounds import RECORDED_CLOCK, Round, replay

    @pytest.mark.benchmark(group="throughput", timer=RECORDED_CLOCK)
    def test_replayed(benchmark):
        rounds = [Round(seconds=s, facts={"triggers": 1 / s}) for s in (0.1, 0.30000000000000004, 2e-5)]
        replay(benchmark, rounds, contender="x")
"""


def test_recorded_rounds_come_out_of_pytest_benchmark_to_the_last_bit(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(REPLAYED)
    kept = pytester.path / "kept.json"
    options = ["--benchmark-enable", f"--benchmark-json={kept}", "-p", "no:dash", "-p", "no:asyncio"]
    pytester.runpytest(*options).assert_outcomes(passed=1)
    (found,) = json.loads(kept.read_text())["benchmarks"]
    assert found["stats"]["data"] == [0.1, 0.30000000000000004, 2e-5]
    assert found["extra_info"]["contender"] == "x"
    assert found["extra_info"]["triggers"] == [1 / 0.1, 1 / 0.30000000000000004, 1 / 2e-5]


def kept_run() -> dict:
    """A run as pytest-benchmark keeps it: the daemon writes 60 % of the ceiling, in 20 ms at p99 against 5 ms."""
    per_second = dict.fromkeys(CONTENDERS, 100.0) | {
        "bare COPY, rows": 10_000.0,
        "daemon, rows": 6_100.0,
        "bare COPY, arrays": 20_000.0,
        "daemon, arrays": 9_000.0,
    }
    benchmarks = [
        {
            "group": "throughput",
            "extra_info": {"contender": name, "triggers a commit": [1, 1]},
            "stats": {"data": [1 / rate, 1 / rate]},
        }
        for name, rate in per_second.items()
    ]
    for contender, p99 in (("bare loop", 5.0), ("daemon", 20.0)):
        facts = {f"{who}{key} ms": [p99] for who in ("", "sender ") for key in ("p50", "p99", "max")}
        extra = {"contender": contender, "rate": 10, **facts}
        benchmarks.append({"group": "latency, p99", "extra_info": extra, "stats": {"data": [p99 / 1e3]}})
    return {
        "machine_info": {"cpu": {"brand_raw": "Some CPU"}, "python_version": "3.11.7"},
        "commit_info": {"id": "0123456789abcdef", "dirty": False},
        "datetime": "2026-01-02T03:04:05+00:00",
        "benchmarks": benchmarks,
        "triggerlog": {
            "plan": "short",
            "load": 0.1,
            "cores": 2,
            "memory_gib": 8.0,
            "fdatasync_ms": 0.5,
            "settings": dict.fromkeys(
                (
                    *("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"),
                    *("wal_compression", "shared_buffers", "max_wal_size", "checkpoint_timeout", "wal_buffers"),
                ),
                "on",
            ),
        },
    }


class TestReport:
    def test_ratios_stand_beside_their_aims(self) -> None:
        (table,) = [table for table in tables(kept_run()) if table.title == "End to end, against the others"]
        rows = {row[0]: row[1:] for row in table.rows}
        assert rows["daemon, rows / bare COPY, rows"] == ("0.61 (0.61 to 0.61)", "0.6", "yes")
        assert rows["daemon, arrays / bare COPY, arrays"] == ("0.45 (0.45 to 0.45)", "0.5", "no")
        assert rows["daemon, rows / 120 INSERTs a trigger"] == ("61 (61 to 61)", "60", "yes")
        assert rows["daemon, arrays / 120 INSERTs a trigger"] == ("90 (90 to 90)", "150", "no")

    def test_the_latency_has_to_be_at_most_its_aim(self) -> None:
        (table,) = [table for table in tables(kept_run()) if table.title.startswith("Latency")]
        rows = {row[0]: row[1:] for row in table.rows}
        assert rows["10/s, daemon"][-3:] == ("4.00 (4.00 to 4.00)", "2", "no")

    def test_what_was_not_measured_has_no_table(self) -> None:
        run = kept_run()
        run["benchmarks"] = run["benchmarks"][-2:]
        assert [table.title for table in tables(run)] == ["Latency from the last reading to the commit acknowledged"]

    def test_it_says_on_what_it_was_measured(self) -> None:
        text = markdown(kept_run(), "make bench")
        for part in ("`make bench`", "Some CPU", "2 cores", "fsync on", "0.50 ms", "0123456789ab", "| 6,100 (6,100"):
            assert part in text

    def test_the_terminal_gets_the_same_figures(self) -> None:
        output = StringIO()
        print_report(kept_run(), Console(file=output, width=200))
        assert "0.61 (0.61 to 0.61)" in output.getvalue()
