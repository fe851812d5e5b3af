"""A pipeline begins again with its log: after the database lost commits, and after memory had no room."""

import asyncio
import copy
from pathlib import Path

import numpy as np
import pytest

from backends.base import BatchRejected, StoreUnavailable
from daemon.pipeline.log import folder_of
from daemon.pipeline.log.log import ENDING
from schemas.batch import Batch, Stream
from schemas.readings import Array
from schemas.wire import Ack
from tests.daemon.pipeline.test_placing import unaccounted
from tests.support.kills import copy_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import Logged, eventually, journaling
from tests.support.readings import make_block, make_group, time_of, whole

GROUP = make_group()
RISK_MS = 60_000.0
SMALL = {"max_batch_mib": 0.02, "max_waiting_mib": 0.04}
QUICK = {"retry_first_ms": 1.0, "retry_most_ms": 5.0}


def of_epoch(*triggers: int) -> Array:
    block = whole(GROUP, *triggers)
    block["epoch"] = 7
    return block


def new_store() -> MemoryStore:
    return MemoryStore({"bpm": GROUP})


def put_back(store: MemoryStore, older: object) -> None:
    store._groups["bpm"] = copy.deepcopy(older)  # type: ignore[assignment]


def stored(store: MemoryStore) -> list[tuple[int, int]]:
    return sorted(store._groups["bpm"].everything()[["trigger", "instrument"]].tolist())


def keys(*triggers: int) -> list[tuple[int, int]]:
    return [(trigger, instrument) for trigger in triggers for instrument in range(GROUP.size)]


async def idle(logged: Logged) -> None:
    await eventually(lambda: logged.is_idle)
    assert unaccounted(logged.pipeline) == 0


async def commit(logged: Logged, column: int, *triggers: int) -> None:
    for trigger in triggers:
        logged.send(column, of_epoch(trigger))
        await idle(logged)


async def let_go(logged: Logged) -> None:
    """Wait until the log holds nothing any more, in memory or on the disk."""
    keeper = logged.intake._keeper
    assert keeper is not None
    folder = folder_of(logged.folder, "bpm")
    await eventually(lambda: keeper.first_waiting == keeper.next and not list(folder.glob(f"*{ENDING}")))


