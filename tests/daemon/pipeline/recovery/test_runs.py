"""Which run an epoch has is known after every start, whatever the folders of two hosts and the database say."""

from pathlib import Path

import numpy as np

from backends.base import BatchRejected, StoreUnavailable
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.recovery import Recalled, RecoveredGroup, runs_of
from schemas.batch import Batch, JournalPosition
from schemas.queries import LedgerTail, WindowReadings
from schemas.readings import Array, InstrumentGroup
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import FOREVER, eventually, journaling, journaling_each
from tests.support.readings import history_of, make_block, make_group, whole

GROUP, TOROID = make_group(), make_group(3, "toroid")
SMALL = {"window": 256, "max_open": 64, "timeout_ms": 20}


def of(epoch: int, block: Array) -> Array:
    block["epoch"] = epoch
    return block


async def rows_in(store: MemoryStore, group: InstrumentGroup = GROUP) -> list[tuple[int, int, int, int]]:
    rows = np.concatenate([await store.ask(LedgerTail(group=group, most=1000, run=run)) for run in range(1, 100)])
    return sorted(rows[["epoch", "run", "trigger", "arrived"]].tolist())


async def take(pipeline: Pipeline, epoch: int, *triggers: int) -> None:
    """Take whole triggers, and wait until the store has all there is."""
    pipeline.receive(of(epoch, whole(pipeline.group, *triggers)))
    await eventually(lambda: not pipeline.figures().waiting.blocks)


async def test_two_epochs_that_two_hosts_gave_the_same_run_are_two_runs(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path / "a", assembly=SMALL) as pipeline:
        pipeline.receive(of(6, whole(GROUP, 1, 2)))
        await eventually(lambda: pipeline.figures().committed.triggers == 2)
        store.serving.clear()
        pipeline.receive(of(7, whole(GROUP, 1, 2, 3)))
    store.serving.set()
    async with journaling(store, GROUP, tmp_path / "b", assembly=SMALL) as pipeline:
        pipeline.receive(of(8, whole(GROUP, 1, 2, 3)))
        await eventually(lambda: pipeline.figures().committed.triggers == 3)
    async with journaling(store, GROUP, tmp_path / "a", assembly=SMALL) as pipeline:
        await eventually(lambda: pipeline.figures().waiting.blocks == 0)
        assert not pipeline.figures().dead_letters.blocks
    assert await rows_in(store) == [
        *((6, 1, trigger, 5) for trigger in (1, 2)),
        *((7, 3, trigger, 5) for trigger in (1, 2, 3)),
        *((8, 2, trigger, 5) for trigger in (1, 2, 3)),
    ]
    start, end = FOREVER
    assert len(await store.ask(WindowReadings(group=GROUP, start_ns=start, end_ns=end))) == 8 * GROUP.size


async def test_what_begins_while_a_group_is_not_configured_takes_no_run_of_its(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP, "toroid": TOROID})
    async with journaling_each(store, [GROUP, TOROID], tmp_path, assembly=SMALL) as pipelines:
        for pipeline in pipelines.values():
            await take(pipeline, 6, 1, 2)
        await take(pipelines["bpm"], 7, 1, 2)
    async with journaling_each(store, [TOROID], tmp_path, assembly=SMALL) as pipelines:
        await take(pipelines["toroid"], 8, 1)
    async with journaling_each(store, [GROUP, TOROID], tmp_path, assembly=SMALL) as pipelines:
        await take(pipelines["bpm"], 8, 1, 2)
        await take(pipelines["toroid"], 8, 2)
        assert not pipelines["bpm"].figures().dead_letters.blocks
    runs = {6: 1, 7: 2, 8: 3}
    assert await rows_in(store) == [(epoch, run, n, 5) for epoch, run in runs.items() for n in (1, 2)]
    assert await rows_in(store, TOROID) == [(epoch, runs[epoch], n, 3) for epoch in (6, 8) for n in (1, 2)]


