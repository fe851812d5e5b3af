"""A copy of the state folder was written from meanwhile: the log of the other is not taken for what it has."""

from pathlib import Path

from backends.base import StoreUnavailable
from schemas.readings import Array
from schemas.wire import Ack
from tests.support.kills import copy_of
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import Logged, eventually, journaling
from tests.support.readings import make_group, whole

GROUP = make_group()


def of_epoch(*triggers: int) -> Array:
    block = whole(GROUP, *triggers)
    block["epoch"] = 7
    return block


def join(logged: Logged, first: int = 0) -> int:
    return logged.connect(session=1, first=first, ack=Ack.RECEIVED).column


def triggers_in(store: MemoryStore) -> list[int]:
    return sorted(store._groups["bpm"].rows()["trigger"].tolist())


async def test_what_was_received_before_a_daemon_ran_from_a_copy_is_stored(tmp_path: Path) -> None:
    store, here, copied = MemoryStore({"bpm": GROUP}), tmp_path / "here", tmp_path / "copied"
    async with journaling(store, GROUP, here) as logged:
        column = join(logged)
        logged.send(column, of_epoch(1, 2))
        await eventually(lambda: logged.is_idle)
        copy_of(here, copied)
        store.fail_with(StoreUnavailable("away"))
        logged.send(column, of_epoch(3, 4))
        await eventually(lambda: logged.acknowledged()[0][column] == 20)
    store.fail_with(None)
    async with journaling(store, GROUP, copied) as logged:
        logged.send(join(logged, 20), of_epoch(*range(5, 10)))
        await eventually(lambda: logged.is_idle)
    async with journaling(store, GROUP, here) as logged:
        await eventually(lambda: logged.is_idle)
        assert logged.figures().letters_aside == 0
    assert triggers_in(store) == list(range(1, 10))


async def test_over_many_starts_what_is_left_is_committed_as_it_stands(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    for life in range(4):
        async with journaling(store, GROUP, tmp_path) as logged:
            column = join(logged, 5 * (life + 1) if life else 0)
            if not life:
                logged.send(column, of_epoch(1))
                await eventually(lambda logged=logged: logged.is_idle)
            store.fail_with(StoreUnavailable("away"))
            logged.send(column, of_epoch(life + 2))
            upto = 5 * life + 10
            await eventually(lambda logged=logged, at=column, upto=upto: logged.acknowledged()[0][at] == upto)
        store.fail_with(None)
    async with journaling(store, GROUP, tmp_path) as logged:
        await eventually(lambda: logged.is_idle)
        figures = logged.figures()
        assert (figures.duplicate, figures.letters_aside, dict(figures.lost_before)) == (0, 0, {})
    assert triggers_in(store) == [1, 2, 3, 4, 5]
