"""The daemon's alarms: whether or not a page is open, changed by orders, and after a kill as they were."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from daemon.alarms import AlarmKeeper, keeper
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from schemas.api.status import Status
from tests.page.served import snapshot
from tests.support.pipelines import eventually
from tests.support.processes import GROUP, LISTENERS, Daemon, running, until

QUIET = "[alarms]\nquiet_s = 0.2\n"


def keeper_in(folder: Path, status: Callable[[], Status]) -> tuple[AlarmKeeper, Events]:
    events = Events()
    return AlarmKeeper(folder, Outside.real(), events, status), events


async def test_what_is_ordered_holds_and_is_an_event_and_what_is_not_in_force_changes_nothing(tmp_path: Path) -> None:
    ill = {"available": False, "problem": "connection refused", "states": {"bpm": {"3": "s"}}}
    kept, events = keeper_in(tmp_path, lambda: snapshot(1, time.time_ns(), **ill))
    kept.look()
    with pytest.raises(keeper.NotInForce, match="'nothing'"):
        await kept.acknowledge(["store", "nothing"])
    assert [alarm.attention for alarm in kept.statuses()] == ["new", "new"]
    await kept.shelve("instruments", 3600)
    await kept.acknowledge()
    assert {alarm.key: alarm.attention for alarm in kept.statuses()} == {
        "store": "acknowledged",
        "instruments": "shelved",
    }
    assert [event.text for event in events.newest()] == [
        "alarm acknowledged: Database away: connection refused",
        "alarm shelved for 60 min: Instruments: 1 silent for more than 2 s",
    ]
    await kept.reactivate("instruments")
    assert {alarm.key: alarm.attention for alarm in kept.statuses()}["instruments"] == "new"


async def test_alarms_are_events_and_what_comes_and_goes_is_counted(tmp_path: Path) -> None:
    """Not what was over at once, unless it came again; of a repeat that was long there is an event all the same."""
    short, medium, long = ([*[p99] * seconds, *[5.0] * 4] for p99, seconds in ((50.0, 1), (400.0, 12), (30.0, 90)))
    p99s = [*short, *short, *medium, *short, *medium, *long, *medium, *medium, *[5.0] * 700, *short, *[5.0] * 700]
    seconds = iter(range(10_000))
    kept, events = keeper_in(
        tmp_path, lambda: snapshot(1, (at := next(seconds)) * 10**9, p99=[*p99s, *medium, *short][at], wave=False)
    )
    for _ in range(len(p99s) + len(medium) + len(short)):
        kept.look()
    what = "Commit p99 over its budget of 20 ms: bpm"
    assert [(event.severity, event.text) for event in reversed(events.newest())] == [
        ("warning", f"alarm raised: {what} 400 ms (and 2 times in 20 s before)"),
        ("info", f"alarm cleared after 11 s: {what} 400 ms"),
        ("warning", f"alarm raised: {what} 30 ms (and 2 times in 81 s, for 11 s in all before)"),
        ("info", f"alarm cleared after 89 s: {what} 30 ms"),
        ("info", f"alarm came 2 times in 10 min, for 22 s in all: {what} 400 ms"),
        ("warning", f"alarm raised: {what} 400 ms"),
        ("info", f"alarm cleared after 11 s: {what} 400 ms"),
    ]


async def test_what_was_counted_is_written_when_the_daemon_ends(tmp_path: Path) -> None:
    p99s = iter([50.0, *[5.0] * 4] * 3)
    seconds = iter(range(100))
    kept, events = keeper_in(tmp_path, lambda: snapshot(1, next(seconds) * 10**9, p99=next(p99s), wave=False))
    for _ in range(14):
        kept.look()
    running = asyncio.create_task(kept.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    (event,) = events.newest()
    assert event.text.startswith("alarm came 3 times in 14 s: Commit p99 over its budget")


async def test_a_defect_in_the_judging_is_one_event_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "LOOK_EVERY_S", 0.01)
    asked = 0

    def status() -> Status:
        nonlocal asked
        asked += 1
        if asked < 5:
            raise ZeroDivisionError("division by zero")
        return snapshot(1, time.time_ns(), available=False)

    kept, events = keeper_in(tmp_path, status)
    running = asyncio.create_task(kept.run())
    await eventually(lambda: [alarm.key for alarm in kept.statuses()] == ["store"])
    running.cancel()
    await asyncio.wait([running])
    back, event = events.newest()
    assert event.text.startswith("alarms: not available (ZeroDivisionError: division by zero)")
    assert back.text == "alarms: available again, after 4 failures"


@pytest.mark.slow
def test_a_daemon_has_alarms_without_a_page_and_after_a_kill_they_are_as_people_left_them(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(GROUP + LISTENERS.format(api=0) + QUIET)

    def alarms(daemon: Daemon) -> dict[str, Any]:
        return {alarm["key"]: alarm for alarm in daemon.status()["alarms"]}

    def order(daemon: Daemon, way: str, **body: Any) -> httpx.Response:
        token = (tmp_path / "state" / "api-token").read_text().strip()
        address, headers = f"{daemon.api}/api/v1/alarms/{way}", {"authorization": f"Bearer {token}"}
        return httpx.post(address, json=body, headers=headers, trust_env=False, timeout=60)

    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        until(lambda: alarms(daemon).keys() == {"stale", "instruments"}, "both alarms are in the status")
        order(daemon, "acknowledge", keys=["stale"]).raise_for_status()
        order(daemon, "shelve", key="instruments", for_s=3600).raise_for_status()
        metrics = httpx.get(f"{daemon.api}/metrics", trust_env=False, timeout=60).text
        assert 'triggerlog_alarms{severity="warning"} 1.0' in metrics
        assert order(daemon, "reactivate", key="store").json()["detail"] == "the alarm 'store' is not in force"
        before = alarms(daemon)
        run.process.kill()  # without a chance to save anything
        run.ended()
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        until(lambda: alarms(daemon).keys() == {"stale", "instruments"}, "both alarms are back")
        after = alarms(daemon)
        assert after["stale"]["acknowledged_ns"] == before["stale"]["acknowledged_ns"]
        assert after["stale"]["since_ns"] == before["stale"]["since_ns"]
        assert after["instruments"]["shelved_until_ns"] == before["instruments"]["shelved_until_ns"]
        assert run.end() == 0
