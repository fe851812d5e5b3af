import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.server import ServerConnection, serve

from backends.ending import end_tasks
from dashboard import app
from dashboard.feed.client import Daemon, DaemonApi, DaemonUnavailable, StatusStream
from dashboard.feed.groups import WHOLE
from dashboard.feed.hub import BRIEF, QUEUE, Hub, Viewer
from schemas.api.marks import Marks, MarksStatus
from schemas.api.readings import GroupDescription
from schemas.api.status import Status
from schemas.marks import Mark
from tests.page.served import snapshot
from tests.support.pipelines import eventually

NOW_NS = time.time_ns()


def at(sequence: int, **changes: Any) -> Status:
    return snapshot(sequence, NOW_NS + sequence * 250_000_000, **changes)


def hub_at(sequence: int) -> Hub:
    hub = Hub(daemon="http://127.0.0.1:1", build="b")
    for k in range(1, sequence + 1):
        hub.take(at(k))
    return hub


async def received(viewer: Viewer) -> dict[str, Any]:
    return dict(json.loads(await viewer.next()))


async def test_a_new_browser_is_told_everything_and_then_what_changes() -> None:
    hub = hub_at(20)
    viewer = hub.join(epoch=None, sequence=None)
    first = await received(viewer)
    assert first["kind"] == "snapshot"
    assert first["sequence"] == 20
    assert len(first["history"]["bpm"][0]) == 20
    assert first["sections"]["states/bpm"] == "o" * 120
    hub.take(at(21, states={"bpm": {"5": "m"}}))
    frame = await received(viewer)
    assert (frame["kind"], frame["sequence"]) == ("frame", 21)
    assert frame["changed"]["states/bpm"][5] == "m"
    assert "store" not in frame["changed"]


async def test_of_many_groups_a_new_browser_gets_the_last_minute_and_asks_for_the_rest() -> None:
    hub = Hub(daemon="http://127.0.0.1:1", build="b")
    for k in range(1, BRIEF + 20):
        hub.take(at(k, groups={f"sector{n}": 1 for n in range(9)}))
    told = await received(hub.join(epoch=None, sequence=None))
    lengths = {name: len(rows[0]) for name, rows in told["history"].items()}
    assert lengths == {WHOLE: BRIEF + 19} | {f"sector{n}": BRIEF for n in range(9)}
    assert told["brief"] == [f"sector{n}" for n in range(9)]
    assert len(json.loads(hub.history("sector3") or "")["history"][0]) == BRIEF + 19
    assert hub.history("other") is None


async def test_marks_travel_when_they_change_those_that_wait_for_the_database_among_them() -> None:
    hub = hub_at(1)
    viewer = hub.join(epoch=None, sequence=None)
    assert (await received(viewer))["sections"]["marks"] == {"all": [], "problem": None}
    stored, waits = (Mark(id=uuid4(), time_ns=NOW_NS + k, text=f"number {k}") for k in range(2))
    hub.marks = (stored,)
    hub.take(at(2))
    told = (await received(viewer))["changed"]["marks"]
    assert [(line["text"], line["waits"]) for line in told["all"]] == [("number 0", False)]
    hub.take(at(3))
    assert "marks" not in (await received(viewer))["changed"]
    waiting = MarksStatus(changes=2, waiting=1, waiting_marks=[waits], problem="no route to host")
    hub.take(at(4).model_copy(update={"marks": waiting}))
    told = (await received(viewer))["changed"]["marks"]
    assert [(line["text"], line["waits"]) for line in told["all"]] == [("number 0", False), ("number 1", True)]
    assert hub.known_marks == [(stored, False), (waits, True)]
    hub.marks_problem = "the daemon answered 503"
    hub.take(at(5).model_copy(update={"marks": waiting}))
    told = (await received(viewer))["changed"]["marks"]
    assert (len(told["all"]), told["problem"]) == (2, "the daemon answered 503")


class Following:
    """A status stream that gives one status."""

    def __init__(self, _: Daemon, *, on_status: Callable[[Status], None], on_loss: Callable[[str], None]) -> None:
        self._on_status = on_status

    async def run(self) -> None:
        while True:
            self._on_status(at(1))
            await asyncio.sleep(0.01)


class WithoutMarks(DaemonApi):
    """An API that cannot list marks at first."""

    def __init__(self) -> None:
        super().__init__(Daemon(url="http://127.0.0.1:1"))
        self.problem: str | None = "the daemon answered 503: the store does not answer"

    async def marks(self, *, last: int) -> Marks:
        if self.problem is not None:
            raise DaemonUnavailable(self.problem)
        return Marks(marks=[], cut=False)

    async def group(self, name: str) -> GroupDescription:
        return GroupDescription(name=name, instruments=[], channels=[], record_bytes=20)


async def test_marks_that_cannot_be_listed_are_logged_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "StatusStream", Following)
    monkeypatch.setattr(app, "NAMES_AGAIN_S", 0.01)
    hub, api = Hub(daemon="http://127.0.0.1:1", build="b"), WithoutMarks()
    with caplog.at_level(logging.WARNING):
        feeding = asyncio.create_task(app.Feed(hub, api).run())
        await eventually(lambda: hub.marks_problem == api.problem)
        assert f"the newest marks are not known: {api.problem}" in caplog.text
        api.problem = None
        await eventually(lambda: hub.marks_problem is None)
        await end_tasks(feeding)


