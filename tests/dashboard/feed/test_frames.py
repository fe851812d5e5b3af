import time
from typing import Any

import orjson

from dashboard.feed.frames import COLUMNS, ReadRates, changed, point, points, sections
from dashboard.feed.groups import WHOLE
from schemas.api.snapshots import SnapshotsStatus
from schemas.api.status import DiskStatus, Shortfall
from tests.page.served import snapshot
from tests.page.snapshots import STATUS

NOW_NS = time.time_ns()


def test_a_point_holds_the_columns_in_their_order() -> None:
    status = snapshot(8, NOW_NS, wave=False, rate=972.25, commit_rate=971.5, p50=1.62, p99=10.56, waiting=49, open=3)
    row = dict(zip(COLUMNS, point(status.groups["bpm"]), strict=True))
    assert row == {
        "received": 972.25,
        "committed": 971.5,
        "p50": 1.62,
        "p99": 10.56,
        "waiting": 49,
        "open": 3,
        "missing": 0.0,
        "absent": 0,
        "written": 971.5 * 120,
        "longest": 14.784,
        "reads": 0,
        "rows_read": 0,
        "readers": 0,
        "read_p99": None,
    }


def test_there_is_a_point_for_each_group_and_of_several_one_for_all_together() -> None:
    assert points(snapshot(1, NOW_NS)).keys() == {"bpm"}
    reader = {"group": "toroid", "rate": 4.0}
    status = snapshot(1, NOW_NS, wave=False, groups={"bpm": 3, "toroid": 2}, waiting=5, readers={"one": reader})
    rows = {name: dict(zip(COLUMNS, row, strict=True)) for name, row in points(status).items()}
    assert rows.keys() == {WHOLE, "bpm", "toroid"}
    assert (rows[WHOLE]["received"], rows[WHOLE]["waiting"], rows[WHOLE]["p99"]) == (200.0, 10, rows["bpm"]["p99"])
    assert (rows[WHOLE]["reads"], rows["bpm"]["reads"], rows["toroid"]["reads"]) == (4.0, 0, 4.0)


def test_the_whole_logger_adds_up_and_names_the_worst_groups() -> None:
    now = snapshot(1, NOW_NS, wave=False, groups={"a": 2, "b": 2, "c": 2, "d": 2, "e": 2}, states={"b": {"1": "s"}})
    slow = now.groups["d"].commit_ms.model_copy(update={"p99": 750.0})
    now = now.model_copy(update={"groups": now.groups | {"d": now.groups["d"].model_copy(update={"commit_ms": slow})}})
    cut = sections(now)
    words, totals = cut[f"words/{WHOLE}"], cut[f"totals/{WHOLE}"]
    assert (words["slow"], words["misses"], words["written"]) == ("d", "b", "rows, sync")
    assert totals["unaccounted"] == 0
    assert totals["received"] == 5 * cut["totals/a"]["received"]
    assert cut[f"group/{WHOLE}"]["instruments"] == 10
    assert f"states/{WHOLE}" not in cut
    assert [cut[f"words/{name}"]["state"] for name in "abd"] == ["ok", "1 silent", "commits slow"]
    assert cut["together"] == {"many": True, "words": "5 groups, 2 in trouble: b, d", "bad": ["b", "d"]}


def test_a_section_travels_only_when_it_changed() -> None:
    before = sections(snapshot(1, NOW_NS, count=5))
    assert changed(before, {}) == before
    assert changed(sections(snapshot(2, NOW_NS, count=5)), before) == {}
    later = changed(sections(snapshot(3, NOW_NS, count=5, states={"bpm": {"7": "s"}})), before)
    assert later.keys() == {"states/bpm", "words/bpm"}
    assert later["states/bpm"][7] == "s"


