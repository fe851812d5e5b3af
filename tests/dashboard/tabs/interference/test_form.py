"""The form that starts an experiment: what it asks for, and where it says what is wrong."""

import time
from typing import Any

import pytest
from dash import no_update

from dashboard.feed.client import Daemon, DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.interference.form import (
    DOSES,
    MOST,
    asked,
    by_set,
    doses_of,
    form_callbacks,
    order_of,
    problems_of,
    set_errors,
)
from dashboard.tabs.orders import Orders
from dashboard.tabs.parts import chosen
from tests.page.served import snapshot
from tests.support.callbacks import Declared, told_of

SCAN = {"kind": "scan", "clients": 4, "period_s": 0, "group": "bpm"}
HISTORY = {"kind": "history", "clients": 2, "stretch_s": 1800, "step_s": 60}
BLOCKS = {"pairs": 6, "block_s": 20, "warm_up_s": 3}


def test_workloads_are_named_by_their_kinds_and_take_what_applies() -> None:
    given = asked(BLOCKS, [SCAN | {"readings": 9}, HISTORY, SCAN], snapshot(1, time.time_ns()))
    assert [one["name"] for one in given["workloads"]] == ["scan", "history", "scan_2"]
    assert given["workloads"][0] == {"name": "scan", "kind": "scan", "clients": 4, "period_s": 0}
    assert given["workloads"][1]["step_s"] == 60
    assert given["doses"] == []
    assert problems_of(BLOCKS, given) == {}


@pytest.mark.parametrize(("text", "doses"), [("1, 2, 4", [1, 2, 4]), ("8 16", [8, 16]), ("", []), (None, [])])
def test_doses_are_numbers_apart(text: str | None, doses: list[int]) -> None:
    assert doses_of(text) == doses


@pytest.mark.parametrize(
    ("blocks", "sets", "field", "words"),
    [
        ({"doses": "few"}, [SCAN], "doses", DOSES),
        ({"doses": "2, 2"}, [SCAN], "doses", "2 is there already; name each dose once"),
        ({"warm_up_s": 30}, [SCAN], "warm_up_s", "not less than block_s, which is 20; leave something of the block"),
        ({}, [SCAN, HISTORY | {"clients": 0}], "workloads[1].clients", "0 is out of range; use 1 to 256"),
        ({}, [HISTORY | {"step_s": 7200}], "workloads[0].step_s", "longer than the 1800 s asked for"),
    ],
)
def test_what_is_wrong_is_said_by_field(
    blocks: dict[str, Any], sets: list[dict[str, Any]], field: str, words: str
) -> None:
    filled = BLOCKS | blocks
    found = problems_of(filled, asked(filled, sets, None))
    assert found.keys() == {field}
    assert found[field].startswith(words)


def test_fields_belong_to_their_sets_by_number_whatever_was_taken_out() -> None:
    ids = [{"set": number, "field": field} for number in (1, 4) for field in ("kind", "clients")]
    assert by_set(["scan", 4, "trend", ""], ids) == [{"kind": "scan", "clients": 4}, {"kind": "trend"}]
    assert set_errors(ids, {"workloads[1].clients": "too few", "pairs": "x"}) == [None, None, None, "too few"]


def test_what_the_address_names_gives_way_to_the_one_that_was_started() -> None:
    assert order_of({}, {"view": {"experiment": "20260101T000000Z"}}).then == [chosen(experiment=None)]
    assert order_of({}, {"view": {"experiment": None}}).then == ()
    assert order_of({}, None).then == ()


def test_there_may_be_as_many_as_an_experiment_takes() -> None:
    def given(workloads: int) -> dict[str, Any]:
        return asked(BLOCKS, [SCAN] * workloads, None)

    assert problems_of(BLOCKS, given(MOST)) == {}
    assert problems_of(BLOCKS, given(MOST + 1)).keys() == {"workloads"}


async def test_a_set_that_was_just_put_in_is_not_taken_out_by_an_earlier_press() -> None:
    app, hub = Declared(), Hub(daemon="http://127.0.0.1:1", build="b")
    form_callbacks(app, hub, Orders(DaemonApi(Daemon(url="http://127.0.0.1:1"))))
    change = app.found["change"]
    ids = [{"remove": 0}, {"remove": 1}]
    with told_of(ids[0], 1):
        assert await change(None, [1], ids[:1]) is no_update, "the only one stays"
    with told_of("experiment-add", 1):
        assert [one["operation"] for one in (await change(1, [1], ids[:1])).to_plotly_json()["operations"]] == [
            "Append"
        ]
    with told_of(ids[1], None):
        assert await change(1, [1, None], ids) is no_update, "told of the new one, which nobody pressed"
    with told_of(ids[1], 1):
        (taken_out,) = (await change(1, [1, 1], ids)).to_plotly_json()["operations"]
    assert (taken_out["operation"], taken_out["location"]) == ("Delete", [1])
