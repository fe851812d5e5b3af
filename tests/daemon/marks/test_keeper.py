"""Orders about marks: answered when they are on the disk, and written when the database answers."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from backends.base import StoreError, StoreUnavailable
from backends.ending import end_tasks
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside, SystemDisk
from daemon.marks import MarkKeeper, MarkRefused, MarksNotKept
from daemon.marks.keeper import OrderFolder
from schemas.marks import Mark, MarksWithin
from tests.support.batches import by_group, group_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually

ALL = MarksWithin(start_ns=-(2**63), end_ns=2**63 - 1, most=100)
AWAY = StoreUnavailable("no route to host")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(by_group(group_of()))


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.marks.keeper.ANSWER_WITHIN_S", 0.5)
    monkeypatch.setattr("daemon.marks.keeper.RETRY_MOST_S", 0.25)


@asynccontextmanager
async def keeping(store: MemoryStore, folder: Path, events: Events | None = None) -> AsyncIterator[MarkKeeper]:
    keeper = MarkKeeper(store, folder, Outside.real(), events or Events())
    await keeper.open()
    writing = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        await end_tasks(writing)


def mark(text: str = "beam study began", **fields: Any) -> Mark:
    return Mark(**{"id": uuid4(), "time_ns": 5, "text": text} | fields)


def files(folder: Path) -> list[str]:
    return [path.name for path in (folder / "marks").iterdir()]


async def test_a_mark_goes_into_the_database_and_leaves_no_file(store: MemoryStore, tmp_path: Path) -> None:
    async with keeping(store, tmp_path) as keeper:
        first = mark()
        before = keeper.status().changes
        assert await keeper.keep(first)
        assert await keeper.keep(first)
        assert await store.marks(ALL) == [first] == await keeper.marks(ALL)
        assert files(tmp_path) == []
        assert keeper.status().changes > before
        assert keeper.status().waiting == 0


async def test_while_the_database_is_away_a_mark_waits_and_survives_a_restart(
    store: MemoryStore, tmp_path: Path
) -> None:
    first, events = mark(), Events()
    store.fail_with(AWAY)
    async with keeping(store, tmp_path, events) as keeper:
        assert not await keeper.keep(first)
        assert not await keeper.keep(first)
        status = keeper.status()
        assert (status.waiting, status.waiting_marks, status.problem) == (1, [first], "no route to host")
        with pytest.raises(StoreUnavailable):
            await keeper.marks(ALL)
    assert files(tmp_path) == [f"{first.id}.json"]
    assert sorted(event.severity for event in events.newest()) == ["info", "warning"]
    async with keeping(store, tmp_path) as keeper:
        assert keeper.status().waiting_marks == [first]
        store.fail_with(None)
        await eventually(lambda: keeper.status().waiting == 0)
        assert await store.marks(ALL) == [first]
        assert keeper.status().problem is None
    assert files(tmp_path) == []


async def test_a_mark_that_waits_can_be_withdrawn_and_does_not_come_back(store: MemoryStore, tmp_path: Path) -> None:
    first, other = mark(), mark("shift began")
    store.fail_with(AWAY)
    async with keeping(store, tmp_path) as keeper:
        await keeper.keep(first)
        await keeper.keep(other)
        assert not await keeper.withdraw(first.id)
        assert keeper.status().waiting_marks == [other]
        with pytest.raises(MarkRefused, match="was withdrawn"):
            await keeper.keep(first)
    store.fail_with(None)
    async with keeping(store, tmp_path) as keeper:
        await eventually(lambda: keeper.status().waiting == 0)
        assert await keeper.marks(ALL) == [other]
        with pytest.raises(MarkRefused, match="was withdrawn"):
            await keeper.keep(first)


async def test_a_withdrawal_that_waits_already_counts(store: MemoryStore, tmp_path: Path) -> None:
    first = mark()
    keeper = MarkKeeper(store, tmp_path, Outside.real(), Events())  # nothing is written: it does not run
    await store.keep_mark(first)
    assert not await keeper.withdraw(first.id)
    assert await store.marks(ALL) == [first]
    assert await keeper.marks(ALL) == []


async def test_an_id_that_says_something_else_is_refused(store: MemoryStore, tmp_path: Path) -> None:
    first = mark()
    async with keeping(store, tmp_path) as keeper:
        await keeper.keep(first)
        with pytest.raises(MarkRefused, match=str(first.id)):
            await keeper.keep(mark("another", id=first.id))
        with pytest.raises(MarkRefused, match="there is no mark") as refused:
            await keeper.withdraw(uuid4())
        assert refused.value.is_unknown
        assert await keeper.marks(ALL) == [first]
    assert files(tmp_path) == []


async def test_a_mark_that_was_answered_and_is_refused_later_is_an_event(store: MemoryStore, tmp_path: Path) -> None:
    first, events = mark(), Events()
    store.fail_with(AWAY)
    async with keeping(store, tmp_path, events) as keeper:
        assert not await keeper.keep(mark("another", id=first.id))
        store.fail_with(None)
        await store.keep_mark(first)
        await eventually(lambda: keeper.status().waiting == 0)
    assert any(str(first.id) in event.text and event.severity == "warning" for event in events.newest())


class PickyStore(MemoryStore):
    """Refuses marks that say so."""

    async def keep_mark(self, mark: Mark) -> bool:
        if mark.text == "refused" and self._failure is None:
            raise StoreError("no equivalent in encoding LATIN1")
        return await super().keep_mark(mark)


async def test_a_mark_that_the_database_will_never_take_is_refused_at_once(tmp_path: Path) -> None:
    async with keeping(PickyStore(by_group(group_of())), tmp_path) as keeper:
        with pytest.raises(MarkRefused, match="no equivalent in encoding LATIN1") as refused:
            await keeper.keep(mark("refused"))
        assert refused.value.is_unstorable
        await eventually(lambda: keeper.status().waiting == 0)
        assert files(tmp_path) == []
        assert keeper.status().problem is None


async def test_a_mark_that_the_database_refuses_holds_up_no_other_and_can_be_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.marks.keeper.RETRY_FIRST_S", 60)
    monkeypatch.setattr("daemon.marks.keeper.RETRY_MOST_S", 60)
    store = PickyStore(by_group(group_of()))
    async with keeping(store, tmp_path) as keeper:
        refused, good = mark("refused"), mark()
        store.fail_with(AWAY)
        assert not await keeper.keep(refused)
        store.fail_with(None)
        assert await keeper.keep(good)
        assert keeper.status().problem == "no equivalent in encoding LATIN1"
        assert await keeper.withdraw(refused.id)
        assert await keeper.marks(ALL) == [good]
        await eventually(lambda: keeper.status().problem is None)
    assert files(tmp_path) == []


async def test_a_folder_that_cannot_be_written_refuses_orders(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "marks").write_text("a file where the folder should be")
    async with keeping(store, tmp_path) as keeper:
        with pytest.raises(MarksNotKept, match="cannot be written") as refused:
            await keeper.keep(mark())
        assert refused.value.fix
    assert await store.marks(ALL) == []


async def test_no_more_wait_than_may(store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.marks.keeper.WAITING_MOST", 2)
    store.fail_with(AWAY)
    async with keeping(store, tmp_path) as keeper:
        first = mark()
        for each in (first, mark()):
            await keeper.keep(each)
        with pytest.raises(MarksNotKept, match="2 marks wait for the database"):
            await keeper.keep(mark())
        assert not await keeper.withdraw(first.id)


async def test_a_damaged_file_is_named_and_stays_and_the_others_are_written(store: MemoryStore, tmp_path: Path) -> None:
    first, events = mark(), Events()
    store.fail_with(AWAY)
    async with keeping(store, tmp_path) as keeper:
        await keeper.keep(first)
    damaged = tmp_path / "marks" / f"{uuid4()}.json"
    damaged.write_bytes(b'{"version": 1')
    (tmp_path / "marks" / f"{uuid4()}.json.partial").write_bytes(b"half")
    store.fail_with(None)
    async with keeping(store, tmp_path, events) as keeper:
        await eventually(lambda: keeper.status().waiting == 0)
        assert await store.marks(ALL) == [first]
    assert damaged.exists()
    assert any(str(damaged) in event.text for event in events.newest())


async def test_a_file_that_the_system_does_not_read_is_named_and_the_others_are_written(
    store: MemoryStore, tmp_path: Path
) -> None:
    first, events = mark(), Events()
    store.fail_with(AWAY)
    async with keeping(store, tmp_path) as keeper:
        await keeper.keep(first)
    unreadable = tmp_path / "marks" / "0.json"
    unreadable.mkdir()
    store.fail_with(None)
    async with keeping(store, tmp_path, events) as keeper:
        await eventually(lambda: keeper.status().waiting == 0)
        assert await store.marks(ALL) == [first]
    (event,) = [event for event in events.newest() if str(unreadable) in event.text]
    assert "is a directory" in event.text


async def test_a_file_that_cannot_be_removed_is_written_again_and_changes_nothing(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Outside.real()
    keeper, first = MarkKeeper(store, tmp_path, outside, Events()), mark()

    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(outside.disk, "remove", refuse)
    writing = asyncio.create_task(keeper.run())
    try:
        assert not await keeper.keep(first)
        assert keeper.status().problem is not None
        monkeypatch.undo()
        await eventually(lambda: keeper.status().waiting == 0)
    finally:
        await end_tasks(writing)
    assert await store.marks(ALL) == [first]


class SlowDisk(SystemDisk):
    """Writes a file, or removes one, once it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.is_let = threading.Event()

    def replace(self, path: Path, data: bytes) -> None:
        self.is_let.wait()
        super().replace(path, data)


