import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dashboard.feed.client import Daemon, DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.tabs.instruments import shown
from dashboard.tabs.instruments.drawer import drawer_callbacks
from dashboard.tabs.instruments.shown import DrawnOrbit, Shown, WorstList
from schemas.api.readings import Calibration, Missing, OneTrigger, Readings, TriggerRanges
from schemas.conditions.calibration import BUTTONS, By
from schemas.conditions.intervals import TagStatus
from tests.page.served import snapshot
from tests.support.callbacks import Declared

SIZE = 120
NAMES = [f"bpm_{number:03d}" for number in range(SIZE)]
FIRST = Daemon(url="http://127.0.0.1:1")


class Answering(DaemonApi):
    """An API that answers by itself, and counts its questions."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(FIRST)
        self._now = now
        self.asked: list[str] = []
        self.problem: str | None = None
        self.gone: set[int] = set()
        self.calibration = Calibration(
            tag="summer", revision=3, status=TagStatus.LOCKED, by=By.TRIGGER, readings_without=0, payloads=[]
        )

    async def newest(self, group: str, *, complete: bool, calibrated: bool = False) -> OneTrigger:
        self._ask(f"newest {complete}{' calibrated' * calibrated}")
        there = [] if complete and self.gone else [n for n in range(SIZE) if n not in self.gone]
        values: list[float | None] = [float(n) for n in there]
        return OneTrigger(
            group=group,
            run=1,
            trigger=self._now() if there else None,
            instruments=[NAMES[n] for n in there],
            time_ns=[time.time_ns()] * len(there),
            channels={"current": values, "offset": values}
            | (dict.fromkeys(("x_mm", "y_mm"), values) | dict.fromkeys(BUTTONS, values) if calibrated else {}),
            units={"current": "mA"},
            calibration=self.calibration if calibrated else None,
        )

    async def missing(self, group: str, *, last: int, instrument: str | None = None) -> Missing:
        self._ask(f"missing {last}" if instrument is None else f"missing of {instrument}")
        ranges = TriggerRanges(trigger=[1], time_ns=[0], triggers=[last])
        missing = {"6": [3]}
        heard_s: list[float | None] = [0.1] * SIZE
        return Missing(
            group=group,
            run=1,
            triggers=last,
            end_ns=1,
            stretches=ranges,
            missing=missing,
            more=0,
            late=[0] * SIZE,
            heard_s=heard_s,
        )

    async def readings(
        self, group: str, instrument: str, *, start_ns: int, end_ns: int, points: int, raw_from_ns: int | None = None
    ) -> Readings:
        self._ask(f"readings of {instrument}")
        raise DaemonUnavailable("not asked here")

    def _ask(self, question: str) -> None:
        self.asked.append(question)
        if self.problem is not None:
            raise DaemonUnavailable(self.problem)


@pytest.fixture
def hub() -> Hub:
    hub = Hub(daemon=FIRST.url, build="b")
    hub.take(snapshot(20, time.time_ns(), wave=False))
    hub.names = {"bpm": NAMES}
    return hub


@pytest.fixture
def api(hub: Hub) -> Answering:
    def newest() -> int:
        assert hub.status is not None
        return hub.status.groups["bpm"].triggers.newest or 0

    return Answering(newest)


async def orbit(views: Shown, choice: str | None = None) -> DrawnOrbit:
    drawn = await views.orbit("bpm", choice)
    assert isinstance(drawn, DrawnOrbit)
    return drawn


async def worst(views: Shown, last: int = 200) -> WorstList:
    found = await views.worst(("bpm",), last)
    assert isinstance(found, WorstList)
    return found


async def test_however_many_look_the_daemon_is_asked_and_a_figure_is_drawn_once(hub: Hub, api: Answering) -> None:
    views = Shown(hub, api)
    drawn = await asyncio.gather(*(orbit(views) for _ in range(20)))
    assert all(one is drawn[0] for one in drawn)
    other = await orbit(views, "offset")
    assert other.orbit.choice == "offset"
    assert api.asked == ["newest True"]
    listed = await asyncio.gather(*(worst(views) for _ in range(20)))
    assert all(one is listed[0] for one in listed)
    assert api.asked == ["newest True", "missing 200"]
    await worst(views, 1000)
    assert api.asked[2:] == ["missing 1000"]


async def test_what_is_missing_for_good_leads_to_the_newest_trigger(hub: Hub, api: Answering) -> None:
    api.gone = {6}
    drawn = await orbit(Shown(hub, api))
    assert api.asked == ["newest True", "newest False"]
    assert drawn.missing == "✕ Missing from this trigger: bpm_006."
    assert not drawn.is_old
    assert np.isnan(drawn.orbit.plots[0].values[6])


async def test_a_question_that_failed_leaves_what_is_shown_and_says_why(
    hub: Hub, api: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fresh in ("DRAWN_FRESH_S", "NEWEST_FRESH_S", "MISSING_FRESH_S"):
        monkeypatch.setattr(shown, fresh, 0.0)
    views = Shown(hub, api)
    api.problem = "the daemon took longer than 5 s to answer"
    assert await views.orbit("bpm", None) == api.problem
    assert await views.worst(("bpm",), 200) == api.problem
    api.problem = None
    before = await orbit(views)
    api.problem = "the daemon took longer than 5 s to answer"
    after = await orbit(views)
    assert after.figure is before.figure
    assert after.is_old
    assert after.note.endswith(f"ago · current rms 68.8 mA · {api.problem}")
    hub.lost("connection refused")
    gone = await orbit(views)
    assert "connection refused" not in gone.note, "the banner says so"
    assert gone.is_old
    assert await views.worst(("bpm",), 200) == "connection refused"


async def test_a_calibrated_orbit_is_never_replaced_by_one_that_is_not(
    hub: Hub, api: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fresh in ("DRAWN_FRESH_S", "NEWEST_FRESH_S"):
        monkeypatch.setattr(shown, fresh, 0.0)
    views = Shown(hub, api)
    raw = await orbit(views)
    api.problem = "the daemon answered 409: not calibrated"
    assert await views.orbit("bpm", None, calibrated=True) == api.problem
    api.problem = None
    calibrated = await views.orbit("bpm", None, calibrated=True)
    assert isinstance(calibrated, DrawnOrbit)
    assert [(plot.name, plot.made) for plot in calibrated.orbit.plots] == [
        ("x", "calibrated by summer"),
        ("y", "calibrated by summer"),
    ]
    assert calibrated.note.endswith(" · calibrated by summer")
    assert calibrated.key != raw.key
    api.calibration = api.calibration.model_copy(update={"tag": "<b>autumn of a very long name", "readings_without": 2})
    other = await views.orbit("bpm", None, calibrated=True)
    assert isinstance(other, DrawnOrbit)
    assert other.note.endswith(" · calibrated by <b>autumn of a very long name · 2 without a calibration")
    assert [each["text"] for each in other.figure["layout"]["annotations"]] == [
        "calibrated by &lt;b&gt;autumn of a very lon…"
    ]
    assert other.key != calibrated.key
    api.problem = "the daemon answered 503: not calibrated"
    failed = await views.orbit("bpm", None, calibrated=True)
    assert isinstance(failed, DrawnOrbit)
    assert (failed.figure, failed.is_old) == (other.figure, True)
    assert failed.note.endswith(api.problem)
    channel = await views.orbit("bpm", "offset", calibrated=True)
    assert channel == failed, "the last one that was calibrated, which says so"


async def test_a_failure_is_kept_so_that_those_who_wait_do_not_ask_one_after_the_other(
    hub: Hub, api: Answering
) -> None:
    api.problem = "the daemon took longer than 5 s to answer"
    views = Shown(hub, api)
    assert set(await asyncio.gather(*(views.orbit("bpm", choice) for choice in ("current", "offset", None)))) == {
        api.problem
    }
    assert api.asked == ["newest True"]


async def test_a_group_that_is_not_known_is_said_to_be(hub: Hub, api: Answering) -> None:
    views = Shown(hub, api)
    for told in (await views.orbit("nope", None), await views.worst(("nope",), 200)):
        assert told == "the daemon has no group 'nope', or its names are not known yet"
    assert api.asked == []


async def test_the_drawer_asks_for_its_instrument_by_name(hub: Hub, api: Answering) -> None:
    app = Declared()
    drawer_callbacks(app, hub, api)
    hub.names = {"bpm": [str(number) for number in range(1, SIZE + 1)]}
    await app.found["show"]({"group": "bpm", "instrument": 3, "name": "of the browser"}, None, "300")
    assert sorted(api.asked) == ["missing of 4", "readings of 4"], "to the daemon 3 is the name of another one"


@pytest.mark.parametrize("instrument", [-1, SIZE])
async def test_an_instrument_that_is_not_there_is_not_asked_for(hub: Hub, api: Answering, instrument: int) -> None:
    app = Declared()
    drawer_callbacks(app, hub, api)
    state, note, *_ = await app.found["show"]({"group": "bpm", "instrument": instrument, "name": ""}, None, "300")
    assert state == f"the daemon has no instrument {instrument} in bpm"
    assert note == "No readings to show: its name is not known."
    assert api.asked == []


async def test_rows_have_another_stamp_when_a_state_changes(
    hub: Hub, api: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "DRAWN_FRESH_S", 0.0)
    views = Shown(hub, api)
    before = await worst(views)
    assert [row["key"] for row in before.rows] == ["bpm:6"]
    assert (await worst(views)).stamp == before.stamp
    changes: dict[str, Any] = {"states": {"bpm": {"9": "s"}}}
    hub.take(snapshot(21, time.time_ns(), wave=False, **changes))
    after = await worst(views)
    assert [row["key"] for row in after.rows] == ["bpm:6", "bpm:9"]
    assert after.stamp != before.stamp
    assert api.asked == ["missing 200"], "states come on the stream"


async def test_the_worst_of_several_groups_are_one_list_and_an_hour_is_as_many_triggers_as_come_in_it(
    hub: Hub, api: Answering
) -> None:
    hub.take(snapshot(21, time.time_ns() + 10**9, wave=False, groups={"bpm": SIZE, "toroid": SIZE}, rate=2.0))
    hub.names = {"bpm": NAMES, "toroid": [f"toroid_{n}" for n in range(SIZE)]}
    views = Shown(hub, api)
    found = await views.worst(views.groups(), None)
    assert isinstance(found, WorstList)
    assert [row["key"] for row in found.rows] == ["bpm:6", "toroid:6"]
    assert found.note == "14,400 triggers in the ledger"
    assert api.asked == ["missing 7200", "missing 7200"]


async def test_an_instrument_is_found_by_a_part_of_its_name(hub: Hub, api: Answering) -> None:
    views = Shown(hub, api)
    assert views.find("  ") == []
    assert len(views.find("bpm")) == shown.FOUND_MOST
    assert views.find("M_017") == [{"value": "bpm:17", "label": "bpm_017 · bpm · ■ ok"}]
