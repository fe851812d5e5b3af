"""Readings of triggers that assembly has forgotten go where the ledger of the database says."""

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Runs
from daemon.pipeline.placing import place
from schemas.ledger import ledger_dtype, missing_instruments
from schemas.readings import Array
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.readings import START_NS, make_block, make_group, whole

GROUP = make_group()
NOW = Instant(START_NS + 5_000_000_000, 5_000_000_000)


def epoch_7(block: Array) -> Array:
    block["epoch"] = 7
    return block


def rows_of(*blocks: Array) -> Array:
    """Ledger rows as assembly closes these."""
    assembly = Assembly(GROUP, timeout_ns=1000, window=256, max_open=64, runs=Runs())
    closed = [part for block in blocks for part in assembly.receive(epoch_7(block), None, Instant(START_NS, 0))]
    rows = np.concatenate([part.ledger for part in [*closed, *assembly.flush(Instant(START_NS, 1))]])
    return np.sort(rows, order="trigger")


def test_what_the_ledger_calls_missing_is_late_and_the_rest_is_there() -> None:
    rows = rows_of(make_block(GROUP, [(1, 0), (1, 1)]), whole(GROUP, 2))
    block, doubles = place(GROUP, 1, epoch_7(make_block(GROUP, [(1, 1), (1, 3), (2, 0), (1, 3)])), rows, NOW)
    assert block.late["instrument"].tolist() == [3]
    (row,) = block.revised[block.late_of]
    assert (row["trigger"], row["arrived"], row["late"], missing_instruments(row, GROUP.size)) == (1, 3, 1, [2, 4])
    assert doubles == 3
    assert not block.triggers


def test_a_number_that_was_skipped_becomes_a_trigger() -> None:
    block, doubles = place(
        GROUP,
        4,
        epoch_7(make_block(GROUP, [(9, 1), (8, 0), (9, 2), (9, 1)])),
        np.empty(0, ledger_dtype(GROUP.size)),
        NOW,
    )
    assert block.ledger[["epoch", "run", "trigger", "arrived"]].tolist() == [(7, 4, 8, 1), (7, 4, 9, 2)]
    assert block.present.sum() == 3
    assert doubles == 1
    assert block.ledger["closed_ns"].tolist() == [NOW.utc_ns] * 2


def test_nothing_at_all_is_nothing() -> None:
    block, doubles = place(GROUP, 1, np.empty(0, GROUP.record), np.empty(0, ledger_dtype(GROUP.size)), NOW)
    assert (block.triggers, len(block.late), len(block.revised), doubles) == (0, 0, 0, 0)


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