async def test_what_the_disk_did_not_do_in_time_does_not_undo_what_was_ordered_after_it(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, disk = mark(), SlowDisk()
    monkeypatch.setattr("daemon.marks.keeper.DISK_WITHIN_S", 0.2)
    keeper = MarkKeeper(store, tmp_path, replace(Outside.real(), disk=disk), Events())  # it does not run
    with pytest.raises(MarksNotKept, match="its disk does not answer, and may still do it later"):
        await keeper.keep(first)
    with pytest.raises(MarksNotKept, match="does not answer"):
        await keeper.withdraw(first.id)
    assert keeper.status().waiting == 0
    monkeypatch.setattr("daemon.marks.keeper.DISK_WITHIN_S", 60)
    withdrawing = asyncio.create_task(keeper.withdraw(first.id))
    await asyncio.sleep(0.1)
    disk.is_let.set()
    assert not await withdrawing
    (order,), _ = OrderFolder(tmp_path, disk).read()
    assert order.withdrawn_ns is not None


async def test_withdrawals_that_wait_do_not_hide_that_there_are_earlier_marks(
    store: MemoryStore, tmp_path: Path
) -> None:
    made = [mark(f"number {k}", time_ns=k) for k in range(5)]
    for one in made:
        await store.keep_mark(one)
    keeper = MarkKeeper(store, tmp_path, Outside.real(), Events())  # it does not run
    await keeper.withdraw(made[4].id)
    assert await keeper.marks(replace(ALL, most=2)) == made[2:4]
