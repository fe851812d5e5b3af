"""Orders as events: what was done, from where, once."""

import asyncio
import errno
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch
from uuid import uuid4

import pytest

from daemon.core.monitoring.events import Events
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.dead_letters import Outcome
from daemon.pipeline.files import Amount
from daemon.pipeline.intake import open_intake
from dashboard.feed.client import Daemon, DaemonApi
from tests.daemon.api.test_api import CONFIG, GROUP, SHORT, WITH_TOKEN, Served, facts, served
from tests.support.disks import REAL, FaultyDisk, faulty


def texts(api: Served) -> list[str]:
    """Of the events, oldest first."""
    return [event.text for event in reversed(api.logger.events.newest())]


async def test_each_order_is_one_event_with_what_was_done_and_from_where(tmp_path: Path) -> None:
    async with served(folder=tmp_path) as api:
        await api.commit(1, 2, 3)
        api.report.answered(facts(SHORT))
        api.service.alarms.look()
        before = len(texts(api))
        mark = {"id": str(uuid4()), "time_ns": time.time_ns(), "text": "beam study began", "author": "A. Operator"}
        for path, body in (
            ("run?epoch=41", None),
            ("marks", mark),
            ("dead-letters/discard?group=bpm", None),
            ("alarms/acknowledge", {}),
        ):
            answer = await api.client.post(f"/api/v1/{path}", json=body, headers=WITH_TOKEN)
            assert answer.is_success, answer.text
        assert (await api.client.delete(f"/api/v1/marks/{mark['id']}", headers=WITH_TOKEN)).is_success
        assert texts(api)[before:] == [
            "group bpm: a restart was announced; run 2 has its epoch (ordered from 127.0.0.1)",
            "mark made: beam study began (A. Operator) (ordered from 127.0.0.1)",
            "order carried out: POST /api/v1/dead-letters/discard?group=bpm (ordered from 127.0.0.1)",
            "alarm acknowledged: Durability sync is not kept (bpm): NOT durable: nothing is written down"
            " (ordered from 127.0.0.1)",
            f"mark withdrawn: {mark['id']} (ordered from 127.0.0.1)",
        ]


class Letters:
    """Of a group: what of its dead letters discarding asks."""

    def __init__(self, *, is_retrying: bool) -> None:
        self.retried = Outcome(running=is_retrying)
        self.is_discarded = False

    async def discard(self) -> Amount:
        self.is_discarded = True
        return Amount()


async def test_discarding_is_refused_before_anything_is_gone(tmp_path: Path) -> None:
    async with served(folder=tmp_path) as api:
        letters = {"bpm": Letters(is_retrying=False), "toroid": Letters(is_retrying=True)}
        groups = {name: SimpleNamespace(letters=each) for name, each in letters.items()}
        with patch.dict(api.logger.pipelines, groups, clear=True):
            answer = await api.client.post("/api/v1/dead-letters/discard", headers=WITH_TOKEN)
        assert (answer.status_code, answer.json()["detail"]) == (
            409,
            "dead letters of group 'toroid' are being retried",
        )
        assert not letters["bpm"].is_discarded


async def test_an_epoch_that_is_over_is_refused_and_said_to_be(tmp_path: Path) -> None:
    async with served(folder=tmp_path) as api:
        for epoch in range(100, 112):
            assert (await api.client.post(f"/api/v1/run?epoch={epoch}", headers=WITH_TOKEN)).json() == {
                "bpm": epoch - 99
            }
        before = texts(api)
        answer = await api.client.post("/api/v1/run?epoch=101", headers=WITH_TOKEN)
        assert answer.status_code == 409, answer.text
        assert answer.json() == {
            "detail": "epoch 101 is over in group 'bpm': it was run 2",
            "field": "epoch",
            "fix": "announce the epoch that the timing system has now, or leave it out where nobody knows it",
        }
        assert (texts(api), api.logger.pipelines["bpm"]._assembly.run) == (before, 12)


