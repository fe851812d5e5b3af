"""What the form of marks makes of what a person wrote, and what the page makes of marks."""

import time
from uuid import uuid4

import pytest

from dashboard.feed.client import Daemon, DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.sentences import SHOWN_MOST, known_marks, mark_section, words
from dashboard.tabs.figures import missing_strip, trends
from dashboard.tabs.marks import asked, mark_of, register
from schemas.api.readings import Missing, Readings
from schemas.marks import Mark
from tests.support.callbacks import Declared, told_of

NOW_NS = 1_764_000_000 * 10**9
MINUTE_NS = 60 * 10**9


def mark(at_ns: int = NOW_NS, text: str = "beam study began", **fields: object) -> Mark:
    return Mark.model_validate({"id": uuid4(), "time_ns": at_ns, "text": text} | fields)


def test_times_of_the_form_are_utc_and_an_empty_one_is_now() -> None:
    given = {"text": "a", "time_ns": "2025-11-24T16:00", "until_ns": "2025-11-24T16:00:01", "author": "A. O."}
    made, _ = mark_of(given, None)
    assert made is not None
    assert (made.time_ns, made.until_ns, made.author, made.group) == (NOW_NS, NOW_NS + 10**9, "A. O.", None)
    before_ns = time.time_ns()
    made, _ = mark_of({"text": "a", "group": "bpm"}, None)
    assert made is not None
    assert before_ns <= made.time_ns <= time.time_ns()
    assert made.group == "bpm"


@pytest.mark.parametrize(
    ("given", "at", "problem"),
    [
        ({}, "text", "missing; give it"),
        ({"text": "a", "time_ns": "soon"}, "time_ns", "'soon'"),
        ({"text": "a", "time_ns": "2025-11-24T16:00", "until_ns": "2025-11-24T15:00"}, "until_ns", "not after"),
        ({"text": "a\x07"}, "text", "it has control characters"),
    ],
)
def test_what_is_no_mark_is_said_at_its_field(given: dict[str, str], at: str, problem: str) -> None:
    made, wrong = mark_of(given, None)
    assert made is None
    assert set(wrong) == {at}
    assert problem in wrong[at]


def test_an_order_whose_outcome_is_not_known_is_given_again_as_it_was() -> None:
    given = {"text": "a"}
    first, _ = mark_of(given, None)
    assert first is not None
    sent = {"given": given, "mark": first.model_dump(mode="json")}
    assert mark_of(given, sent) == (first, {})
    other, _ = mark_of({"text": "b"}, sent)
    assert other is not None
    assert other.id != first.id


def test_a_mark_that_was_not_sent_is_not_kept_to_be_sent_again() -> None:
    with told_of("mark-send", 1) as props:
        order, _ = asked({"text": "a"}, None)
    assert props == {}
    assert order is not None
    assert order.repeat == ("mark-sent", {"given": {"text": "a"}, "mark": order.body})


async def test_the_dialog_names_the_mark_that_it_withdraws() -> None:
    app = Declared()
    register(app, Hub(daemon="http://127.0.0.1:1", build="b"), DaemonApi(Daemon(url="http://127.0.0.1:1")))
    ids, titles = [{"withdraw": "one"}, {"withdraw": "two"}], ["Withdraw: valve closed", "Withdraw: beam study"]
    # The dialog of the first was left with Cancel, which takes no press back.
    for place in (0, 1):
        with told_of(ids[place], 1) as props:
            await app.found["withdraw"]([1, 1], ids, titles, None)
        assert props["order-dialog"]["title"] == titles[place]
        assert props["order"]["data"]["path"] == f"/marks/{ids[place]['withdraw']}"
    with told_of(ids[1], None) as props:
        await app.found["withdraw"]([1, None], ids, titles, None)
    assert props == {}


def test_the_section_has_those_that_wait_once_and_in_order_of_time() -> None:
    stored = [mark(NOW_NS + k, f"number {k}") for k in range(SHOWN_MOST)]
    known = known_marks(stored, [stored[3], mark(NOW_NS + 1_000_000, "waits")])
    section = mark_section(known)
    assert len(section["all"]) == SHOWN_MOST
    assert [line["text"] for line in section["all"] if line["waits"]] == ["number 3", "waits"]
    assert known[-1][0].text == "waits"
    assert mark_section([]) == {"all": []}


def test_a_mark_in_words() -> None:
    assert words(mark()) == "2025-11-24 16:00:00 UTC: beam study began"
    told = words(mark(until_ns=NOW_NS + MINUTE_NS, group="bpm", author="A. O."))
    assert told == "2025-11-24 16:00:00 to 2025-11-24 16:01:00 UTC: beam study began (group bpm), A. O."
    for far_ns, told in ((2**63 - 1, "2262-04-11 23:47:16"), (-(2**63), "1677-09-21 00:12:43")):
        assert words(mark(far_ns)).startswith(f"{told} UTC")


def test_figures_have_the_marks_of_their_range() -> None:
    readings = Readings(
        group="bpm",
        instrument=0,
        name="bpm_000",
        stored=1,
        cut=False,
        time_ns=[NOW_NS],
        run=[1],
        trigger=[1],
        channels={"x": [1.0]},
        units={"x": "mm"},
    )
    marks = [
        mark(NOW_NS - 2 * MINUTE_NS, "before"),
        mark(NOW_NS - 2 * MINUTE_NS, "lasts", until_ns=NOW_NS - 30 * 10**9),
        mark(NOW_NS - 10 * 10**9, "<b>" + "x" * 40),
        mark(NOW_NS + 10**9, "after"),
    ]
    found = trends(readings, now_ns=NOW_NS, start_ns=NOW_NS - MINUTE_NS, marks=marks)
    spans = [(shape.type, shape.x0, shape.x1) for shape in found.layout.shapes]
    now_ms = NOW_NS / 1e6
    assert spans == [
        ("rect", now_ms - 60_000, now_ms - 30_000),
        ("line", now_ms - 10_000, now_ms - 10_000),
    ]
    texts = [each.text for each in found.layout.annotations if each.hovertext]
    assert texts == ["lasts", "&lt;b&gt;" + "x" * 29 + "…"]
    stretches = {"trigger": [1], "time_ns": [NOW_NS - MINUTE_NS], "triggers": [10]}
    history = Missing.model_validate(
        {
            "group": "bpm",
            "run": 1,
            "triggers": 10,
            "end_ns": NOW_NS,
            "stretches": stretches,
            "missing": {"0": [3]},
            "more": 0,
            "late": [0],
            "heard_s": [0.1],
        }
    )
    strip = missing_strip(history, 0, marks)
    assert (len(strip.layout.shapes), len(strip.layout.annotations)) == (2, 0)