async def test_a_run_that_only_a_journal_gave_yields_to_that_of_another_group(tmp_path: Path) -> None:
    """What the journal holds is nowhere else yet; what the other group has is stored."""
    store = MemoryStore({"bpm": GROUP, "toroid": TOROID})
    async with journaling_each(store, [GROUP, TOROID], tmp_path / "a", assembly=SMALL) as pipelines:
        for pipeline in pipelines.values():
            await take(pipeline, 6, 1, 2)
        store.serving.clear()
        pipelines["bpm"].receive(of(7, whole(GROUP, 1, 2)))
    store.serving.set()
    async with journaling_each(store, [GROUP, TOROID], tmp_path / "b", assembly=SMALL) as pipelines:
        await take(pipelines["toroid"], 8, 1)
    async with journaling_each(store, [GROUP, TOROID], tmp_path / "a", assembly=SMALL) as pipelines:
        await take(pipelines["bpm"], 8, 1, 2)
        await take(pipelines["toroid"], 8, 2)
        assert not pipelines["bpm"].figures().dead_letters.blocks
    runs = {6: 1, 7: 3, 8: 2}
    assert await rows_in(store) == [(epoch, run, n, 5) for epoch, run in runs.items() for n in (1, 2)]
    assert await rows_in(store, TOROID) == [(epoch, runs[epoch], n, 3) for epoch in (6, 8) for n in (1, 2)]


class Away(MemoryStore):
    """Takes nothing of epochs 5 and 7, and is away when it is to commit anything else."""

    async def commit(self, batch: Batch) -> None:
        await self.rehearse(batch)
        raise StoreUnavailable("away")

    async def rehearse(self, batch: Batch) -> None:
        if np.isin([5, 7], batch.ledger["epoch"]).any():
            raise BatchRejected("epochs 5 and 7 are not welcome")


async def test_a_run_that_only_dead_letters_have_yields_to_that_which_another_host_stored(tmp_path: Path) -> None:
    """What was rejected of the one is neither in the way of the other, nor committed as of its run."""
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path / "a", assembly=SMALL) as pipeline:
        await take(pipeline, 6, 1)
        store.__class__ = Away
        pipeline.receive(of(7, whole(GROUP, 1, 2, 3)))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 3)
    store.__class__ = MemoryStore
    async with journaling(store, GROUP, tmp_path / "b", assembly=SMALL) as pipeline:
        await take(pipeline, 8, 1)
    async with journaling(store, GROUP, tmp_path / "a", assembly=SMALL) as pipeline:
        await take(pipeline, 8, 2)
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.rejected) == (0, 3)
    assert await rows_in(store) == [(6, 1, 1, 5), (8, 2, 1, 5), (8, 2, 2, 5)]


async def test_an_epoch_that_only_dead_letters_have_in_this_run_goes_on_in_that_which_another_host_gave_it(
    tmp_path: Path,
) -> None:
    """What was rejected of it is not committed as of a second run of that epoch, either."""
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path / "a", assembly=SMALL) as pipeline:
        await take(pipeline, 6, 1)
        store.__class__ = Away
        for epoch in (5, 7):
            pipeline.receive(of(epoch, whole(GROUP, 1, 2)))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 4)
    store.__class__ = MemoryStore
    async with journaling(store, GROUP, tmp_path / "b", assembly=SMALL) as pipeline:
        await take(pipeline, 7, 3)
    async with journaling(store, GROUP, tmp_path / "a", assembly=SMALL) as pipeline:
        await take(pipeline, 7, 4)
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.rejected) == (0, 4)
    assert await rows_in(store) == [(6, 1, 1, 5), (7, 2, 3, 5), (7, 2, 4, 5)]


def test_an_epoch_of_which_only_the_ledger_tells_keeps_its_run() -> None:
    """A store that writes in parts has the rows of a block before what is kept beside the position."""
    history = history_of(GROUP, 1, 2, run=4)
    history["epoch"] = 9
    group = RecoveredGroup(
        recalled=Recalled(history=history, state=DurableState(runs={3: 1}), letters=np.empty(0, GROUP.record)),
        position=JournalPosition(sequence=0),
        dead_letters=None,
        id=1,
        formerly=frozenset(),
    )
    runs = runs_of([group])
    assert (runs.known(9), runs.known(3), runs.known(10), runs.begin(10)) == (4, 1, None, 5)


async def test_the_run_under_way_is_remembered_though_others_have_higher_numbers(tmp_path: Path) -> None:
    """Two readings with garbage for an epoch, and a restart: the machine's own epoch must not be over."""
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(of(7, whole(GROUP, 1, 2)))
        for epoch in (1000, 2000, 3000):
            pipeline.receive(of(epoch, make_block(GROUP, [(5, 1)])))
            await eventually(lambda: not pipeline.figures().assembling)
        pipeline.receive(of(7, make_block(GROUP, [(3, i) for i in range(4)])))
        await eventually(lambda: pipeline.figures().committed.triggers == 6)
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(of(7, make_block(GROUP, [(3, 4)])))
        pipeline.receive(of(7, whole(GROUP, 4)))
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        assert pipeline.figures().assembled.aside == {}
    assert (7, 1, 3, 5) in await rows_in(store)
