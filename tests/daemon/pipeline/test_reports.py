"""Reports on change through the pipeline of their group, into a folder in memory."""

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.base import StoreUnavailable
from daemon.core.monitoring.events import Events
from daemon.pipeline.assembly import Origin
from daemon.pipeline.intake import open_intake
from daemon.pipeline.pipeline import Pipeline
from schemas.batch import JournalPosition, Stream
from schemas.folders.blocks import Insertion
from schemas.folders.reports import intervals_of
from schemas.wire import Ack
from tests.support.disks import REAL, StoppedClock
from tests.support.pipelines import configured, eventually, journaling
from tests.support.reports import CURRENTS, NAN, expected, in_folder, readings_of, reporting_to_memory

REPORTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 12), st.sampled_from([1.0, 2.0, NAN])), min_size=1, max_size=40
)


async def done(pipeline: Pipeline, *columns: int) -> None:
    """Wait until all is in the database or the dead letters."""
    await eventually(lambda: pipeline.waiting.readings == 0 and pipeline.figures().store_problem is None)


def values_of(reports: list[tuple[int, int, int, float]]) -> list[float]:
    return [value for *_, value in reports]


@given(REPORTS, st.data())
@settings(max_examples=15, deadline=None)
async def test_a_folder_has_what_was_reported_whatever_the_order_the_parts_and_the_kills(reports, data) -> None:
    """Of two values for one channel and time one is stored, and the other is a dead letter."""
    store, folders = await reporting_to_memory()
    sent = list(reports)
    with tempfile.TemporaryDirectory() as name:
        while sent:
            async with journaling(store, CURRENTS, Path(name)) as pipeline:
                await asyncio.sleep(0)  # its journal is written from when it runs
                for _ in range(data.draw(st.integers(1, 4))):
                    count = data.draw(st.integers(1, 10))
                    pipeline.receive(readings_of(sent[:count]))
                    # Some come again.
                    sent = sent[data.draw(st.integers((count + 1) // 2, count)) :]
                if data.draw(st.booleans()):
                    await done(pipeline)
        async with journaling(store, CURRENTS, Path(name)) as pipeline:
            await done(pipeline)
            letters = pipeline._dead_letters.pending
    assert await in_folder(folders) == expected(reports)
    others = {
        (instrument, time_ns)
        for instrument, time_ns, value in reports
        if len({str(other[2]) for other in reports if other[:2] == (instrument, time_ns)}) > 1
    }
    assert {letter.key for letter in letters if not letter.is_aside} <= others
    assert bool(letters) == bool(others)


async def test_a_conflict_is_a_dead_letter_before_the_position_moves_and_the_others_are_stored(tmp_path: Path) -> None:
    store, folders = await reporting_to_memory()
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        pipeline.receive(readings_of([(0, 10, 1.0), (1, 10, 1.0)]))
        await done(pipeline)
        pipeline.receive(readings_of([(0, 10, 2.0), (0, 20, 3.0), (1, 10, 1.0), (2, 5, 7.0)]))
        await done(pipeline)
        figures = pipeline.figures()
        assert (figures.committed.readings, figures.committed.dead_readings) == (5, 1)
        (letter,) = pipeline._dead_letters.pending
        assert (letter.key, letter.readings) == ((0, 10), 1)
        assert letter.reason == "another value of that instrument and time is there"
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        pipeline.receive(readings_of([(0, 10, 2.0)]))
        assert pipeline.figures().duplicate == 1  # it is known to be a dead letter
        await folders.remove("/magnets/current")
        await store.open()
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.rejected) == (1, 0)
    assert await in_folder(folders) == expected([(0, 10, 2.0)])


async def test_a_report_that_is_stored_may_be_sent_again_behind_another_value_that_was_rejected(tmp_path: Path) -> None:
    store, folders = await reporting_to_memory()
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        for reports in ([(0, 10, 1.0)], [(0, 10, 2.0), (1, 20, 2.0)], [(0, 10, 1.0)], [(0, 10, 1.0)]):
            pipeline.receive(readings_of(reports))
            await done(pipeline)
        figures = pipeline.figures()
        assert (figures.committed.readings, figures.committed.dead_readings) == (4, 1)
        folders.fail_with(StoreUnavailable("away"))
        for value in (1.0, 3.0, 1.0):  # committed together
            pipeline.receive(readings_of([(0, 10, value)]))
        folders.fail_with(None)
        await done(pipeline)
        figures = pipeline.figures()
        assert (figures.committed.readings, figures.committed.dead_readings) == (6, 2)
        letters = [pipeline._dead_letters.read(letter) for letter in pipeline._dead_letters.pending]
        assert [letter.late["ampere"].tolist() for letter in letters] == [[2.0], [3.0]]
    assert await in_folder(folders) == expected([(0, 10, 1.0), (1, 20, 2.0)])


async def test_of_several_values_that_come_in_several_blocks_before_one_is_stored_the_first_is(tmp_path: Path) -> None:
    store, folders = await reporting_to_memory()
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        folders.fail_with(StoreUnavailable("away"))
        for value in (1.0, 2.0, 1.0, 3.0, 2.0):
            pipeline.receive(readings_of([(0, 10, value)]))
        folders.fail_with(None)
        await done(pipeline)
        figures = pipeline.figures()
        assert (figures.committed.readings, figures.committed.dead_readings) == (2, 3)
    assert await in_folder(folders) == expected([(0, 10, 1.0)])


async def test_a_retry_clears_the_letters_of_a_value_that_is_stored_and_leaves_the_others(tmp_path: Path) -> None:
    """As where a value was rejected, and is stored now by whatever wrote it."""
    store, folders = await reporting_to_memory()
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        pipeline.receive(readings_of([(0, 10, 1.0)]))
        await done(pipeline)
        for value in (2.0, 3.0):
            pipeline.receive(readings_of([(0, 10, value)]))
            await done(pipeline)
        await folders.remove("/magnets/current")
        await store.open()
        (other,) = [folder.path for folder in await folders.folders()]
        block = intervals_of(readings_of([(0, 10, 3.0)]), CURRENTS)
        await folders.report(other, Insertion(block=block, source="hand", position=JournalPosition(sequence=1)))
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.rejected) == (1, 1)
        (letter,) = pipeline._dead_letters.pending
        assert pipeline._dead_letters.read(letter).late["ampere"] == 2.0
    assert await in_folder(folders) == expected([(0, 10, 3.0)])


async def test_what_cannot_be_a_report_is_refused_or_set_aside(tmp_path: Path) -> None:
    store, folders = await reporting_to_memory()
    now = time.time_ns()
    block = readings_of([(0, 0, 1.0), (5, 7, 1.0), (0, -4, 1.0), (1, 8, 2.0), (1, now + 2 * 3600 * 10**9, 9.0)])
    block["volt"][3] = np.inf
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        intake = pipeline.intake
        column = intake.connect(ack=Ack.COMMITTED).column
        intake.receive(block, Origin.of(column, 0, 5))
        await eventually(lambda: intake.acknowledged()[0][column] == 5)
        figures = pipeline.figures()
        assert figures.refused == {"unknown_instrument": 1, "impossible_time": 1}
        assert figures.aside == {"partial": 1, "future": 1}
        assert figures.committed.readings == 1
        assert intake.acknowledged()[1][column] == 2
    ((channel, since, _, value),) = await in_folder(folders)
    assert (channel, value) == (0, 1.0)
    assert now <= since <= time.time_ns()  # a time of 0 is that of the receipt


async def test_a_database_that_is_away_is_waited_for(tmp_path: Path) -> None:
    store, folders = await reporting_to_memory()
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        folders.fail_with(StoreUnavailable("away"))
        pipeline.receive(readings_of([(0, 1, 1.0)]))
        await eventually(lambda: pipeline.figures().store_problem == "away")
        pipeline.receive(readings_of([(0, 2, 2.0)]))
    async with journaling(store_now(store, folders), CURRENTS, tmp_path) as pipeline:
        await done(pipeline)
        assert pipeline.figures().committed.readings == 2
    assert await in_folder(folders) == expected([(0, 1, 1.0), (0, 2, 2.0)])


def store_now(store, folders):
    folders.fail_with(None)
    return store


async def test_the_log_lets_go_of_reports_that_are_stored(tmp_path: Path) -> None:
    store, folders = await reporting_to_memory()
    reports = [(0, 10, 1.0), (1, 20, 2.0), (0, 30, NAN)]
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        column = pipeline.connect(ack=Ack.RECEIVED, session=5).column
        folders.fail_with(StoreUnavailable("away"))
        pipeline.send(column, readings_of(reports[:2]))
        await eventually(lambda: pipeline.acknowledged()[0][column] == 2)
        folders.fail_with(None)
        pipeline.send(column, readings_of(reports[2:]))
        await eventually(lambda: pipeline.acknowledged()[0][column] == 3)
        await eventually(lambda: pipeline.intake.state.nbytes == 0)
    assert await in_folder(folders) == expected(reports)


async def test_a_session_goes_on_behind_what_is_stored_after_a_kill(tmp_path: Path) -> None:
    """So that a report without a time of its own is stored once."""
    store, folders = await reporting_to_memory()
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        intake = pipeline.intake
        column = intake.connect(ack=Ack.COMMITTED, session=77).column
        intake.receive(readings_of([(0, 0, 1.0), (1, 0, 2.0)]), Origin.of(column, 0, 2))
        await eventually(lambda: intake.acknowledged()[0][column] == 2)
    stored = await store.position(CURRENTS.name, Stream.JOURNAL)
    assert stored is not None
    assert stored.readings == 2
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        assert pipeline.connect(session=77).resume == 2
    assert len(await in_folder(folders)) == 2


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 2.0, 1.0], [1.0, NAN, 3.0], [float(k) for k in range(5000)]])
async def test_reports_without_a_time_that_come_together_are_stored_in_the_order_in_which_they_came(
    tmp_path: Path, values: list[float]
) -> None:
    """As after an outage: the value that holds in the end is the one that was reported last."""
    store, folders = await reporting_to_memory()
    block = readings_of([(0, 0, value) for value in values])
    async with journaling(store, CURRENTS, tmp_path) as pipeline:
        intake = pipeline.intake
        column = intake.connect(ack=Ack.COMMITTED, session=77, first=0, upto=0).column
        before = time.time_ns()
        intake.receive(block, Origin.of(column, 0, len(block)))
        await eventually(lambda: intake.acknowledged()[0][column] == len(block))
        figures = pipeline.figures()
    assert (figures.committed.readings, figures.duplicate) == (len(block), 0)
    assert (figures.aside, figures.refused) == ({}, {})
    assert before <= block["time_ns"][0]
    assert (np.diff(block["time_ns"]) > 0).all()
    assert await in_folder(folders) == expected(zip([0] * len(block), block["time_ns"].tolist(), values, strict=True))


