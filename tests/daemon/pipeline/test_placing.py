"""Readings of triggers that assembly has forgotten go where the ledger of the database says."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from backends.base import BatchRejected, StoreUnavailable
from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Origin, Runs
from daemon.pipeline.pipeline import Pipeline
from daemon.pipeline.placing import place, with_counts, with_letters, with_rows_of
from daemon.telemetry.status.reporter import NO_RATES, _readings
from schemas.batch import JournalPosition, Stream
from schemas.ledger import ledger_dtype, missing_instruments
from schemas.queries import SkippedTriggers
from schemas.readings import Array, join
from schemas.states import AsideReason
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import eventually, journaling, logging_to_memory
from tests.support.readings import START_NS, make_block, make_group, time_of, whole

GROUP = make_group()
SMALL = {"window": 256, "max_open": 64, "timeout_ms": 20}
NOW = Instant(START_NS + 5_000_000_000, 5_000_000_000)


def epoch_7(block: Array) -> Array:
    block["epoch"] = 7
    return block


def rows_of(*blocks: Array) -> Array:
    """Ledger rows as assembly closes these."""
    assembly = Assembly(GROUP, timeout_ns=1000, window=256, max_open=64, runs=Runs())
    closed = [part for block in blocks for part in assembly.receive(epoch_7(block), None, Instant(START_NS, 0))]
    parts = [*closed, *assembly.flush(Instant(START_NS, 1))]
    rows = np.concatenate([np.empty(0, ledger_dtype(GROUP.size)), *(part.ledger for part in parts)])
    return np.sort(rows, order="trigger")


def test_what_the_ledger_calls_missing_is_late_and_the_rest_is_there() -> None:
    rows = rows_of(make_block(GROUP, [(1, 0), (1, 1)]), whole(GROUP, 2))
    block, doubles, odd = place(GROUP, 1, epoch_7(make_block(GROUP, [(1, 1), (1, 3), (2, 0), (1, 3)])), rows, NOW)
    assert block.late["instrument"].tolist() == [3]
    (row,) = block.revised[block.late_of]
    assert (row["trigger"], row["arrived"], row["late"], missing_instruments(row, GROUP.size)) == (1, 3, 1, [2, 4])
    assert (doubles.tolist(), odd.any()) == ([True, False, True, True], False)
    assert not block.triggers


def test_a_number_that_was_skipped_becomes_a_trigger() -> None:
    block, doubles, odd = place(
        GROUP,
        4,
        epoch_7(make_block(GROUP, [(9, 1), (8, 0), (9, 2), (9, 1)])),
        np.empty(0, ledger_dtype(GROUP.size)),
        NOW,
    )
    assert block.ledger[["epoch", "run", "trigger", "arrived"]].tolist() == [(7, 4, 8, 1), (7, 4, 9, 2)]
    assert block.present.sum() == 3
    assert (doubles.tolist(), odd.any()) == ([False, False, False, True], False)
    assert block.ledger["closed_ns"].tolist() == [NOW.utc_ns] * 2


def test_nothing_at_all_is_nothing() -> None:
    block, doubles, odd = place(GROUP, 1, np.empty(0, GROUP.record), np.empty(0, ledger_dtype(GROUP.size)), NOW)
    assert (block.triggers, len(block.late), len(block.revised), len(doubles), len(odd)) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("epoch", [0, 8])
def test_nothing_of_another_run_with_its_number_is_placed_or_dropped(epoch: int) -> None:
    rows = rows_of(make_block(GROUP, [(1, 0), (1, 1)]))
    block = make_block(GROUP, [(1, 1), (1, 3), (9, 0)], when=lambda trigger: time_of(trigger) - 3_600_000_000_000)
    block["epoch"] = epoch
    closed, doubles, odd = place(GROUP, 1, block, rows, NOW)
    assert (len(closed.late), len(closed.revised), doubles.any()) == (0, 0, False)
    assert block[odd]["trigger"].tolist() == ([1, 1] if epoch else [1, 1, 9])


def test_without_an_epoch_the_time_of_its_trigger_proves_where_a_reading_belongs() -> None:
    rows = rows_of(make_block(GROUP, [(1, 0), (1, 1)]))
    closed, doubles, odd = place(GROUP, 1, make_block(GROUP, [(1, 1), (1, 3)]), rows, NOW)
    assert (closed.late["instrument"].tolist(), doubles.tolist(), odd.any()) == ([3], [True, False], False)


def test_rows_of_the_block_itself_are_newer_than_those_of_the_database() -> None:
    assembly = Assembly(GROUP, timeout_ns=1000, window=256, max_open=64, runs=Runs())
    assembly.receive(epoch_7(make_block(GROUP, [(1, 0), (2, 0)])), None, Instant(START_NS, 0))
    blocks = assembly.flush(Instant(START_NS, 1))
    (revising,) = assembly.receive(epoch_7(make_block(GROUP, [(1, 1)])), None, Instant(START_NS, 2))
    stored = np.concatenate([block.ledger for block in blocks])
    rows = with_rows_of([revising], 1, np.array([1, 2]), stored)
    assert rows[["trigger", "arrived"]].tolist() == [(1, 2), (2, 1)]


async def test_a_crate_that_was_cut_off_longer_than_the_window_is_stored_all_the_same() -> None:
    """Hole 10: 60 s at 1 kHz were refused as far, acknowledged, and kept nowhere."""
    async with logging_to_memory(GROUP, assembly={"window": 256, "max_open": 64, "timeout_ms": 20}) as logger:
        pipeline = logger.pipelines["bpm"]
        last = 1000
        for start in range(1, last, 100):
            numbers = range(start, start + 100)
            pipeline.receive(epoch_7(make_block(GROUP, [(n, i) for n in numbers for i in range(GROUP.size - 1)])))
        await eventually(lambda: pipeline.figures().committed.triggers == last)
        for start in range(1, last, 100):
            pipeline.receive(epoch_7(make_block(GROUP, [(n, GROUP.size - 1) for n in range(start, start + 100)])))
        await eventually(lambda: pipeline.figures().committed.readings == last * GROUP.size)
        rows = await logger.ledger(GROUP)
        figures = pipeline.figures()
    assert (rows["arrived"] == GROUP.size).all()
    assert not rows["missing"].any()
    assert figures.aside == {"older": 0}
    assert figures.committed.placed == last - 256
    assert not figures.dead_letters.blocks
    assert len(await logger.stored(GROUP)) == last * GROUP.size


async def test_a_doubtful_reading_is_a_double_only_of_itself() -> None:
    """A wrong number had taken the place of the real reading, which was acknowledged as a double after a crash."""
    sent = epoch_7(whole(GROUP, 1, 2))
    sent["top_in"][2:4] = -0.0, np.nan
    other = sent[6:7].copy()
    other["top_in"] += 1
    async with logging_to_memory(GROUP) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(sent.copy())
        await eventually(lambda: pipeline.figures().committed.triggers == 2)
        column = pipeline.connect(session=7, first=5).column  # nobody knows what came before
        again = join([sent, other])
        again["top_in"][2:4] = 0.0, -np.nan
        pipeline.receive(again, Origin.of(column, 5, len(again)))
        await eventually(lambda: pipeline.acknowledged()[0][column] == 16)
        figures, left = pipeline.figures(), unaccounted(pipeline)
        (letter,) = pipeline._dead_letters.newest_blocks(2**20)
    assert (figures.duplicate, figures.aside, figures.committed.triggers, left) == (10, {"doubtful": 1}, 2, 0)
    assert letter.aside is not None
    assert letter.aside.readings["top_in"] == other["top_in"]
    assert letter.aside.reason.tolist() == [AsideReason.CONFLICT]


@pytest.mark.parametrize("since", [0, 1000])
async def test_a_time_between_two_runs_of_a_trigger_is_no_proof(since: int) -> None:
    """Without epochs a trigger may have readings of two runs, and a time between theirs says of neither that it is it.

    since: so many triggers closed after it; it is older than the window with all of them.
    """
    sent = whole(GROUP, 1)
    sent["time_ns"][2:] += 4_000_000_000
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(sent.copy())
        for start in range(2, since, 50):
            pipeline.receive(whole(GROUP, *range(start, start + 50)))
        await eventually(lambda: pipeline.figures().committed.triggers >= max(1, since))
        again = sent[:2].copy()
        again["time_ns"][1] += 2_000_000_000
        pipeline.receive(again)
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        await eventually(lambda: pipeline.figures().waiting.blocks == 0)
        (letter,) = pipeline._dead_letters.newest_blocks(2**20)
        assert unaccounted(pipeline) == 0
        assert pipeline.figures().duplicate == 1
    assert letter.aside is not None
    assert letter.aside.readings["instrument"].tolist() == [1]
    assert letter.aside.reason.tolist() == [AsideReason.CONFLICT]


async def test_what_cannot_be_placed_is_a_dead_letter_once() -> None:
    async with logging_to_memory(GROUP, assembly={"window": 256, "max_open": 64, "timeout_ms": 20}) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(epoch_7(whole(GROUP, 1, 2)))
        pipeline.receive(epoch_7(make_block(GROUP, [(900_000, 1)])))
        pipeline.receive(epoch_7(whole(GROUP, 3)))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        figures = pipeline.figures()
    assert figures.aside == {"ahead": 1}
    assert (figures.dead_letters.triggers, figures.dead_letters.readings) == (0, 1)
    assert figures.committed.dead_readings == 0


def unaccounted(pipeline: Pipeline) -> int:
    return _readings(pipeline.figures(), NO_RATES).unaccounted


def lose_everything(store: MemoryStore) -> None:
    kept = store._groups["bpm"]
    kept.positions[Stream.JOURNAL] = JournalPosition(sequence=0)
    kept.ledger.clear()
    kept.readings.clear()


async def test_what_is_late_for_a_trigger_that_the_database_lost_is_accounted_for() -> None:
    async with logging_to_memory(GROUP, assembly={"window": 256, "max_open": 64, "timeout_ms": 20}) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(epoch_7(make_block(GROUP, [(1, i) for i in range(4)])))
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        lose_everything(logger.store)
        pipeline.receive(epoch_7(whole(GROUP, 2)))
        await eventually(lambda: pipeline.figures().lost.readings == 4)
        pipeline.receive(epoch_7(make_block(GROUP, [(1, 4)])))
        await eventually(lambda: pipeline.figures().committed.triggers == 2)
        assert unaccounted(pipeline) == 0
        assert pipeline.figures().aside == {}


async def test_what_was_placed_is_accounted_for_while_it_is_committed_and_when_it_comes_again(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    async with journaling(store, GROUP, tmp_path, risk_ms=1e6, assembly=SMALL) as pipeline:
        for start in range(1, 1000, 100):
            numbers = range(start, start + 100)
            pipeline.receive(epoch_7(make_block(GROUP, [(n, i) for n in numbers for i in range(4)])))
        await eventually(lambda: pipeline.figures().committed.triggers == 1000)
        store.serving.clear()
        pipeline.receive(epoch_7(make_block(GROUP, [(n, 4) for n in (5, 6)])))
        await eventually(lambda: pipeline.figures().assembled.aside == {"older": 2})
        for _ in range(20):
            await asyncio.sleep(0.001)
            assert unaccounted(pipeline) == 0
        store.serving.set()
        await eventually(lambda: pipeline.figures().committed.placed == 2)
        assert unaccounted(pipeline) == 0
        lose_everything(store)
        pipeline.receive(epoch_7(whole(GROUP, 1001)))
        await eventually(lambda: pipeline.figures().committed.triggers == 1001)
        assert unaccounted(pipeline) == 0
        assert (pipeline.figures().lost.readings, pipeline.figures().committed.placed) == (0, 2)


async def test_a_reading_of_another_run_whose_trigger_is_old_is_a_dead_letter_and_no_double() -> None:
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        for start in range(1, 1000, 50):
            pipeline.receive(whole(GROUP, *range(start, start + 50)))
        await eventually(lambda: pipeline.figures().committed.triggers == 1000)
        pipeline.receive(make_block(GROUP, [(5, 1)], when=lambda trigger: time_of(trigger) - 3_600_000_000_000))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        await eventually(lambda: pipeline.figures().waiting.blocks == 0)
        assert unaccounted(pipeline) == 0
        assert (pipeline.figures().duplicate, pipeline.figures().aside) == (0, {"older": 1})


def test_any_number_of_skipped_triggers_is_placed_at_once() -> None:
    nothing = np.empty(0, ledger_dtype(GROUP.size))
    block, doubles, _ = place(GROUP, 4, epoch_7(make_block(GROUP, [(n, 1) for n in range(1000)])), nothing, NOW)
    assert (block.triggers, int(block.present.sum()), doubles.any()) == (1000, 1000, False)


async def gaps_after_placing(first: list[int], then: list[int], *placed: list[int]) -> tuple[dict[int, int], int]:
    """Gaps before triggers, and what the status shows, once these have been placed, a list at a time."""
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        for numbers in (first, *(then[k : k + 50] for k in range(0, len(then), 50))):
            pipeline.receive(epoch_7(whole(GROUP, *numbers)))
        await eventually(lambda: pipeline.figures().committed.triggers == len(first) + len(then))
        for numbers in placed:
            pipeline.receive(epoch_7(whole(GROUP, *numbers)))
        every = sum(map(len, (first, then, *placed)))
        await eventually(lambda: pipeline.figures().committed.triggers == every)
        shown = pipeline.figures().assembled.skipped
        rows = await logger.store.ask(SkippedTriggers(group=GROUP, start_ns=0, end_ns=2**62, most=100))
    return dict(rows[["trigger", "skipped"]].tolist()), shown


async def test_a_skipped_number_that_is_placed_divides_its_gap() -> None:
    found, _ = await gaps_after_placing([5, 20, 40], [*range(41, 1000)], [25, 22, 30], [28, 24], [2, 10])
    assert found == {10: 4, 20: 9, 22: 1, 24: 1, 28: 2, 30: 1, 40: 9}


async def test_a_number_that_is_placed_is_no_longer_shown_as_skipped() -> None:
    """Numbers are skipped, since the machine jumped further than the window is long."""
    found, shown = await gaps_after_placing([1, 2], [10_000], [4, 5, 9_000])
    assert found == {4: 1, 9_000: 8994, 10_000: 999}
    assert shown == 1 + 8994 + 999


async def test_blocks_with_readings_to_place_are_committed_together() -> None:
    """Triggers that are placed with one block are there for the next."""
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        for start in range(1, 1000, 50):
            pipeline.receive(epoch_7(whole(GROUP, *(n for n in range(start, start + 50) if n != 9))))
        await eventually(lambda: pipeline.figures().committed.triggers == 999)
        before = pipeline.figures().committed.commits
        logger.store.serving.clear()
        pipeline.receive(epoch_7(whole(GROUP, 1001)))
        for instrument in range(GROUP.size):
            pipeline.receive(epoch_7(make_block(GROUP, [(9, instrument)])))
        await eventually(lambda: pipeline.figures().waiting.blocks > GROUP.size)
        logger.store.serving.set()
        await eventually(lambda: pipeline.figures().waiting.blocks == 0)
        assert pipeline.figures().committed.commits - before <= 2
        assert unaccounted(pipeline) == 0
    rows = await logger.ledger(GROUP)
    assert rows[["arrived", "late"]][rows["trigger"] == 9].tolist() == [(GROUP.size, GROUP.size - 1)]


async def test_a_number_of_another_run_hides_no_gap() -> None:
    """The number right below what is placed is there in the run before, and not in its own."""
    async with logging_to_memory(GROUP, assembly=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        for start in range(1, 1000, 50):
            pipeline.receive(epoch_7(whole(GROUP, *(n for n in range(start, start + 50) if n not in (8, 9)))))
        await eventually(lambda: pipeline.figures().committed.triggers == 998)
        logger.store.serving.clear()
        other = whole(GROUP, 8)
        other["epoch"] = 9
        pipeline.receive(other)
        pipeline.receive(epoch_7(whole(GROUP, 9)))
        await eventually(lambda: pipeline.figures().waiting.blocks >= 2)
        logger.store.serving.set()
        await eventually(lambda: pipeline.figures().waiting.blocks == 0)
        rows = await logger.store.ask(SkippedTriggers(group=GROUP, start_ns=0, end_ns=2**62, most=100))
    assert rows[["run", "trigger", "skipped"]].tolist() == [(1, 9, 1)]


def test_what_assembly_placed_once_needs_no_proof_of_its_time() -> None:
    rows = rows_of(make_block(GROUP, [(1, 0), (1, 1)]))
    late = make_block(GROUP, [(1, 2)], when=lambda _: START_NS - 3_600_000_000_000)
    (placed, _, odd), (again, _, sure) = (
        place(GROUP, 1, late, rows, NOW, belong=belong) for belong in (None, np.array([True]))
    )
    assert (len(placed.late), odd.tolist()) == (0, [True])
    assert (len(again.late), sure.tolist()) == (1, [False])


def test_counts_are_those_of_assembly_for_triggers_that_are_there() -> None:
    rows = rows_of(make_block(GROUP, [(1, 0), (4, 0), (6, 0), (7, 0)]))
    block, *_ = place(GROUP, 1, epoch_7(make_block(GROUP, [(6, 1)])), rows, NOW)
    counted = with_counts(block, rows, np.array([-1, 2, 0, 0]))
    assert counted.revised[["trigger", "duplicates", "arrived"]].tolist() == [(4, 2, 1), (6, 0, 2)]
    assert counted.revised["trigger"][counted.late_of].tolist() == [6]


async def test_what_is_older_and_late_for_a_dead_letter_follows_it(tmp_path: Path) -> None:
    """Its ledger row is in the dead letters, and not in the database."""
    async with logging_to_memory(GROUP, folder=tmp_path, assembly=SMALL) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.fail_with(BatchRejected("not this one"))
        pipeline.receive(epoch_7(make_block(GROUP, [(1, i) for i in range(3)])))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        logger.store.fail_with(None)
        for start in range(2, 1000, 50):
            pipeline.receive(epoch_7(whole(GROUP, *range(start, start + 50))))
        pipeline.receive(epoch_7(whole(GROUP, 1)))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 2)
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.readings, outcome.rejected) == (2, 5, 0)
    stored = await logger.stored(GROUP)
    assert stored["instrument"][stored["trigger"] == 1].tolist() == [0, 1, 2, 3, 4]
    (row,) = [row for row in await logger.ledger(GROUP) if row["trigger"] == 1]
    assert (row["arrived"], row["late"]) == (5, 2)


async def test_a_late_reading_of_a_long_outage_is_not_stored_again(tmp_path: Path) -> None:
    """The block with it lies in the journal before those that are read at the start."""
    store = MemoryStore({"bpm": GROUP})
    window = {"window": 256, "max_open": 64, "timeout_ms": 20}
    async with journaling(store, GROUP, tmp_path, assembly=window) as pipeline:
        pipeline.receive(epoch_7(make_block(GROUP, [(1, i) for i in range(4)])))
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        store.fail_with(StoreUnavailable("away"))
        pipeline.receive(epoch_7(make_block(GROUP, [(1, 4)])))
        for start in range(1, 2400, 50):
            block = whole(GROUP, *range(start, start + 50))
            block["epoch"] = 8
            pipeline.receive(block)
    store.fail_with(None)
    async with journaling(store, GROUP, tmp_path, assembly=window) as pipeline:
        pipeline.receive(epoch_7(make_block(GROUP, [(1, 4)])))
        await eventually(lambda: not pipeline.figures().waiting.blocks and pipeline.figures().duplicate == 1)
    rows = store._groups["bpm"].everything()
    assert np.count_nonzero((rows["run"] == 1) & (rows["instrument"] == 4)) == 1


async def test_what_was_late_takes_its_place_before_what_is_doubtful(tmp_path: Path) -> None:
    """From the journal the doubtful one of the same block took the place, and the late one passed for a double."""
    store = MemoryStore({"bpm": GROUP})
    real, other = epoch_7(make_block(GROUP, [(1, 4)])), epoch_7(make_block(GROUP, [(1, 4)]))
    other["top_in"] += 1
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        pipeline.receive(epoch_7(make_block(GROUP, [(1, i) for i in range(4)])))
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        store.fail_with(StoreUnavailable("away"))
        column = pipeline.connect(session=7, first=5).column  # nobody knows what came before
        pipeline.receive(join([real, other]), Origin.of(column, 5, 2))
    store.fail_with(None)
    async with journaling(store, GROUP, tmp_path, assembly=SMALL) as pipeline:
        await eventually(lambda: not pipeline.figures().waiting.blocks)
        (letter,) = pipeline._dead_letters.newest_blocks(2**20)
        assert unaccounted(pipeline) == 0
    rows = store._groups["bpm"].everything()
    assert rows["top_in"][rows["instrument"] == 4].tolist() == real["top_in"].tolist()
    assert letter.aside is not None
    assert letter.aside.readings["top_in"].tolist() == other["top_in"].tolist()
    assert letter.aside.reason.tolist() == [AsideReason.CONFLICT]


def test_a_dead_letter_closes_its_trigger_and_is_no_word_on_others_readings() -> None:
    """The row of a late one counts what the database has lost since."""
    in_database = rows_of(make_block(GROUP, [(1, 0)]))
    closing, *_ = place(GROUP, 1, epoch_7(make_block(GROUP, [(2, 0)])), in_database, NOW)
    counted = rows_of(make_block(GROUP, [(1, 0), (1, 1)]), make_block(GROUP, [(2, 0), (2, 1)]))
    late, *_ = place(GROUP, 1, epoch_7(make_block(GROUP, [(1, 2), (2, 2)])), counted, NOW)
    rows = with_letters(in_database, 1, [closing, late], NOW)
    assert rows["trigger"].tolist() == [1, 2]
    assert [missing_instruments(row, GROUP.size) for row in rows] == [[1, 3, 4], [1, 3, 4]]


def test_a_trigger_that_two_dead_letters_close_has_one_row() -> None:
    """The database takes the first, and rejects the other."""
    nothing = rows_of()
    first, *_ = place(GROUP, 1, epoch_7(make_block(GROUP, [(2, 0), (2, 1)])), nothing, NOW)
    again, *_ = place(GROUP, 1, epoch_7(make_block(GROUP, [(1, 0), (2, 3)])), nothing, NOW)
    rows = with_letters(nothing, 1, [first, again], NOW)
    assert rows["trigger"].tolist() == [1, 2]
    assert [missing_instruments(row, GROUP.size) for row in rows] == [[1, 2, 3, 4], [2, 3, 4]]