def test_a_run_of_snapshot_readers_changes_its_section_whenever_a_client_moves_and_sends_no_figure_a_client() -> None:
    def told(**changes: Any) -> dict[str, Any]:
        run = SnapshotsStatus.model_validate(STATUS | changes)
        return dict(sections(snapshot(1, time.time_ns()).model_copy(update={"snapshots": run}))["snapshots"])

    before = told()
    assert len(orjson.dumps(before)) < 120
    assert told(progress=[percent + 1 for percent in STATUS["progress"]]) != before
    assert sections(snapshot(1, time.time_ns()))["snapshots"] is None


def test_a_disk_that_does_not_say_how_large_it_is_is_none() -> None:
    unknown = snapshot(1, NOW_NS).model_copy(update={"disk": DiskStatus(total_bytes=0, used_bytes=0, free_bytes=0)})
    assert sections(unknown)["disk"] is None


def test_the_disk_is_used_as_df_says_it() -> None:
    disk = DiskStatus(total_bytes=252 * 2**30, used_bytes=68 * 2**30, free_bytes=24 * 2**30)
    told = sections(snapshot(1, NOW_NS).model_copy(update={"disk": disk}))["disk"]
    assert told["words"] == "74 % used"


def test_what_is_at_risk_travels_with_the_totals() -> None:
    short = Shortfall(problem="no fsync", fix="set it on")
    told = sections(snapshot(1, NOW_NS, at_risk=1200, at_risk_ms=600.0, shortfall={"sync": short}))
    assert (told["group/bpm"]["at_risk_ms"], told["totals/bpm"]["at_risk"]) == (600.0, 1200)
    sent = orjson.loads(orjson.dumps(told))
    assert sent["store"]["shortfall"] == {"sync": "no fsync; set it on"}


def test_a_group_that_is_gone_is_told_to_be_gone() -> None:
    before = sections(snapshot(1, NOW_NS, groups={"bpm": 3, "toroid": 2}))
    gone = changed(sections(snapshot(1, NOW_NS, groups={"bpm": 3})), before)
    assert gone["group/toroid"] is None
    assert gone["states/toroid"] is None


def test_the_epoch_and_the_newest_trigger_are_text_for_a_browser_would_round_them() -> None:
    status = snapshot(1, NOW_NS)
    assert sections(status)["head"]["epoch"] == str(status.epoch)
    for newest, told in ((2**53 + 1, "9,007,199,254,740,993"), (None, None)):
        status.groups["bpm"] = status.groups["bpm"].model_copy(
            update={"triggers": status.groups["bpm"].triggers.model_copy(update={"newest": newest})}
        )
        assert sections(status)["totals/bpm"]["newest"] == told


def test_what_grows_with_every_frame_but_is_not_shown_does_not_travel() -> None:
    assert not changed(sections(snapshot(9, NOW_NS + 250_000_000, count=1)), sections(snapshot(8, NOW_NS, count=1)))


def test_a_workload_that_is_on_and_off_in_turn_is_drawn_as_a_rectangle() -> None:
    rates, drawn, cycles = ReadRates(), [], 0
    for k in range(4 * 48):
        is_on = k // 48 % 2 == 0
        cycles += 2 * is_on
        readers = {"one": {"cycles": cycles, "rows": 10 * cycles, "rate": 5.0}}
        drawn.append(rates.take(snapshot(k, NOW_NS + k * 250_000_000, readers=readers))["one"])
    shown = [one.rate for one in drawn]
    assert shown[8:48] == [8.0] * 40
    assert shown[53:96] == [0.0] * 43
    assert shown[101:144] == [8.0] * 43
    assert drawn[20].row_rate == 80.0


def test_few_answers_are_not_drawn_one_by_one() -> None:
    rates, shown = ReadRates(), []
    for k in range(120):
        readers = {"one": {"cycles": k // 4, "rate": 1.0}}  # one a second
        shown.append(rates.take(snapshot(k, NOW_NS + k * 250_000_000, readers=readers))["one"].rate)
    assert set(shown[40:]) == {1.0}
    again = rates.take(snapshot(120, NOW_NS + 120 * 250_000_000, readers={"one": {"cycles": 0}}))["one"]
    assert again.rate == 0.0
