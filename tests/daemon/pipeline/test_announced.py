"""daemon.pipeline.announced: a restart that was announced is followed once, whichever process finds it."""

import copy
import errno
from pathlib import Path

import pytest

import daemon.pipeline.announced as announced_module
from daemon.pipeline.announced import ANNOUNCED
from schemas.readings import Array
from schemas.wire import Ack
from tests.daemon.pipeline.intake.test_intake import GROUP, Life, killed, living, new_store
from tests.support.disks import FaultyDisk, faulty
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually
from tests.support.readings import time_of, whole

HOUR_NS = 3_600_000_000_000
FULL = OSError(errno.ENOSPC, "no space left on device")
OLD, NEW = [1, 2, 3, 4], [1, 2, 3]
FOLLOWED = {1: OLD, 2: NEW}


def behind(*triggers: int) -> Array:
    """Triggers of a timing system that was restarted: their times are those of an hour ago."""
    return whole(GROUP, *triggers, when=lambda trigger: time_of(trigger) - HOUR_NS)


async def runs_in(store: MemoryStore) -> dict[int, list[int]]:
    """The triggers that are stored, by run; all of them are complete."""
    (kept,) = store._groups.values()
    found: dict[int, list[int]] = {}
    for row in kept.rows():
        assert row["arrived"] == GROUP.size
        found.setdefault(int(row["run"]), []).append(int(row["trigger"]))
    return found


async def commit(life: Life, block: Array) -> None:
    """Take whole triggers of a sender without a session, and wait until all of them are stored."""
    life.intake.receive(block.copy())
    await eventually(lambda: not life.pipeline._assembly.open and not life.pipeline.waiting.blocks)


async def receive(life: Life, block: Array, session: int) -> None:
    """Take readings until the intake's log has them."""
    column = life.join(Ack.RECEIVED, session).column
    life.send(column, 0, block)
    await life.acknowledged(column, len(block))


@pytest.mark.parametrize("epoch", [0, 41])
async def test_it_is_followed_by_the_process_that_starts_after_a_kill_and_by_no_other(
    tmp_path: Path, epoch: int
) -> None:
    store = new_store()
    async with living(tmp_path / "first", store) as life:
        await commit(life, whole(GROUP, *OLD))
        assert await life.announce(epoch) == (2 if epoch else None)
        folder = killed(life, tmp_path / "second")
    async with living(folder, store) as life:
        folder = killed(life, tmp_path / "third")  # it was followed, and nothing came
    async with living(folder, store) as life:
        await commit(life, behind(1, 2))
        folder = killed(life, tmp_path / "fourth")
    for again in ("fifth", "sixth"):
        async with living(folder, store) as life:
            await commit(life, behind(*NEW))
            assert life.pipeline.begun == 2
            folder = killed(life, tmp_path / again)
    assert await runs_in(store) == FOLLOWED


@pytest.mark.parametrize("is_killed", [False, True])
async def test_what_was_received_before_it_does_not_begin_the_run(tmp_path: Path, is_killed: bool) -> None:
    """The database has not answered, and the intake's log has all."""
    store = new_store()
    async with living(tmp_path / "first", store) as life:
        await commit(life, whole(GROUP, 1, 2))
        folder = killed(life, tmp_path / "second")
    async with living(folder) as life:
        await receive(life, whole(GROUP, 3, 4), session=1)
        assert await life.announce() is None
        if not is_killed:
            await receive(life, behind(*NEW), session=2)
            await life.meet(store)
            await life.until_empty()
        folder = killed(life, tmp_path / "third")
    async with living(folder) as life:
        if is_killed:
            await receive(life, behind(*NEW), session=2)
        folder = killed(life, tmp_path / "fourth")
    async with living(folder, store) as life:
        await life.until_empty()
    assert await runs_in(store) == FOLLOWED


async def test_it_has_its_place_in_what_comes_while_the_log_is_caught_up_with(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path) as life:
        await receive(life, whole(GROUP, 1, 2), session=1)
        keeper, came = life.intake._keeper, []
        read = keeper.read

        async def read_and_take(most: int) -> list:
            found = await read(most)
            if not found and not came:
                came.append(True)
                await receive(life, whole(GROUP, 3, 4), session=2)
                assert await life.announce() is None
                await receive(life, behind(*NEW), session=3)
            return found

        keeper.read = read_and_take
        await life.meet(store)
        await life.until_empty()
    assert came
    assert await runs_in(store) == FOLLOWED


async def test_a_log_that_begins_anew_has_its_records_behind_it(tmp_path: Path) -> None:
    """If the log is empty at a start, its records would be numbered from 1 on."""
    store = new_store()
    async with living(tmp_path / "first", store) as life:
        for trigger in OLD:
            await receive(life, whole(GROUP, trigger), session=trigger)
        await life.until_empty()
        await life.announce()
        assert life.intake.last_record > 4
        folder = killed(life, tmp_path / "second")
    async with living(folder) as life:
        await receive(life, behind(1), session=11)
        folder = killed(life, tmp_path / "third")
    async with living(folder) as life:
        await receive(life, behind(2, 3), session=12)
        await life.meet(store)
        await life.until_empty()
    assert await runs_in(store) == FOLLOWED


