from typing import Any

import pytest

from dashboard.tabs.visits.runs import Shown
from dashboard.tabs.visits.words import percent, progress, summary, tiles, told
from schemas.api.visits import VisitsFigures, VisitsStatus, VisitsSummary
from schemas.states import RunState, VisitsPhase
from tests.page.visits import STATUS, figures_of

FIGURES = VisitsFigures.model_validate(figures_of(300, 900, 0.5))
BEGAN_NS = STATUS["since_ns"]


def live(**changes: Any) -> VisitsStatus:
    return VisitsStatus.model_validate(STATUS | changes)


def kept(**changes: Any) -> VisitsSummary:
    given = {"id": "a", "began_ns": BEGAN_NS, "ended_ns": BEGAN_NS, "index_mode": "baseline", "visits": 7}
    return VisitsSummary.model_validate(given | changes)


def shown(**given: Any) -> Shown:
    return Shown(id=STATUS["id"], **given)


def test_a_run_under_way_has_its_progress_and_a_button_that_stops_it() -> None:
    props = told(shown(live=live(), figures=FIGURES, is_busy=True))
    assert props["visits-title"]["children"] == f"Run {STATUS['id']}"
    assert props["visits-summary"]["title"] == "triggerlog_visits"
    assert props["visits-progress"] == {"hidden": False, "max": 2400, "value": "1200"}
    assert props["visits-phase"]["children"] == "1,200 of 2,400 visits · about 4 min left"
    assert (props["visits-order"]["hidden"], props["visits-shown"]["hidden"]) == (False, False)
    assert props["visits-form-note"]["children"] == "a run is active; stop it first"


@pytest.mark.parametrize(
    "given", [{"live": live(state="finished")}, {"live": live(), "is_dead": True}, {"figures": FIGURES}]
)
def test_what_is_not_under_way_cannot_be_stopped(given: dict[str, Any]) -> None:
    props = told(shown(**given))
    assert (props["visits-progress"], props["visits-order"]) == ({"hidden": True}, {"hidden": True})


def test_without_a_run_it_is_said_what_one_is() -> None:
    props = told(Shown(id=""))
    assert props["visits-title"]["children"] == "No run of visits yet"
    assert (props["visits-empty"]["hidden"], props["visits-shown"]["hidden"]) == (False, True)
    props = told(Shown(id="", is_listed=False))
    assert (props["visits-title"]["children"], props["visits-empty"]["hidden"]) == ("Visits", True)


def test_progress_tells_what_a_visit_waits_for() -> None:
    words = progress(live(remaining_s=None, problem="the database is away"))
    assert words == "1,200 of 2,400 visits · the database is away"


def test_a_summary_tells_when_it_was_and_what_was_asked() -> None:
    asked = "schema triggerlog_visits · scale 0.02 · no tiles · one process · 365 days of history"
    assert summary(shown(live=live())) == "since 2026-01-01 00:00:00 UTC · index mode partitioned"
    words = summary(shown(kept=kept(problem="it was stopped on request"), figures=FIGURES))
    assert words == (
        f"2026-01-01 00:00:00 UTC · index mode baseline · {asked}. It ended early: it was stopped on request."
    )
    settings = FIGURES.settings.model_copy(
        update={"tiles": 15, "workers": "persistent", "processes": 4, "all_history": True}
    )
    words = summary(shown(figures=FIGURES.model_copy(update={"settings": settings})))
    assert words.endswith("15 × 15 tiles · 4 processes · all of the history")
    failed = live(state="failed", problem="the server closed the connection")
    assert summary(shown(live=failed)).endswith(". It ended early: the server closed the connection.")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "● running"),
        ({"phase": VisitsPhase.WAITING}, "◐ waiting for the next visit’s time"),
        ({"state": RunState.STOPPING, "phase": VisitsPhase.WAITING}, "◑ stopping after this visit"),
        ({"state": RunState.INTERRUPTED}, "✕ interrupted"),
    ],
)
def test_the_state_is_in_words_with_a_glyph(changes: dict[str, Any], words: str) -> None:
    assert tiles(shown(live=live(**changes)))["state"].value == words


def test_every_state_has_words() -> None:
    for state in RunState:
        assert tiles(shown(live=live(state=state)))["state"].value
    for phase in VisitsPhase:
        assert tiles(shown(live=live(phase=phase)))["state"].value


def test_tiles_of_a_run_under_way_stand_out_where_something_is_wrong() -> None:
    found = tiles(shown(live=live(mean_s=12.0, over_limit=0.012, remaining_s=254.0), figures=FIGURES))
    assert (found["done"].value, found["done"].unit) == ("1,200", "of 2,400")
    assert (found["mean"].value, found["mean"].is_over) == ("12.0", True)
    assert (found["over"].value, found["over"].is_over) == ("1.20", True)
    assert (found["left"].value, found["left"].unit, found["left"].note) == ("4", "min", "as fast as possible")
    assert found["split"].note.startswith("of the last visit · ")
    well = tiles(shown(live=live(over_limit=0.0, interval_s=45.0)))
    assert (well["over"].value, well["over"].is_over, well["mean"].is_over) == ("0", False, False)
    assert (well["left"].note, well["split"].value) == ("one visit per 45 s", "–")
    failed = tiles(shown(live=live(state="failed", problem="no room")))
    assert (failed["state"].is_over, failed["state"].note) == (True, "no room")
    packed = tiles(shown(live=live(compactions=3, compact_s=1.25)))
    assert packed["state"].note == "partitioned · 3 compacted, 1.2 s"


def test_without_data_no_figure_looks_as_if_it_were_of_now() -> None:
    found = tiles(shown(live=live(over_limit=0.5), figures=FIGURES, is_dead=True))
    assert {(tile.value, tile.is_over) for tile in found.values()} == {("–", False)}
    assert tiles(shown(figures=FIGURES, is_dead=True))["done"].value == "300"


def test_tiles_of_a_past_run_are_of_its_figures() -> None:
    found = tiles(shown(figures=FIGURES))
    assert (found["state"].value, found["state"].note) == ("✓ finished", "from the archive")
    assert (found["done"].value, found["done"].unit) == ("300", "of 24,000")
    assert found["mean"].note == "mean of the last bin · limit 0.5 s"
    assert found["left"].value == "–"
    over = sum(value > 0.5 for value in FIGURES.columns["visit_s"])
    assert found["over"].value == percent(over / 300)
    assert tiles(shown(figures=FIGURES, kept=kept(state="stopped")))["state"].value == "◼ stopped"
    assert tiles(shown())["done"].value == "–"


def test_a_share_has_more_digits_where_it_is_small() -> None:
    assert [*map(percent, (0, 0.012, 0.34, 1))] == ["0", "1.20", "34.0", "100"]
