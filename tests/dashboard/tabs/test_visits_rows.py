from typing import Any

from dashboard.tabs.visits.callbacks import fit_rows, past_note, past_rows, size_rows, sizes_note
from schemas.api.visits import VisitsFigures, VisitsSummary
from tests.page.visits import figures_of, runs_told

FIGURES = VisitsFigures.model_validate(figures_of(300, 900, 0.5))


def texts(row: dict[str, Any]) -> list[str]:
    return [cell["text"] for name, cell in row.items() if name != "key"]


def test_sizes_are_counts_or_estimates_against_the_formula() -> None:
    counted, estimated = size_rows(FIGURES)
    assert texts(counted) == ["DIAObject", "151,200", "150,200", "+0.7 %", "112 MiB", "15.0 MiB", "881"]
    assert texts(estimated)[:4] == ["DIAForcedSource", "≈ 150,000", "150,200", "−0.1 %"]
    assert sizes_note(FIGURES) == "149 MiB in total"


def test_rows_stand_out_that_are_counted_and_not_as_many_as_expected() -> None:
    off = FIGURES.model_copy(update={"expected": {"DIAObject": 1000.0, "DIAForcedSource": 1000.0}})
    assert [row["off"]["over"] for row in size_rows(off)] == [True, False]
    only = FIGURES.model_copy(update={"sizes": {}, "expected": {}})
    assert [texts(row) for row in size_rows(only)] == [["DIAObject", "151,200", "–", "–", "–", "–", "–"]]
    assert sizes_note(only) == ""


def test_lines_have_a_slope_with_its_interval_and_the_paper_has_none() -> None:
    rows = {row["key"]: texts(row) for row in fit_rows(FIGURES)}
    assert [*rows] == ["visit_s", "select_s", "store_s", "paper"]
    assert rows["visit_s"] == ["total", "0.17", "0.148", "0.0997 to 0.196", "300"]
    assert rows["paper"] == ["paper, total", "0.0485", "0.164", "–", "–"]
    few = FIGURES.model_copy(update={"fits": dict.fromkeys(FIGURES.fits)})
    assert [row["key"] for row in fit_rows(few)] == ["paper"]


def test_past_runs_are_chosen_by_their_name_and_have_files() -> None:
    told = runs_told({"past_visits": ["20251231T120000Z", "20251231T120000Z-2"], "visits": None})
    past = [VisitsSummary.model_validate(one) for one in told["past"]]
    first, second = past_rows(past, "20251231T120000Z-2")
    assert (first["id"]["chosen"], second["id"]["chosen"]) == (False, True)
    assert [first[name]["text"] for name in ("mode", "visits", "lasted", "problem")] == [
        "last_object_table",
        "700",
        "12 min 34 s",
        "",
    ]
    assert second["problem"]["text"] == "it was stopped on request"
    assert first["files"]["links"][0] == {
        "text": "CSV",
        "href": "/answers/visits/20251231T120000Z/csv",
        "label": "CSV of 20251231T120000Z, opens in a new tab",
    }
    assert [link["text"] for link in first["files"]["links"]] == ["CSV", "Parquet", "Report"]
    assert (past_note(past), past_note([])) == ("2, newest first", "")