async def test_a_status_that_the_page_fails_at_is_lost_and_the_next_is_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, taken = hub_at(0), asyncio.Event()

    def take(status: Status) -> None:
        if status.sequence < 3:
            raise ZeroDivisionError("division by zero")
        hub.take(status)
        taken.set()

    async def give(socket: ServerConnection) -> None:
        for sequence in (1, 2, 3):
            await socket.send(at(sequence).model_dump_json())
        await socket.wait_closed()

    problems: list[str] = []
    async with serve(give, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        stream = asyncio.create_task(StatusStream(Daemon(url=url), on_status=take, on_loss=problems.append).run())
        try:
            await asyncio.wait_for(taken.wait(), 30)
        finally:
            await end_tasks(stream)
    assert (
        problems
        == ["the page cannot show its status (ZeroDivisionError: division by zero), see the log of the page"] * 2
    )
    (record,) = caplog.records
    assert record.exc_info is not None
    assert hub.status is not None


async def test_all_browsers_get_one_and_the_same_text() -> None:
    hub = hub_at(3)
    viewers = [hub.join(epoch=None, sequence=None) for _ in range(3)]
    for viewer in viewers:
        await viewer.next()
    hub.take(at(4))
    texts = [await viewer.next() for viewer in viewers]
    assert all(text is texts[0] for text in texts)


async def test_a_browser_that_comes_back_soon_gets_what_it_missed() -> None:
    hub = hub_at(20)
    status = at(17)
    viewer = hub.join(epoch=status.epoch, sequence=17)
    assert [(await received(viewer))["sequence"] for _ in range(3)] == [18, 19, 20]


async def test_a_browser_that_comes_back_late_or_from_another_epoch_gets_a_snapshot() -> None:
    hub = hub_at(QUEUE + 20)
    status = at(1)
    for epoch, sequence in ((status.epoch, 1), (status.epoch + 1, QUEUE + 19), (status.epoch, 10**6)):
        assert (await received(hub.join(epoch=epoch, sequence=sequence)))["kind"] == "snapshot"


async def test_a_slow_browser_gets_a_snapshot_instead_of_its_backlog() -> None:
    hub = hub_at(1)
    slow, quick = hub.join(epoch=None, sequence=None), hub.join(epoch=None, sequence=None)
    for k in range(2, QUEUE + 30):
        hub.take(at(k))
        await quick.next()
    first = await received(slow)
    assert first["kind"] == "snapshot"
    newest = first["sequence"]
    while newest < QUEUE + 29:
        newest += 1
        assert (await received(slow))["sequence"] == newest


async def test_browsers_hear_that_the_daemon_is_gone_since_its_last_word_and_that_it_is_back() -> None:
    hub = hub_at(2)
    viewer = hub.join(epoch=None, sequence=None)
    await viewer.next()
    before = time.time() * 1e3
    hub.lost("connection refused")
    told = (await received(viewer))["link"]
    assert told["up"] is False
    assert told["problem"] == "connection refused"
    assert told["since"] <= before + 1
    hub.lost("no route to host")
    assert (await received(viewer))["link"]["since"] == told["since"]
    assert (await received(hub.join(epoch=None, sequence=None)))["link"]["up"] is False
    hub.take(at(3))
    assert (await received(viewer))["kind"] == "frame"
    assert hub.problem is None


async def test_there_is_no_heartbeat_while_frames_come() -> None:
    hub = hub_at(2)
    viewer = hub.join(epoch=None, sequence=None)
    await viewer.next()
    hub.beat()
    hub.take(at(3))
    assert (await received(viewer))["kind"] == "frame"


async def test_a_page_that_never_heard_the_daemon_says_so() -> None:
    hub = Hub(daemon="http://127.0.0.1:1", build="b")
    first = await received(hub.join(epoch=None, sequence=None))
    assert first["link"] == first["link"] | {"up": False, "problem": "not reached yet", "daemon": "http://127.0.0.1:1"}
    assert first["history"] == {}


@pytest.mark.parametrize("ahead_s", [-3600, 0, 3600])
async def test_the_age_of_a_frame_does_not_depend_on_whose_clock_is_wrong(ahead_s: int) -> None:
    hub = Hub(daemon="http://127.0.0.1:1", build="b")
    ahead_ns = ahead_s * 1_000_000_000
    hub.take(snapshot(1, time.time_ns() + ahead_ns))
    viewer = hub.join(epoch=None, sequence=None)
    await viewer.next()
    hub.take(snapshot(2, time.time_ns() + ahead_ns))
    assert (await received(viewer))["lag"] < 60_000
    sent_ns = time.time_ns() + ahead_ns
    await asyncio.sleep(0.4)
    hub.take(snapshot(3, sent_ns))
    assert 300 <= (await received(viewer))["lag"] < 60_000


@pytest.mark.parametrize("step_s", [-3600, 3600])
async def test_frames_do_not_grow_old_where_the_page_s_clock_is_set(
    step_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = hub_at(1)
    before_s = time.time()
    monkeypatch.setattr(time, "time", lambda: before_s + step_s)
    assert 0 <= (await received(hub.join(epoch=None, sequence=None)))["lag"] < 60_000
    viewer = hub.join(epoch=None, sequence=None)
    await viewer.next()
    hub.take(at(2))
    assert (await received(viewer))["lag"] < 60_000


async def test_history_outlives_a_restart_of_the_daemon() -> None:
    hub = hub_at(10)
    restarted = at(40).model_copy(update={"epoch": 7, "sequence": 1})
    hub.take(restarted)
    first = await received(hub.join(epoch=None, sequence=None))
    assert first["epoch"] == "7"
    times, rates = first["history"]["bpm"][:2]
    assert len(times) == 12
    assert rates[10] is None
