import time
from typing import Any

import orjson

from dashboard.feed.frames import COLUMNS, changed, point, points, sections
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


def test_there_is_a_point_for_each_group() -> None:
    assert points(snapshot(1, NOW_NS, groups={"bpm": 3, "toroid": 2})).keys() == {"bpm", "toroid"}


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