async def test_a_restart_is_accepted_before_the_database_answers_and_refused_before_the_intakes_are_open(
    tmp_path: Path,
) -> None:
    async with served(folder=tmp_path) as api:
        intake = await open_intake(GROUP, CONFIG, tmp_path, api.logger.events, outside=REAL)
        with patch.dict(api.logger.pipelines, clear=True), patch.dict(api.logger.intakes, {"bpm": intake}):
            answer = await api.client.post("/api/v1/run?epoch=41", headers=WITH_TOKEN)
            assert (answer.status_code, answer.json()) == (200, {"bpm": None})
            assert texts(api)[-1] == "order carried out: POST /api/v1/run?epoch=41 (ordered from 127.0.0.1)"
            api.logger.intakes.clear()
            answer = await api.client.post("/api/v1/run", headers=WITH_TOKEN)
            assert (answer.status_code, answer.json()["detail"]) == (503, "the daemon is starting")


async def test_a_restart_that_cannot_be_written_down_is_refused_with_the_fix(tmp_path: Path) -> None:
    async with served(folder=tmp_path) as api:
        disk = FaultyDisk()
        disk.failing["replace"] = OSError(errno.EIO, "input/output error")
        with patch.object(api.service, "announced", AnnouncedRuns(tmp_path, faulty(disk), api.logger.events)):
            answer = await api.client.post("/api/v1/run", headers=WITH_TOKEN)
        assert (answer.status_code, answer.json()) == (
            500,
            {
                "detail": "nothing is announced, since it cannot be written to the state folder: input/output error",
                "fix": "look for errors of its disk (`dmesg`), and replace the disk",
            },
        )
        assert api.logger.pipelines["bpm"]._assembly.begun == 0


async def test_what_is_asked_and_what_is_refused_is_no_event(tmp_path: Path) -> None:
    async with served(folder=tmp_path) as api:
        before = texts(api)
        assert (await api.client.get("/api/v1/status")).status_code == 200
        assert (await api.client.post("/api/v1/run?epoch=41")).status_code == 401
        assert (await api.client.post("/api/v1/run?epoch=x", headers=WITH_TOKEN)).status_code == 422
        refused = await api.client.post("/api/v1/dead-letters/retry?group=bmp", headers=WITH_TOKEN)
        assert refused.status_code == 404
        assert texts(api) == before


@pytest.mark.parametrize(
    ("forwarded", "origin"),
    [
        ("10.1.2.3", "10.1.2.3 by way of 127.0.0.1"),
        ("10.9.9.9, 10.1.2.3", "10.1.2.3 by way of 127.0.0.1"),
        ("fe80::1", "fe80::1 by way of 127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("nobody) the database is away", "127.0.0.1"),
        (None, "127.0.0.1"),
    ],
)
async def test_an_order_that_the_page_passed_on_names_the_browser(
    forwarded: str | None, origin: str, tmp_path: Path
) -> None:
    async with served(folder=tmp_path) as api:
        page = DaemonApi(Daemon(url=api.url))
        token = WITH_TOKEN["authorization"]
        answer = await page.order("POST", "/run", body=None, authorization=token, client=forwarded)
        await page.close()
        assert answer.status_code == 200, answer.text
        assert texts(api)[-1].endswith(f" (ordered from {origin})")


async def test_a_proxy_that_is_trusted_is_not_named(tmp_path: Path) -> None:
    async with served(folder=tmp_path, proxies=("127.0.0.1",)) as api:
        headers = WITH_TOKEN | {"x-forwarded-for": "10.1.2.3"}
        assert (await api.client.post("/api/v1/run", headers=headers)).status_code == 200
        assert texts(api)[-1].endswith(" (ordered from 10.1.2.3)")


async def test_what_an_order_started_is_not_its_doing_for_ever() -> None:
    events, goes_on = Events(), asyncio.Event()

    async def work() -> None:
        await goes_on.wait()
        events.info("it has ended")

    with events.ordered("here"):
        working = asyncio.create_task(work())
        events.info("it starts")
        events.warning("the disk is slow")
    goes_on.set()
    await working
    told = [event.text for event in events.newest()]
    assert told == ["it has ended", "the disk is slow", "it starts (ordered from here)"]
