"""No gap of the ledger covers a number that is committed."""

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from backends.base import BatchRejected
from backends.memory.store import MemoryStore
from daemon.pipeline import gaps
from daemon.pipeline.closed_blocks import merge
from daemon.pipeline.gaps import CommittedGaps
from daemon.pipeline.pipeline import Pipeline
from schemas.batch import Batch, ClosedBlock, Durability, JournalPosition
from schemas.queries import LedgerNeighbours, LedgerTail, Query
from schemas.readings import Array
from tests.support.pipelines import Logger, eventually, journaling, logging_to_memory
from tests.support.readings import history_of, make_group

GROUP = make_group()
BEHIND = dict.fromkeys(range(2, 10), 0)


def closed(ledger: Mapping[int, int], revised: Mapping[int, int] | None = None, run: int = 1) -> ClosedBlock:
    """A block without readings that closes, and revises, these triggers; the values are their gaps."""
    shape = len(ledger), GROUP.size
    return ClosedBlock(
        readings=np.zeros(shape, GROUP.record),
        present=np.zeros(shape, bool),
        ledger=rows_of(ledger, run),
        late=np.empty(0, GROUP.record),
        late_of=np.empty(0, np.intp),
        revised=rows_of(revised or {}, run),
    )


def rows_of(skipped: Mapping[int, int], run: int) -> Array:
    rows = history_of(GROUP, *skipped, run=run)
    rows["skipped"] = list(skipped.values())
    return rows


async def commit(pipeline: Pipeline, *blocks: ClosedBlock) -> None:
    """Commit what another process, or assembly, has closed."""
    commits = pipeline.figures().committed.commits
    for _ in blocks:
        pipeline._assembly.receipts.close(np.empty(0, np.intp))
    pipeline._assembly.receipts.end_step()
    pipeline._backlog.put(blocks)
    await eventually(lambda: pipeline.figures().committed.commits > commits and not pipeline.waiting.blocks)


async def gaps_of(logger: Logger) -> dict[int, int]:
    return dict((await logger.ledger(GROUP))[["trigger", "skipped"]].tolist())


