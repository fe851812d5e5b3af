"""The tables of an experiment, and the list of those that were."""

import pytest

from dashboard.tabs.interference.measured import Shown, of_record
from dashboard.tabs.interference.rows import figure_rows, is_worse, past_rows, reader_rows, server_rows
from dashboard.tabs.tables import Row as TableRow
from schemas.api.interference import Ratio, Row, Summary
from schemas.states import RunState
from tests.page.experiments import record_of

DOSES, PLAIN = of_record(record_of("20260101T000000Z")), of_record(record_of("20251231T120000Z-P"))


def texts(row: TableRow) -> dict[str, str]:
    """What its cells say."""
    return {name: cell["text"] for name, cell in row.items() if name != "key" and "text" in cell}


def test_what_most_people_look_for_comes_first() -> None:
    rows = figure_rows(DOSES)
    assert [row["key"] for row in rows[:5]] == ["p99_ms1", "p99_ms2", "p99_ms4", "p99_ms8", "p50_ms1"]
    shown = texts(rows[3])
    assert (shown["figure"], shown["readers"], shown["n"]) == ("Commit p99, ms", "8", "3")
    low, high = shown["interval"].split(" to ")
    assert 1 < float(low) < float(shown["ratio"]) < float(high)
    assert rows[3]["verdict"]["over"]


def test_while_it_runs_each_whole_block_between_two_others_counts() -> None:
    def after(blocks: int) -> list[TableRow]:
        return figure_rows(Shown(**{**vars(PLAIN), "blocks": PLAIN.blocks[:blocks], "record": None}))

    assert after(2) == []
    assert [row["key"] for row in after(3)] == ["p99_ms4", "p50_ms4", "rate4"]
    assert [texts(row)["n"] for row in (after(3)[0], after(4)[0], after(5)[0])] == ["1", "1", "2"]
    assert texts(after(3)[0])["interval"] == "–"
    for left_out in ("whole", "drained"):
        cut = [*PLAIN.blocks[:2], PLAIN.blocks[2].model_copy(update={left_out: False})]
        assert figure_rows(Shown(**{**vars(PLAIN), "blocks": cut, "record": None})) == []


@pytest.mark.parametrize(
    ("figure", "low", "high", "worse"),
    [
        ("p99_ms", 1.2, 1.4, True),
        ("p99_ms", 1.05, 1.4, False),
        ("p99_ms", None, None, False),
        ("rate", 0.7, 0.8, True),
        ("rate", 1.2, 1.4, False),
        ("reading_rate", 0.8, 0.95, False),
    ],
)
def test_worse_is_what_is_surely_a_tenth_worse(figure: str, low: float | None, high: float | None, worse: bool) -> None:
    ratio = Ratio(ratio=1.0, low=low, high=high, pairs=3)
    assert is_worse(Row(figure=figure, readers=1, a=1, b=1, b_to_a=ratio, verdict="")) is worse


def test_readers_stand_with_their_means_and_what_is_wrong_with_them() -> None:
    assert DOSES.result is not None
    rows = reader_rows(DOSES.result)
    assert len(rows) == 7
    assert texts(rows[0]) | {"workload": "scan", "p50": "180", "p99": "420", "efficiency": "97.0 %"} == texts(rows[0])
    late = DOSES.result.readers[0].model_copy(update={"deadline_ms": 100.0, "failed": 2, "p50_ms": None})
    row = reader_rows(DOSES.result.model_copy(update={"readers": [late]}))[0]
    assert (row["p99"]["over"], row["failed"]["over"], row["p50"]["text"]) == (True, True, "–")
    assert "with 95 % confidence" in rows[-1]["rate"]["title"]
    assert reader_rows(None) == []


def test_counters_of_the_server_and_what_its_sessions_waited_for() -> None:
    rows = {row["key"]: texts(row) for row in server_rows(PLAIN.result)}
    assert rows["cache_misses"]["ratio"] == "–"
    assert rows["waiting for IO:WALSync"]["ratio"] == "1.000"
    assert server_rows(None) == []


def test_the_list_of_those_that_were_marks_the_one_that_is_shown() -> None:
    one = Summary(
        id="20260101T000000Z",
        began_ns=1,
        state=RunState.FINISHED,
        problem=None,
        readers="4 scan",
        pairs=3,
        block_s=20.0,
        doses=[1, 2],
        blocks=13,
        p99=Ratio(ratio=1.77, low=1.7, high=1.9, pairs=3),
        rate=None,
        steady=False,
        headline="it takes longer",
        report=True,
    )
    failed = one.model_copy(
        update={"id": "b", "state": RunState.FAILED, "problem": "no room", "report": False, "doses": []}
    )
    first, second = past_rows([one, failed], "b")
    assert texts(first) | {
        "what": "4 scan · doses 1, 2 · 13 blocks of 20 s",
        "state": "✓ finished, not steady",
        "p99": "×1.77",
        "rate": "–",
    } == texts(first)
    assert first["p99"]["title"] == "1.70 to 1.90 with 95 % confidence"
    assert first["report"]["links"][0]["href"] == "/answers/interference/20260101T000000Z/report"
    assert (first["id"]["chosen"], second["id"]["chosen"]) == (False, True)
    assert (second["state"]["text"], second["report"]["links"]) == ("✕ failed: no room", [])