@pytest.mark.parametrize("back_s", [0.0, 0.1, 10.0, 600.0])
@pytest.mark.parametrize("ack", [Ack.COMMITTED, Ack.RECEIVED])
async def test_the_times_that_are_given_ascend_where_the_clock_is_set_back_also_across_a_kill(
    tmp_path: Path, ack: Ack, back_s: float
) -> None:
    store, folders = await reporting_to_memory()
    clock = StoppedClock()
    outside = replace(REAL, clock=clock)
    sent = 0
    for _ in range(3):
        async with journaling(store, CURRENTS, tmp_path, outside=outside) as pipeline:
            intake = pipeline.intake
            column = intake.connect(ack=ack, session=77, first=sent, upto=sent).column
            for _ in range(2):
                intake.receive(readings_of([(0, 0, float(sent))]), Origin.of(column, sent, 1))
                sent += 1
                clock.move(-back_s)
            await done(pipeline)
            assert not pipeline.figures().aside
    assert values_of(await in_folder(folders)) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


async def test_a_clock_that_is_set_back_by_more_than_an_hour_is_followed(tmp_path: Path) -> None:
    """Else nothing that comes would hold before the clock is there again, or it would be set aside until then."""
    store, folders = await reporting_to_memory()
    clock = StoppedClock()
    outside = replace(REAL, clock=clock)
    async with journaling(store, CURRENTS, tmp_path, outside=outside) as pipeline:
        intake = pipeline.intake
        for value in (1.0, 2.0, 3.0):
            intake.receive(readings_of([(0, 0, value)]))
            clock.move(-2 * 3600)
        await done(pipeline)
        assert not pipeline.figures().aside
    last = clock.now().utc_ns
    assert [since - last for _, since, *_ in await in_folder(folders)] == [2 * 3600 * 10**9 * k for k in (1, 2, 3)]
    assert values_of(await in_folder(folders)) == [3.0, 2.0, 1.0]


async def test_a_report_of_the_intakes_log_has_the_same_time_again_after_a_kill_and_later_ones_lie_behind_it(
    tmp_path: Path,
) -> None:
    """The daemon is killed before the database has answered, and starts again with its clock set back."""
    store, folders = await reporting_to_memory()
    clock = StoppedClock()
    outside = replace(REAL, clock=clock)
    times: list[int] = []
    for life in range(2):
        intake = await open_intake(CURRENTS, configured(), tmp_path, Events(), outside=outside)
        intake.start()
        column = intake.connect(ack=Ack.RECEIVED, session=77, first=2 * life).column
        block = readings_of([(0, 0, 2.0 * life), (0, 0, 2.0 * life + 1)])
        intake.receive(block, Origin.of(column, 2 * life, 2))
        times += block["time_ns"].tolist()
        await eventually(lambda: intake.acknowledged()[0][column] == 2 * life + 2)  # noqa: B023
        await intake.end()
        clock.move(-60)
    assert times == sorted(set(times))
    async with journaling(store, CURRENTS, tmp_path, outside=outside) as pipeline:
        await done(pipeline)
    assert await in_folder(folders) == expected((0, time_ns, float(k)) for k, time_ns in enumerate(times))