def questions_to(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """What the store is asked from now on."""
    asked: list[Query] = []
    answer = store.ask

    async def ask(query: Query) -> Array:
        asked.append(query)
        return await answer(query)

    monkeypatch.setattr(store, "ask", ask)
    return asked


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_rows_that_are_committed_behind_one_with_a_gap_are_in_it_no_more(
    monkeypatch: pytest.MonkeyPatch, is_remembered: bool
) -> None:
    """1138 was placed with a gap of 8; then an earlier life's blocks with these numbers came from the journal."""
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        await commit(pipeline, closed({1: 0, 10: 8, 11: 0}))
        if not is_remembered:
            pipeline._committer._gaps.forget()
        asked = questions_to(logger.store, monkeypatch)
        await commit(pipeline, closed({2: 0, 5: 2, 7: 1}))
        assert await gaps_of(logger) == {1: 0, 2: 0, 5: 2, 7: 1, 10: 2, 11: 0}
        await commit(pipeline, closed({3: 0, 4: 0}), closed({6: 0, 8: 0, 9: 0}))
        assert await gaps_of(logger) == dict.fromkeys(range(1, 12), 0)
    whole_rows = [query for query in asked if isinstance(query, LedgerNeighbours)]
    tails = [query for query in asked if isinstance(query, LedgerTail) and query.most == 1]
    assert len(tails) == (not is_remembered)
    # Whole rows: of 10, of 5 and 7 below it, and 10 again.
    assert {query.trigger for query in whole_rows} == {7, 4, 6, 9}


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_a_revised_row_that_was_counted_before_brings_no_gap_back(is_remembered: bool) -> None:
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        await commit(pipeline, closed({1: 0, 10: 8, 12: 1}))
        await commit(pipeline, closed(BEHIND))
        if not is_remembered:
            pipeline._committer._gaps.forget()
        await commit(pipeline, closed({}, {10: 8, 12: 1}))
        assert await gaps_of(logger) == {1: 0, **BEHIND, 10: 0, 12: 1}


async def test_gaps_of_one_batch_fit_each_other() -> None:
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        await commit(
            pipeline, closed({1: 0}), closed({10: 8, 20: 9}), closed({5: 3}, {20: 9}), closed({15: 14}, {10: 8})
        )
        assert await gaps_of(logger) == {1: 0, 5: 3, 10: 4, 15: 4, 20: 4}


async def test_runs_have_gaps_of_their_own() -> None:
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        await commit(pipeline, closed({1: 0, 10: 8}), closed({5: 0, 10: 4}, run=2), closed({7: 1}, {10: 4}, run=2))
        rows = [await logger.store.ask(LedgerTail(group=GROUP, most=9, run=run)) for run in (1, 2)]
    assert [each["skipped"].tolist() for each in rows] == [[0, 8], [0, 1, 2]]


async def test_of_new_triggers_the_database_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of gaps among them, nor of those that close behind others which are known to have no gap there."""
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        await commit(pipeline, closed({1: 0}))
        asked = questions_to(logger.store, monkeypatch)
        for first in range(10, 1000, 10):
            await commit(
                pipeline,
                closed({first + 4: 0, first + 5: 0}),
                closed({first + 3: 3, first + 9: 3}, {first + 4: 0}),
                closed({}, {first + 9: 3}),
            )
    assert asked == []


class Picky(MemoryStore):
    """Rejects trigger 3."""

    async def commit(self, batch: Batch) -> None:
        self._see(batch)
        await super().commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        self._see(batch)
        await super().rehearse(batch)

    def _see(self, batch: Batch) -> None:
        if 3 in batch.ledger["trigger"]:
            raise BatchRejected("trigger 3 is not welcome")


async def test_a_rejected_trigger_is_in_no_gap(tmp_path: Path) -> None:
    store = Picky({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, closed({1: 0}), closed({3: 1}))
        await commit(pipeline, closed({6: 4}))
        assert pipeline.figures().dead_letters.blocks == 1
        rows = await store.ask(LedgerTail(group=GROUP, most=9))
    assert dict(rows[["trigger", "skipped"]].tolist()) == {1: 0, 6: 2}


async def test_a_dead_letter_that_is_retried_has_no_gap_over_what_came_meanwhile(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        await commit(pipeline, closed({1: 0}))
        logger.store.__class__ = Picky
        await commit(pipeline, closed({3: 1}), closed({5: 1}))
        await commit(pipeline, closed({2: 0}))
        logger.store.__class__ = MemoryStore
        assert (await pipeline.letters.retry()).committed == 1
        assert await gaps_of(logger) == {1: 0, 2: 0, 3: 0, 5: 1}


async def test_what_the_database_had_at_the_start_is_asked_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path) as pipeline:
        await commit(pipeline, closed({1: 0, 10: 8}))
    async with journaling(store, GROUP, tmp_path) as pipeline:
        asked = questions_to(store, monkeypatch)
        await commit(pipeline, closed({11: 0}), closed({}, {10: 8}), closed({1: 0}, run=2))
        assert asked == []


async def test_whatever_is_committed_no_gap_covers_a_committed_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches at random, and a memory that forgets, against rows of which each is looked at."""
    monkeypatch.setattr(gaps, "NUMBERS_MOST", 5)
    for seed in range(60):
        await play(random.Random(seed))


async def play(rng: random.Random) -> None:
    store, there = MemoryStore({"bpm": GROUP}), dict[int, int]()
    fitting = CommittedGaps(GROUP, store.ask, None)
    for sequence in range(1, 40):
        blocks = [drawn(rng, there) for _ in range(rng.randrange(1, 4))]
        for block in blocks:
            there |= dict(block.ledger[["trigger", "skipped"]].tolist())
        for block in blocks:
            there |= dict(block.revised[["trigger", "skipped"]].tolist())
        below = None
        for number in sorted(there):
            there[number] = there[number] if below is None else min(there[number], number - below - 1)
            below = number
        fit = merge(await fitting.fit(blocks))
        await store.commit(
            Batch(
                **fit.parts,
                group=GROUP,
                position=JournalPosition(sequence=sequence),
                durability=Durability.SYNC,
            )
        )
        rows = await store.ask(LedgerTail(group=GROUP, most=10_000))
        assert dict(rows[["trigger", "skipped"]].tolist()) == there
        if rng.random() < 0.1:
            fitting.forget()


def drawn(rng: random.Random, there: dict[int, int]) -> ClosedBlock:
    """A block with numbers that are not there, as new ones, and some that are, which it revises."""
    highest = max(there, default=100)
    numbers = set(rng.sample(range(max(1, highest - 60), highest + 20), rng.randrange(5))) - there.keys()
    revised = rng.sample(sorted(there), min(len(there), rng.randrange(3)))
    ledger = {number: rng.choice((0, 0, rng.randrange(number))) for number in sorted(numbers)}
    there |= dict.fromkeys(ledger, 0)
    return closed(ledger, {number: rng.choice((0, rng.randrange(max(number, 1)))) for number in sorted(revised)})
