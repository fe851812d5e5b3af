"""The sentences about an experiment."""

import pytest

from dashboard.tabs.interference.measured import of_record
from dashboard.tabs.interference.rows import EXPLAINED, head, lasts, progress, remarks, verdict
from schemas.api.status import ExperimentStatus
from schemas.states import ExperimentPhase, RunState
from tests.page.experiments import record_of

DOSES, PLAIN = record_of("20260101T000000Z"), record_of("20251231T120000Z-P")
RUNNING = ExperimentStatus(
    id="x", began_ns=1, phase=ExperimentPhase.WRITE_AND_READ, block=5, blocks=9, readers=1, left_s=93.0
)


def test_without_one_the_tab_says_what_it_is_for() -> None:
    nothing, starting = head(None, None), head(None, RUNNING)
    assert (nothing.title, nothing.summary) == ("No experiment yet", EXPLAINED)
    assert (starting.title, starting.summary) == ("An experiment is starting", "")


def test_the_head_says_what_was_asked_where_and_when() -> None:
    of_doses = head(of_record(DOSES), None)
    assert of_doses.title == "Experiment 20260101T000000Z"
    assert of_doses.summary == (
        "2026-01-01 00:00:00 UTC · scan, history · doses of 1, 2, 4, 8 clients, 3 blocks of each of 20 s, of which the "
        "first 3 s are warm-up · PostgreSQL 18.4, a commit is on the disk before it is acknowledged"
    )
    assert "scan ×4 · 4 pairs of blocks of 20 s" in head(of_record(PLAIN), None).summary


def test_the_verdict_warns_where_it_did_not_go_well() -> None:
    assert verdict(DOSES).startswith("With 8 readers: commit p99")
    assert not head(of_record(DOSES), None).is_wrong
    stopped = DOSES.model_copy(update={"state": RunState.FAILED, "problem": "the disk is full", "result": None})
    assert verdict(stopped) == "✕ failed: the disk is full."
    assert head(of_record(stopped), None).is_wrong
    assert DOSES.result is not None
    unsteady = DOSES.model_copy(update={"result": DOSES.result.model_copy(update={"steady": False})})
    assert head(of_record(unsteady), None).is_wrong


def test_progress() -> None:
    assert progress(RUNNING) == "B · block 5 of 9, 1 reader · about 93 s left"
    assert progress(RUNNING.model_copy(update={"readers": 0, "left_s": 600})) == "B · block 5 of 9 · about 10 min left"


@pytest.mark.parametrize(
    ("pairs", "block_s", "doses", "words"),
    [
        (6, 20, 0, "13 blocks, 4 min 20 s"),
        (6, 20, 3, "37 blocks, 12 min 20 s"),
        (None, 20, 0, ""),
        (6, None, 0, ""),
    ],
)
def test_how_long_it_will_take(pairs: float | None, block_s: float | None, doses: int, words: str) -> None:
    assert lasts(pairs, block_s, doses) == words


@pytest.mark.parametrize(
    ("pairs", "block_s", "words"),
    [
        ("2.0", 10, "5 blocks, 50 s"),
        ("1.", "10", "3 blocks, 30 s"),
        ("-", 10, ""),
        (3, "-", ""),
        (3, "1e999", ""),
        ("", "", ""),
    ],
)
def test_what_is_being_typed_is_taken_as_far_as_it_is_a_number(
    pairs: float | str, block_s: float | str, words: str
) -> None:
    assert lasts(pairs, block_s, 0) == words


def test_the_command_that_repeats_it_comes_last() -> None:
    noted = DOSES.model_copy(update={"notes": ["The governor was on."]})
    assert remarks(noted) == ["The governor was on. To repeat it: ", DOSES.command]
    assert remarks(None) == []