async def test_what_an_asynchronous_database_lost_comes_again_once(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        await commit(logged, column, 2, 3)
        for newest in (4, 5):
            put_back(store, flushed)
            await commit(logged, column, newest)
            assert stored(store) == keys(*range(1, newest + 1))
            assert logged.acknowledged()[0][column] == 5 * newest
        figures = logged.figures()
        assert logged.following.begins_again == 2
        assert (figures.lost.readings, dict(figures.lost_before)) == (0, {})
        assert (figures.committed.readings, figures.assembled.received) == (25, 25)
        assert (figures.duplicate, figures.aside, figures.refused) == (0, {}, {})
    position = await store.position("bpm")
    assert (position.triggers, position.readings) == (5, 25)


async def test_after_a_restart_it_comes_again_too(tmp_path: Path) -> None:
    """Both what the process before committed, and what this one did."""
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        await commit(logged, column, 2, 3)
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        await commit(logged, logged.connect(session=1, first=15).column, 4)
        put_back(store, flushed)
        await commit(logged, logged.connect(session=2).column, 5)
        assert stored(store) == keys(1, 2, 3, 4, 5)
        figures = logged.figures()
        assert (figures.lost.readings, dict(figures.lost_before)) == (0, {})
    position = await store.position("bpm")
    assert (position.triggers, position.readings) == (5, 25)


async def test_what_is_lost_while_no_daemon_runs_comes_again_at_the_start(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        await commit(logged, column, 2, 3)
    put_back(store, flushed)
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        await idle(logged)
        assert stored(store) == keys(1, 2, 3)
        assert dict(logged.figures().lost_before) == {}


async def test_what_the_log_has_no_more_is_counted_as_lost(tmp_path: Path) -> None:
    """A synchronous database was put back to a backup: what it had for good was let go of."""
    store = new_store()
    async with journaling(store, GROUP, tmp_path) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        backup = copy.deepcopy(store._groups["bpm"])
        await commit(logged, column, 2, 3)
        await let_go(logged)
        put_back(store, backup)
        await commit(logged, column, 4)
        assert stored(store) == keys(1, 4)
        assert logged.figures().lost.readings == 10
        assert any("10 readings are lost" in text for text in logged.said)
        assert logged.acknowledged()[0][column] == 20
        # It goes on as if nothing had been.
        await commit(logged, column, 5)
        assert logged.figures().lost.readings == 10


@pytest.mark.parametrize("has_log", [True, False], ids=["log", "no log"])
async def test_what_is_lost_of_earlier_processes_is_counted_apart(tmp_path: Path, has_log: bool) -> None:
    store, sections = new_store(), {} if has_log else {"journal": {"max_mib": 0}}
    async with journaling(store, GROUP, tmp_path, **sections) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        backup = copy.deepcopy(store._groups["bpm"])
        await commit(logged, column, 2, 3, 4)
    async with journaling(store, GROUP, tmp_path, **sections) as logged:
        column = logged.connect(session=1, first=20).column
        await commit(logged, column, 5)
        if has_log:
            await let_go(logged)
        put_back(store, backup)
        await commit(logged, column, 6)
        figures = logged.figures()
        assert (figures.lost.readings, dict(figures.lost_before)) == (5, {"database": 15})
    assert stored(store) == keys(1, 6)


async def test_a_position_that_an_operator_removed_is_written_again(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1, 2)
        del store._groups["bpm"].positions[Stream.JOURNAL]
        await commit(logged, column, 3)
        assert stored(store) == keys(1, 2, 3)
        assert logged.figures().lost.readings == 0
        assert any("position in the database was gone" in text for text in logged.said)
    position = await store.position("bpm")
    assert (position.triggers, position.readings) == (3, 15)


async def test_readings_without_an_epoch_or_a_session_come_again_once(tmp_path: Path) -> None:
    """As datagrams do: nothing but the log's own numbers tells which of them the database has."""
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        logged.receive(whole(GROUP, 1))
        await idle(logged)
        flushed = copy.deepcopy(store._groups["bpm"])
        logged.receive(whole(GROUP, 2, 3))
        await idle(logged)
        put_back(store, flushed)
        logged.receive(whole(GROUP, 4))
        await idle(logged)
        assert stored(store) == keys(1, 2, 3, 4)
        assert (logged.figures().lost.readings, logged.figures().duplicate) == (0, 0)


async def test_a_trigger_of_which_a_part_was_lost_is_whole_again(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS, assembly={"timeout_ms": 5.0}) as logged:
        column = logged.connect(session=1).column
        logged.send(column, of_epoch(1)[:3])
        await idle(logged)
        flushed = copy.deepcopy(store._groups["bpm"])
        logged.send(column, of_epoch(1)[3:4])
        await idle(logged)
        put_back(store, flushed)
        logged.send(column, of_epoch(1)[4:])
        await idle(logged)
        assert stored(store) == keys(1)
        (row,) = store._groups["bpm"].rows()
        assert row["arrived"] == 5


async def test_connections_go_on_while_the_database_cannot_be_asked(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS, committer=QUICK) as logged:
        received, committed = logged.connect(session=1, ack=Ack.RECEIVED).column, logged.connect(session=2).column
        await commit(logged, committed, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        await commit(logged, committed, 2)
        put_back(store, flushed)
        asked = store.position

        async def away(*_: object) -> None:
            raise StoreUnavailable("restoring")

        store.position = away  # type: ignore[method-assign,assignment]
        logged.send(committed, of_epoch(3))
        await eventually(lambda: logged.following.begins_again == 1)
        await eventually(lambda: logged.intake.pipeline is None)
        logged.send(received, of_epoch(4))
        await eventually(lambda: logged.acknowledged()[0][received] == 5)
        assert logged.acknowledged()[0][committed] == 10
        late = logged.connect(session=3).column
        logged.send(late, of_epoch(5))
        await eventually(lambda: "restoring" in str(logged.figures().store_problem))
        store.position = asked  # type: ignore[method-assign]
        await idle(logged)
        assert stored(store) == keys(1, 2, 3, 4, 5)
        assert [int(logged.acknowledged()[0][column]) for column in (received, committed, late)] == [5, 15, 5]
        logged.disconnect(late, ended=True)


async def test_what_memory_has_no_room_for_in_an_outage_is_stored_once_afterwards(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, committer=SMALL | QUICK) as logged:
        columns = [logged.connect(session=k, ack=ack).column for k, ack in ((1, Ack.RECEIVED), (2, Ack.COMMITTED))]
        store.fail_with(StoreUnavailable("away"))
        for trigger in range(1, 301):
            block = of_epoch(trigger)
            logged.send(columns[0], block[:2])
            logged.send(columns[1], block[2:])
            if not trigger % 20:
                await asyncio.sleep(0.01)
            assert unaccounted(logged.pipeline) == 0
        assert logged.pipeline._backlog.is_behind
        assert logged.figures().memory_bytes <= 0.05 * 2**20
        assert logged.figures().waiting.triggers == 300
        assert not logged.intake.is_full, "the log has room"
        await eventually(lambda: logged.acknowledged()[0][columns[0]] == 600)
        assert logged.acknowledged()[0][columns[1]] == 0
        store.fail_with(None)
        await idle(logged)
        assert logged.following.begins_again >= 1
        assert stored(store) == keys(*range(1, 301))
        assert [int(logged.acknowledged()[0][column]) for column in columns] == [600, 900]
        figures = logged.figures()
        assert (figures.duplicate, figures.aside, figures.refused, figures.lost.readings) == (0, {}, {}, 0)
        assert (figures.assembled.received, figures.committed.readings) == (1500, 1500)
        await let_go(logged)


async def test_what_comes_while_the_log_is_read_after_an_outage_is_stored_too(tmp_path: Path) -> None:
    """It comes as fast as it did, and the status adds up at every moment."""
    store = new_store()
    async with journaling(store, GROUP, tmp_path, committer=SMALL | QUICK) as logged:
        column = logged.connect(session=1).column
        odd = set[int]()
        for trigger in range(1, 1501):
            if trigger == 100:
                store.fail_with(StoreUnavailable("away"))
            if trigger == 800:
                store.fail_with(None)
            logged.send(column, of_epoch(trigger))
            if not trigger % 5:
                await asyncio.sleep(0.001)
            odd.add(unaccounted(logged.pipeline))
        await idle(logged)
        assert logged.following.begins_again >= 1
        assert stored(store) == keys(*range(1, 1501))
        assert odd == {0}
        figures = logged.figures()
        assert (figures.duplicate, figures.aside, figures.refused, figures.lost.readings) == (0, {}, {}, 0)


async def test_an_end_in_an_outage_leaves_all_to_the_next_start(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, committer=SMALL | QUICK) as logged:
        column = logged.connect(session=1).column
        store.fail_with(StoreUnavailable("away"))
        for trigger in range(1, 301):
            logged.send(column, of_epoch(trigger))
        logged.send(column, of_epoch(301)[:2])
        logged.following.end()
    store.fail_with(None)
    async with journaling(store, GROUP, tmp_path, committer=SMALL, assembly={"timeout_ms": 50.0}) as logged:
        await idle(logged)
        assert stored(store) == [*keys(*range(1, 301)), (301, 0), (301, 1)]


async def test_an_end_while_the_log_is_read_again_leaves_the_rest_to_the_next_start(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, committer=SMALL | QUICK) as logged:
        column = logged.connect(session=1).column
        store.fail_with(StoreUnavailable("away"))
        for trigger in range(1, 1001):
            logged.send(column, of_epoch(trigger))
        await eventually(lambda: logged.intake.state.synced >= 1000)
        store.fail_with(None)
        await eventually(lambda: logged.following.begins_again == 1)
        logged.following.end()
    async with journaling(store, GROUP, tmp_path, committer=SMALL) as logged:
        await idle(logged)
        assert stored(store) == keys(*range(1, 1001))


async def test_a_kill_in_an_outage_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path / "here", committer=SMALL | QUICK) as logged:
        column = logged.connect(session=1, ack=Ack.RECEIVED).column
        await commit(logged, column, 1)
        store.fail_with(StoreUnavailable("away"))
        for trigger in range(2, 301):
            logged.send(column, of_epoch(trigger))
        await eventually(lambda: logged.acknowledged()[0][column] == 1500)
        copy_of(tmp_path / "here", tmp_path / "killed")
    store.fail_with(None)
    async with journaling(store, GROUP, tmp_path / "killed", committer=SMALL) as logged:
        assert logged.connect(session=1, first=1500).resume == 1500
        await idle(logged)
        assert stored(store) == keys(*range(1, 301))
        assert dict(logged.figures().lost_before) == {}


class Picky(MemoryStore):
    """Rejects trigger 3, for good."""

    async def commit(self, batch: Batch) -> None:
        self._refuse(batch)
        await super().commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        self._refuse(batch)
        await super().rehearse(batch)

    def _refuse(self, batch: Batch) -> None:
        if np.isin(3, batch.ledger["trigger"]):
            raise BatchRejected("value out of range")


async def test_what_is_a_dead_letter_does_not_come_again(tmp_path: Path) -> None:
    store = Picky({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        await commit(logged, column, 2, 3, 4)
        put_back(store, flushed)
        await commit(logged, column, 5)
        assert stored(store) == keys(1, 2, 4, 5)
        figures = logged.figures()
        assert figures.dead_letters.readings == figures.committed.dead_readings == 5
        assert figures.lost.readings == 0


async def test_what_was_set_aside_does_not_come_again(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        other = make_block(GROUP, [(1, 3)], when=lambda trigger: time_of(trigger) + 5)
        other["epoch"] = 7
        logged.send(column, other)
        await eventually(lambda: logged.figures().letters_aside == 1)
        await commit(logged, column, 2)
        put_back(store, flushed)
        await commit(logged, column, 3)
        assert stored(store) == keys(1, 2, 3)
        figures = logged.figures()
        assert (figures.letters_aside, figures.aside) == (1, {"conflict": 1})
        assert logged.acknowledged()[0][column] == 16


async def test_what_was_refused_is_refused_and_counted_once(tmp_path: Path) -> None:
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        column = logged.connect(session=1).column
        await commit(logged, column, 1)
        flushed = copy.deepcopy(store._groups["bpm"])
        logged.send(column, make_block(GROUP, [(2, 99)]))
        await commit(logged, column, 2)
        put_back(store, flushed)
        await commit(logged, column, 3)
        assert logged.figures().refused == {"unknown_instrument": 1}
        assert [int(each[column]) for each in logged.acknowledged()] == [16, 1]


async def test_runs_are_the_same_when_they_come_again(tmp_path: Path) -> None:
    """A restart that was announced has its place in the log."""
    store = new_store()
    async with journaling(store, GROUP, tmp_path, RISK_MS) as logged:
        column = logged.connect(session=1).column
        for trigger in (1, 2, 3):
            logged.send(column, whole(GROUP, trigger))
        await idle(logged)
        flushed = copy.deepcopy(store._groups["bpm"])
        assert (await logged.announced.announce(9, {"bpm": logged.intake})) == {"bpm": 2}
        for trigger in (1, 2):
            block = whole(GROUP, trigger)
            block["epoch"] = 9
            logged.send(column, block)
        await idle(logged)
        before = sorted(store._groups["bpm"].rows()[["run", "trigger", "epoch"]].tolist())
        put_back(store, flushed)
        block = whole(GROUP, 3)
        block["epoch"] = 9
        logged.send(column, block)
        await idle(logged)
        rows = sorted(store._groups["bpm"].rows()[["run", "trigger", "epoch"]].tolist())
    assert before == [(1, 1, 0), (1, 2, 0), (1, 3, 0), (2, 1, 9), (2, 2, 9)]
    assert rows == [*before, (2, 3, 9)]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_all_that_was_acknowledged_is_stored_once(tmp_path: Path, seed: int) -> None:
    """Outages, crashes of an asynchronous database, and restarts of the daemon."""
    rng = np.random.default_rng(seed)
    store, trigger, sent = new_store(), 0, 0
    flushed = copy.deepcopy(store._groups["bpm"])
    for _ in range(3):
        async with journaling(store, GROUP, tmp_path, RISK_MS, committer=SMALL | QUICK) as logged:
            joined = logged.connect(session=1, first=0)
            column = joined.column
            assert joined.resume == sent
            for _ in range(40):
                what = rng.random()
                if what < 0.6:
                    for _ in range(int(rng.integers(1, 40))):
                        trigger += 1
                        logged.send(column, of_epoch(trigger))
                elif what < 0.7:
                    store.fail_with(StoreUnavailable("away") if rng.random() < 0.7 else None)
                elif what < 0.8:
                    put_back(store, flushed)
                elif what < 0.85:
                    flushed = copy.deepcopy(store._groups["bpm"])
                else:
                    await asyncio.sleep(float(rng.random()) * 0.05)
            store.fail_with(None)
            trigger += 1
            logged.send(column, of_epoch(trigger))  # a loss shows with the next commit
            await idle(logged)
            sent = 5 * trigger
            await eventually(lambda logged=logged, at=column, upto=sent: logged.acknowledged()[0][at] == upto)
            assert logged.figures().lost.readings == 0
            assert dict(logged.figures().lost_before) == {}
    assert stored(store) == keys(*range(1, trigger + 1))
