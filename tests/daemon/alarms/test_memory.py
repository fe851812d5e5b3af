"""Acknowledged and shelved alarms over a restart of the daemon."""

import asyncio
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from daemon.alarms import AlarmBoard, MemoryFile
from daemon.alarms.board import AWAY_MOST_S, FILE, RETURNS_WITHIN_S, Memory
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from schemas.api.alarms import AlarmStatus
from schemas.api.status import Status
from tests.page.served import snapshot

NOW_NS = time.time_ns()
SILENT = {"states": {"bpm": {"3": "s", "4": "s"}}}


def status(*, at_s: float = 0.0, **changes: Any) -> Status:
    return snapshot(100, NOW_NS + int(at_s * 1e9), **changes)


def attention(told: list[AlarmStatus]) -> dict[str, str]:
    return {alarm.key: alarm.attention for alarm in told}


def acknowledged(key: str, **changes: Any) -> Memory:
    """What a board remembers that ended after somebody acknowledged an alarm."""
    board = AlarmBoard()
    board.update(status(**changes))
    board.acknowledge(key)
    return board.memory()


async def over_a_restart(memory: Memory, folder: Path) -> AlarmBoard:
    await file_in(folder).save(memory)
    return AlarmBoard(await file_in(folder).load())


def file_in(folder: Path) -> MemoryFile:
    return MemoryFile(folder, Outside.real(), Events())


async def test_an_acknowledgement_holds_for_the_alarm_that_has_gone_on(tmp_path: Path) -> None:
    board = await over_a_restart(acknowledged("instruments", **SILENT), tmp_path)
    (told,) = board.update(status(at_s=60.0, **SILENT))
    assert told.attention == "acknowledged"
    assert told.since_ns / 1e6 == pytest.approx(NOW_NS / 1e6, abs=1)
    assert told.acknowledged_ns / 1e6 == pytest.approx(NOW_NS / 1e6, abs=1)
    more = {"states": {"bpm": {str(i): "s" for i in range(4)}}}
    assert attention(board.update(status(at_s=60.0 + RETURNS_WITHIN_S, **more))) == {"instruments": "new"}


async def test_an_alarm_that_is_worse_after_the_restart_is_new(tmp_path: Path) -> None:
    board = await over_a_restart(acknowledged("instruments", **SILENT), tmp_path)
    more = {"states": {"bpm": {str(i): "n" for i in range(4)}}}
    # A daemon that has just started has heard of none.
    assert attention(board.update(status(at_s=10.0, **more))) == {"instruments": "acknowledged"}
    assert attention(board.update(status(at_s=10.0 + RETURNS_WITHIN_S, **more))) == {"instruments": "new"}


def test_an_alarm_that_began_at_another_time_is_new_and_one_that_has_gone_on_is_not() -> None:
    memory = acknowledged("store", available=False, away_s=90.0)
    goes_on = AlarmBoard(memory).update(status(at_s=3600.0, available=False, away_s=3690.0))
    assert attention(goes_on) == {"store": "acknowledged"}
    another = AlarmBoard(memory).update(status(at_s=3600.0, available=False, away_s=30.0))
    assert attention(another) == {"store": "new"}


def test_where_the_beginning_is_not_known_the_restart_must_be_short_and_the_alarm_there_soon() -> None:
    memory = acknowledged("latency", p99=50.0, wave=False)
    late = AlarmBoard(memory).update(status(at_s=AWAY_MOST_S + 1, p99=50.0, wave=False))
    assert attention(late) == {"latency": "new"}
    board = AlarmBoard(memory)
    assert board.update(status(at_s=10.0)) == []
    assert board.memory().acknowledged.keys() == {"latency"}
    board.update(status(at_s=10.0 + RETURNS_WITHIN_S))
    assert board.memory().is_empty
    assert attention(board.update(status(at_s=50.0, p99=50.0, wave=False))) == {"latency": "new"}


async def test_a_shelf_holds_until_its_end(tmp_path: Path) -> None:
    before = AlarmBoard()
    before.update(status(p99=50.0))
    before.shelve("latency", 3600.0)
    board = await over_a_restart(before.memory(), tmp_path)
    assert attention(board.update(status(at_s=3500.0, p99=50.0))) == {"latency": "shelved"}
    assert attention(board.update(status(at_s=3601.0, p99=50.0))) == {"latency": "new"}


def test_what_was_kept_while_the_clock_was_ahead_hides_no_alarm() -> None:
    ahead = {"at_s": 365 * 86400.0, "p99": 50.0, "wave": False}
    before = AlarmBoard()
    before.update(status(**ahead))
    before.shelve("latency", 900)
    assert attention(AlarmBoard(before.memory()).update(status(p99=50.0, wave=False))) == {"latency": "shelved"}
    earlier = before.memory().model_copy(update={"saved_s": NOW_NS / 1e9})
    assert attention(AlarmBoard(earlier).update(status(p99=50.0, wave=False))) == {"latency": "new"}
    before.reactivate("latency")
    before.acknowledge("latency")
    (told,) = AlarmBoard(before.memory()).update(status(p99=50.0, wave=False))
    assert told.attention == "new"


def test_a_board_that_heard_nothing_yet_forgets_nothing() -> None:
    memory = acknowledged("latency", p99=50.0)
    assert AlarmBoard(memory).memory() == memory


@pytest.mark.parametrize("damaged", [b"", b'{"version": 1, "saved', b'{"version": 2}', b"\xff\xfe"])
async def test_a_damaged_file_is_one_warning_and_an_empty_board(
    damaged: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(damaged)
    file = file_in(tmp_path)
    assert (await file.load()).is_empty
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(tmp_path / FILE) in record.message
    await file.save(Memory())
    assert await file_in(tmp_path).load() == Memory()


async def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    file = file_in(tmp_path / "file" / "page")
    memory = acknowledged("latency", p99=50.0)
    await file.save(memory)
    await file.save(memory)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_disk_that_hangs_takes_one_write_at_a_time_and_the_last_one_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.core.process.kept_file.WRITE_MOST_S", 0.05)
    fsync, is_let, asked = os.fsync, threading.Event(), []

    def hang(descriptor: int) -> None:
        asked.append(descriptor)
        is_let.wait()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", hang)
    file, first = file_in(tmp_path), acknowledged("latency", p99=50.0)
    for _ in range(3):
        await file.save(first)
    hanging = len(asked)
    monkeypatch.setattr("daemon.core.process.kept_file.WRITE_MOST_S", 30)
    last = acknowledged("instruments", **SILENT)
    saving = asyncio.create_task(file.save(last))
    await asyncio.sleep(0.05)
    is_let.set()
    await saving
    assert hanging == 1
    assert len(caplog.records) == 1
    assert await file_in(tmp_path).load() == last


async def test_without_anything_to_keep_no_file_is_made(tmp_path: Path) -> None:
    file = file_in(tmp_path / "page")
    assert await file.load() == Memory()
    await file.save(Memory())
    assert not (tmp_path / "page").exists()