async def test_those_that_no_reading_follows_are_one(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path / "first", store) as life:
        await commit(life, whole(GROUP, *OLD))
        await life.announce()
        await life.announce()
        folder = killed(life, tmp_path / "second")
    async with living(folder) as life:
        await life.announce()
        await life.meet(store)
        await life.announce(41)
        folder = killed(life, tmp_path / "third")
    async with living(folder, store) as life:
        await commit(life, behind(*NEW))
    assert await runs_in(store) == FOLLOWED


async def test_each_is_followed_where_readings_came_between_them(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path / "first") as life:
        await receive(life, whole(GROUP, *OLD), session=1)
        await life.announce()
        await receive(life, behind(*NEW), session=2)
        await life.announce()
        folder = killed(life, tmp_path / "second")
    async with living(folder) as life:
        await receive(life, whole(GROUP, 7, 8, when=lambda trigger: time_of(trigger) - 2 * HOUR_NS), session=3)
        await life.meet(store)
        await life.until_empty()
        folder = killed(life, tmp_path / "third")
    async with living(folder, store) as life:
        assert life.pipeline.begun == 3
    assert await runs_in(store) == {**FOLLOWED, 3: [7, 8]}


async def test_a_group_without_a_run_begins_its_first(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path / "first", store) as life:
        await life.announce()
        folder = killed(life, tmp_path / "second")
    async with living(folder, store) as life:
        await commit(life, whole(GROUP, 1, 2))
        folder = killed(life, tmp_path / "third")
    async with living(folder, store) as life:
        await commit(life, whole(GROUP, 3, 4))
    assert await runs_in(store) == {1: OLD}


async def test_a_database_that_was_put_back_before_the_run_has_it_begin_again(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path / "first", store) as life:
        await commit(life, whole(GROUP, *OLD))
        backup = copy.deepcopy(store._groups)
        await life.announce()
        await commit(life, behind(9, 10))
        folder = killed(life, tmp_path / "second")
    store._groups = backup
    async with living(folder, store) as life:
        await commit(life, behind(11, 12))
    assert await runs_in(store) == {1: OLD, 2: [11, 12]}


@pytest.mark.parametrize("operation", ["replace", "sync_folder"])
async def test_what_the_disk_does_not_take_is_announced_to_nobody(tmp_path: Path, operation: str) -> None:
    store, disk = new_store(), FaultyDisk()
    async with living(tmp_path / "first", store, faulty(disk)) as life:
        await commit(life, whole(GROUP, 1, 2))
        disk.failing[operation] = FULL
        with pytest.raises(OSError, match="no space left"):
            await life.announce()
        disk.failing.clear()
        await commit(life, whole(GROUP, 3))
        folder = killed(life, tmp_path / "second")
    async with living(folder, store) as life:
        await commit(life, whole(GROUP, 4))
    assert await runs_in(store) == {1: OLD}


async def test_a_place_that_cannot_be_noted_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crash after the run has begun would have it begin twice."""
    monkeypatch.setattr(announced_module, "AGAIN_S", 0.02)
    store, disk = new_store(), FaultyDisk()
    async with living(tmp_path / "first", store) as life:
        await commit(life, whole(GROUP, *OLD))
        folder = killed(life, tmp_path / "second")
    async with living(folder, outside=faulty(disk)) as life:
        await life.announce()
        await receive(life, behind(*NEW), session=1)
        disk.failing["replace"] = FULL
        disk.before = lambda operation, path: disk.calls[operation] > 3 and disk.failing.clear()
        await life.meet(store)
        await life.until_empty()
        (said,) = [event.text for event in life.events.newest() if "cannot be written" in event.text]
        assert said.startswith(f"group bpm: {folder / ANNOUNCED} cannot be written, so a restart")
        folder = killed(life, tmp_path / "third")
    async with living(folder, store) as life:
        assert life.pipeline.begun == 2
        await commit(life, behind(*NEW))
    assert await runs_in(store) == FOLLOWED


async def test_an_epoch_that_turns_out_to_be_over_is_reported(tmp_path: Path) -> None:
    store = new_store()
    async with living(tmp_path / "first", store) as life:
        for epoch in range(41, 61):
            block = whole(GROUP, 1)
            block["epoch"] = epoch
            await commit(life, block)
        folder = killed(life, tmp_path / "second")
    async with living(folder) as life:
        assert await life.announce(41) is None
        await life.meet(store)
        assert "group bpm: epoch 41, which was announced, is over: it was run 1; announce the epoch that" in "".join(
            event.text for event in life.events.newest()
        )
        await commit(life, whole(GROUP, 2))
    assert (await runs_in(store))[20] == [1, 2]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"version": 1, "announcements": [{"epoch": 0',
        b'{"version": 1, "announcements": [{"epoch": 4294967296, "groups": {}}]}',
        b'{"version": 1, "announcements": [{"epoch": 0, "groups": {"bpm": {"after_record": 9223372036854775808,'
        b' "after_run": 1}}}]}',
    ],
)
async def test_a_damaged_file_is_reported_and_stops_nothing(tmp_path: Path, content: bytes) -> None:
    store = new_store()
    (tmp_path / ANNOUNCED).write_bytes(content)
    async with living(tmp_path, store) as life:
        assert f"{tmp_path / ANNOUNCED} cannot be used (it is damaged)" in life.events.newest()[-1].text
        await commit(life, whole(GROUP, *OLD))
        await life.announce()
        await commit(life, behind(*NEW))
    assert await runs_in(store) == FOLLOWED
