"""What the intake refuses, loses or cannot keep while the database has not answered is told, and counted once."""

import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.core.monitoring.events import Events
from daemon.pipeline.intake import Intake, open_intake
from daemon.pipeline.log import folder_of, readings_in
from tests.daemon.pipeline.intake.test_intake import CONFIG, GROUP, living, new_store
from tests.support.disks import REAL, FaultyDisk, faulty
from tests.support.pipelines import eventually
from tests.support.readings import whole

FULL = OSError(errno.ENOSPC, "no space left on device")
UNKEPT = "readings that came since the start are not in the journal, and nowhere else"


@asynccontextmanager
async def taking(folder: Path, disk: FaultyDisk) -> AsyncIterator[Intake]:
    intake = await open_intake(GROUP, CONFIG, folder, Events(), outside=faulty(disk))
    intake.start()
    try:
        yield intake
    finally:
        await intake.end()


def lines(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.message for record in caplog.records if words in record.message]


async def test_what_is_not_on_the_disk_yet_is_told_of_what_waits(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with taking(tmp_path, disk) as intake:
        intake.receive(whole(GROUP, 1))
        await eventually(lambda: not intake.unsynced)
        disk.failing["append"] = FULL
        intake.receive(whole(GROUP, 2, 3))
        await eventually(lambda: intake.state.problem is not None)
        assert (intake.waiting, intake.unsynced) == (3 * GROUP.size, 2 * GROUP.size)
        disk.failing.clear()
        await eventually(lambda: not intake.unsynced)
    assert readings_in(folder_of(tmp_path, "bpm"), REAL.disk) == 3 * GROUP.size


async def test_an_orderly_end_says_what_it_could_not_keep(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Datagrams that waited in memory for a full disk went without a word."""
    disk = FaultyDisk()
    async with taking(tmp_path, disk) as intake:
        intake.receive(whole(GROUP, 1))
        await eventually(lambda: not intake.unsynced)
        disk.failing["append"] = FULL
        intake.receive(whole(GROUP, 2, 3))
        intake.drop("backlog", 7)
        intake.note_lost(4, "datagrams")
    (line,) = lines(caplog, UNKEPT)
    assert line.startswith(f"group bpm: {2 * GROUP.size} {UNKEPT}")
    (line,) = lines(caplog, "while the database did not answer")
    assert line.endswith("7 refused (backlog), 4 lost on their way (datagrams)")


async def test_an_orderly_end_that_kept_all_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with taking(tmp_path, FaultyDisk()) as intake:
        intake.receive(whole(GROUP, 1, 2))
    assert readings_in(folder_of(tmp_path, "bpm"), REAL.disk) == 2 * GROUP.size
    assert not lines(caplog, "group bpm")


async def test_that_readings_are_refused_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with taking(tmp_path, FaultyDisk()) as intake:
        for _ in range(100):
            intake.drop("backlog", 5)
        assert intake.losses.dropped == {"backlog": 500}
        (line,) = lines(caplog, "readings are refused (backlog)")
        assert line.startswith("group bpm: ")


async def test_what_was_refused_and_lost_is_the_pipelines_from_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with living(tmp_path) as life:
        life.intake.drop("backlog", 7)
        life.intake.note_lost(4, "datagrams")
        life.intake.note_lost(-1, "datagrams")
        assert (life.intake.losses.dropped, life.intake.losses.lost) == ({"backlog": 7}, {"datagrams": 3})
        await life.meet(new_store())
        figures = life.pipeline.figures()
        assert (figures.dropped, figures.lost_before) == ({"backlog": 7}, {"datagrams": 3})
        life.intake.drop("backlog", 1)
        assert life.pipeline.figures().dropped == {"backlog": 8}
    assert lines(caplog, "refused") == [line for line in lines(caplog, "refused") if "are refused (backlog)" in line]
