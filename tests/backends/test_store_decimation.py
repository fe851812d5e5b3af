"""Reducing a period, asked of every store that can."""

import asyncio
import contextlib
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from backends.base import BatchRejected, Decimating, PeriodTouched, StoreBusy, StoreError, StoreUnavailable, Tiered
from backends.decimation import figures_of
from backends.ending import end_tasks
from schemas.batch import Batch, JournalPosition, Layout
from schemas.decimation import Bucket, Every, How, figures_bytes, reduced_dtype
from schemas.marks import Mark
from schemas.queries import LedgerTail, Means
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Period, Rule
from tests.backends.test_store_contract import EVER, Make, everything, layout_of, maker, opened, rng
from tests.backends.test_store_retention import DAY_NS, Dying, Killed, noon, period_of, totals
from tests.support.batches import answers, batch_of, group_of, readings_of, with_late

__all__ = ["opened", "rng"]

GROUP = group_of(size=4, dtypes=("float64", "float32", "int16"))
TRIGGERS = 200
EVERY_NS = 25_000_000
BUCKET = Bucket(1_000_000_000)
EVER_ROUND = (noon(9), noon(0))
SQL = ["rows", "arrays", "mysql-rows", "mysql-arrays", "mysql-statements-rows"]


@pytest.fixture(params=SQL)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, schema: str) -> Make:
    return maker(request, kind, schema)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps, none of which ends with a bucket."""
    monkeypatch.setattr("backends.postgresql.decimation.STEP_BYTES", 2 * 8192)
    monkeypatch.setattr("backends.mysql.decimation.STEP_READINGS", 130)
    monkeypatch.setattr("backends.sql.decimation.BUCKETS_AT_ONCE", 2)


async def at_once(done: float) -> None:
    """Wait for nothing."""


class Filled:
    """A store with three days of readings, a run each, of which the last trigger lacks an instrument."""

    def __init__(self, store: Any, kind: str) -> None:
        assert isinstance(store, Decimating)
        self.store: Any = store
        self.is_rows = layout_of(kind) is Layout.ROWS
        self.sequence = 0
        self.written: dict[int, Array] = {}

    async def fill(self, rng: np.random.Generator) -> None:
        for run, day in enumerate((3, 2, 1), 1):
            readings = readings_of(GROUP, np.arange(TRIGGERS), noon(day) + np.arange(TRIGGERS) * EVERY_NS, rng)
            readings["ch0"][5] = np.nan
            present = np.ones(readings.shape, bool)
            present[-1, 0] = False
            await self.commit(readings, run=run, present=present)
            self.written[run] = readings[present]

    async def commit(self, readings: Array, **batch: Any) -> None:
        self.sequence += 1
        position = JournalPosition(sequence=self.sequence)
        await self.store.commit(batch_of(GROUP, self.sequence, readings, position=position, **batch))

    async def late(self, rng: np.random.Generator, run: int = 1) -> Array:
        """The reading that was missing of a run comes."""
        row = (await self.store.ask(LedgerTail(group=GROUP, most=1, run=run)))[0]
        late = readings_of(GROUP, row[["trigger"]].tolist(), np.array([row["time_ns"]]), rng)[0, :1]
        revised = np.array([with_late(row, late, np.ones(GROUP.size, bool))])
        nothing = readings_of(GROUP, np.empty(0, np.int64), np.empty(0, np.int64), rng)
        await self.commit(nothing, late=late, late_of=np.zeros(1, np.intp), revised=revised)
        self.written[run] = np.concatenate([self.written[run], late])
        return late

    async def period(self, day: int = 3) -> Period:
        return await period_of(self.store, GROUP, noon(day))

    async def reduce(self, how: How = BUCKET, *, window_ns: int = 0, day: int = 3, patience_s: float = 5) -> Any:
        return await self.store.decimate(
            await self.period(day), how, window_ns=window_ns, at_ns=77, pace=at_once, patience_s=patience_s
        )

    async def raw(self, run: int = 1) -> Array:
        found = await everything(self.store, GROUP)
        return found[found["run"] == run]

    async def see_whole(self) -> None:
        """See that each reading is found raw, in figures, or in the account, and once.

        A count without a snapshot says how much moved meanwhile.
        """
        found = await totals(self.store, GROUP)
        ledger = found["arrived" if self.is_rows else "triggers"]
        moved = found["moved_readings" if self.is_rows else "moved_triggers"]
        assert abs(int((found["stored"] + found["dropped"] - ledger).sum())) <= int(moved[0])
        if not moved[0]:
            assert (found["stored"] + found["dropped"]).tolist() == ledger.tolist()

    async def see_figures(self, run: int, *, kept: Array | None = None) -> None:
        """See that what is raw and what is reduced of a run are all of it. kept: what is to be raw."""
        raw, figures = await self.raw(run), await self.store.reduced(GROUP, *EVER)
        there = {*zip(raw["trigger"].tolist(), raw["instrument"].tolist(), strict=True)}
        is_raw = np.array([key in there for key in self.written[run][["trigger", "instrument"]].tolist()], bool)
        if kept is not None:
            assert is_raw.tolist() == kept.tolist()
        wanted = figures_of(answers(GROUP, [(run, self.written[run][~is_raw])]), GROUP, BUCKET.ns)
        same_figures(figures, wanted)


def same_figures(found: Array, wanted: Array) -> None:
    assert found.dtype == reduced_dtype(GROUP)
    for name in ("time_ns", "instrument", "readings"):
        assert found[name].tolist() == wanted[name].tolist(), name
    for channel in GROUP.channels:
        for figure in found[channel.name].dtype.names or ():
            here, there = found[channel.name][figure], wanted[channel.name][figure]
            np.testing.assert_allclose(here, there, rtol=1e-9, err_msg=f"{channel.name} {figure}")


@pytest.fixture
async def filled(make: Make, opened: Callable[..., Any], rng: np.random.Generator, kind: str) -> Filled:
    made = Filled(await opened(make(GROUP)), kind)
    await made.fill(rng)
    return made


async def test_readings_become_figures_and_the_account_and_the_ledger_have_them_all(filled: Filled) -> None:
    before = await totals(filled.store, GROUP)
    done = await filled.reduce()
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))
    readings = len(filled.written[1])
    assert (done.how, done.begun_ns, done.reduced_ns, done.ended_ns) == (BUCKET, 77, 77, 77)
    assert done.stored == {1: readings if filled.is_rows else TRIGGERS}
    assert (done.triggers, done.readings) == (TRIGGERS, readings)
    assert done.size_bytes > 0
    assert await filled.store.decimated() == {GROUP.name: (done,)}
    assert await filled.store.dropped() == {GROUP.name: ()}
    after = await totals(filled.store, GROUP)
    for name in ("triggers", "expected", "arrived", "sequence"):
        assert after[name].tolist() == before[name].tolist(), name
    await filled.see_whole()
    assert len(await filled.raw(2)) == len(filled.written[2])
    assert len(await filled.store.ask(LedgerTail(group=GROUP, most=2 * TRIGGERS, run=1))) == TRIGGERS


@pytest.mark.parametrize("kind", SQL)
async def test_the_room_is_given_back(filled: Filled, rng: np.random.Generator) -> None:
    async def readings_bytes() -> int:
        (found,) = [each for each in (await filled.store.partitions())[GROUP.name] if each.name == name]
        return int(found.readings_bytes or 0)

    name = (await filled.period()).name
    await filled.commit(readings_of(GROUP, np.arange(4000) + 1000, noon(3) + np.arange(4000), rng), run=1)
    # MariaDB says some seconds later how much there is.
    await eventually_of(readings_bytes, lambda now: now > 150_000)
    await filled.reduce()
    await eventually_of(readings_bytes, lambda now: now < 75_000)
    if isinstance(filled.store, Tiered):
        assert await filled.store.moves() == ()


@pytest.mark.parametrize("kind", ["rows"])
async def test_what_figures_take_is_less_when_some_were_dropped(filled: Filled) -> None:
    """Their table stays as large: by its size `max_gib` would drop all of them."""

    async def size() -> int:
        found = (await filled.store.partitions())[GROUP.name]
        return sum(each.size_bytes for each in found if not each.name.isdigit())

    nothing = await size()
    for day in (3, 2):
        done = await filled.reduce(Bucket(10_000_000), day=day)
    figures = figures_bytes(done, GROUP)
    # The server counts what sessions have done some seconds later.
    await eventually_of(size, lambda now: now > nothing + 1.5 * figures)
    await filled.store.drop(await filled.period(), Rule.SIZE, at_ns=9, patience_s=5)
    await eventually_of(size, lambda now: nothing + figures / 2 < now < nothing + 1.2 * figures)


async def eventually_of(ask: Callable[[], Awaitable[int]], holds: Callable[[int], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds(await ask()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_every_so_many_th_trigger_stays_whole(filled: Filled) -> None:
    done = await filled.reduce(Every(7))
    raw = await filled.raw()
    assert np.unique(raw["trigger"]).tolist() == list(range(0, TRIGGERS, 7))
    assert done.readings == len(filled.written[1]) - len(raw)
    assert len(await filled.store.reduced(GROUP, *EVER)) == 0
    await filled.see_whole()


async def test_what_lies_around_marks_stays(filled: Filled) -> None:
    def mark(at_ns: int, until_ns: int | None = None, group: str | None = None) -> Mark:
        return Mark(id=uuid4(), time_ns=at_ns, until_ns=until_ns, text="it trips", group=group)

    begin, window = noon(3), 4 * EVERY_NS
    withdrawn = mark(begin + 90 * EVERY_NS)
    for each in (
        mark(begin + 20 * EVERY_NS),
        mark(begin + 50 * EVERY_NS, begin + 60 * EVERY_NS, GROUP.name),
        mark(begin + 57 * EVERY_NS),
        mark(begin + 120 * EVERY_NS, group="other"),
        mark(begin - 10 * EVERY_NS),
        withdrawn,
    ):
        await filled.store.keep_mark(each)
    await filled.store.withdraw_mark(withdrawn.id, 5)
    # A reading comes up to 1 us after the moment of its trigger.
    await filled.reduce(window_ns=window + 1000)
    triggers = np.unique((await filled.raw())["trigger"]).tolist()
    assert triggers == [*range(16, 25), *range(46, 65)]
    await filled.see_figures(1)
    await filled.see_whole()


async def test_a_late_reading_is_stored_raw_and_reduced_by_the_next_call(
    filled: Filled, rng: np.random.Generator
) -> None:
    await filled.reduce()
    await filled.store.decimated()
    assert filled.store.late(GROUP.name) == frozenset()
    late = await filled.late(rng)
    raw = await filled.raw()
    assert raw[["trigger", "instrument"]].tolist() == [(TRIGGERS - 1, 0)]
    assert raw["ch1"].tolist() == late["ch1"].tolist()
    await filled.see_figures(1)
    await filled.see_whole()
    assert filled.store.late(GROUP.name) == {(await filled.period()).name}
    done = await filled.reduce(Bucket(5))
    assert (done.how, done.readings) == (BUCKET, len(filled.written[1]))
    assert filled.store.late(GROUP.name) == frozenset()
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))
    await filled.see_whole()


async def test_what_comes_late_is_known_where_the_answer_to_its_commit_is_lost(
    filled: Filled, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who finds that it is there sends it no more."""
    await filled.reduce()
    await filled.store.decimated()
    writer = filled.store._writers[GROUP.name]
    really = writer.commit

    async def unanswered(batch: Batch) -> None:
        await really(batch)
        raise StoreUnavailable("no answer")

    async def rejected(_: Batch) -> None:
        raise BatchRejected("not this one")

    monkeypatch.setattr(writer, "commit", rejected)
    with pytest.raises(BatchRejected):
        await filled.late(rng)
    assert filled.store.late(GROUP.name) == frozenset()
    monkeypatch.setattr(writer, "commit", unanswered)
    with pytest.raises(StoreUnavailable):
        await filled.late(rng)
    assert filled.store.late(GROUP.name) == {(await filled.period()).name}


async def test_what_comes_late_while_a_period_is_reduced_is_known(filled: Filled, rng: np.random.Generator) -> None:
    """It may lie where no step comes to any more."""
    period, has_come = await filled.period(), False

    async def pace(done: float) -> None:
        nonlocal has_come
        if done > 0 and not has_come:
            has_come = True
            await filled.late(rng)

    with contextlib.suppress(PeriodTouched):
        await filled.store.decimate(period, BUCKET, window_ns=0, at_ns=77, pace=pace, patience_s=5)
    assert has_come
    await filled.store.decimated()
    assert filled.store.late(GROUP.name) == {period.name}
    await filled.reduce()
    assert filled.store.late(GROUP.name) == frozenset()
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))
    await filled.see_whole()


@pytest.mark.parametrize("kind", ["rows", "arrays"])
async def test_who_reads_by_a_snapshot_from_before_a_step_finds_what_that_took_out(
    filled: Filled, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all is taken out, and nothing is left that the room is given back with."""
    monkeypatch.setattr("backends.postgresql.moving.SNAPSHOTS_WITHIN_S", 0.1)
    async with filled.store._reader() as reader, reader.transaction(isolation="repeatable_read"):
        await reader.execute(f"SELECT FROM {schema}.bpm_ledger")
        with pytest.raises(StoreBusy, match="waits for who reads by an older snapshot"):
            await filled.reduce()
        found = await reader.fetchval(f"SELECT count(*) FROM {schema}.bpm WHERE run = 1")
        assert found == (len(filled.written[1]) if filled.is_rows else TRIGGERS)
        assert await reader.fetchval(f"SELECT count(*) FROM {schema}.bpm_reduced") == 0
    await filled.reduce()
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))
    await filled.see_whole()


@pytest.mark.parametrize("kind", ["rows"])
async def test_a_leaf_that_is_exchanged_at_that_moment_is_looked_at_again(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says that it is there, and not any more how large it is."""
    for module in ("decimation", "moving"):
        found = importlib.import_module(f"backends.postgresql.{module}").FOUND
        gone = found.replace("pg_relation_size(leaf.oid)", "pg_relation_size(0)")
        monkeypatch.setattr(f"backends.postgresql.{module}.FOUND", gone)
    with pytest.raises(StoreBusy, match="is being moved by somebody else"):
        await filled.reduce()
    with pytest.raises(StoreBusy, match="is being moved by somebody else"):
        await filled.store.move(await filled.period(), None, pace=at_once, patience_s=1)


async def test_where_reducing_fails_what_came_late_is_still_known(filled: Filled, rng: np.random.Generator) -> None:
    await filled.reduce()
    await filled.store.decimated()
    await filled.late(rng)
    period = await filled.period()

    async def away(done: float) -> None:
        raise StoreUnavailable("it went away")

    with pytest.raises(StoreUnavailable):
        await filled.store.decimate(period, BUCKET, window_ns=0, at_ns=78, pace=away, patience_s=5)
    assert filled.store.late(GROUP.name) == {period.name}


async def test_triggers_that_come_late_for_a_reduced_period_are_reduced_too(
    filled: Filled, rng: np.random.Generator
) -> None:
    await filled.reduce()
    await filled.store.decimated()
    readings = readings_of(GROUP, np.arange(9) + 9_000, noon(3) + np.arange(9) * EVERY_NS, rng)
    await filled.commit(readings, run=1)
    filled.written[1] = np.concatenate([filled.written[1], readings.ravel()])
    assert len(await filled.raw()) == readings.size
    await filled.see_whole()
    assert filled.store.late(GROUP.name) == {(await filled.period()).name}
    done = await filled.reduce()
    assert done.readings == len(filled.written[1])
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))
    await filled.see_whole()


async def test_retention_drops_figures_and_what_stayed_raw_with_the_period(
    filled: Filled, rng: np.random.Generator
) -> None:
    await filled.reduce(day=2)
    await filled.store.keep_mark(Mark(id=uuid4(), time_ns=noon(3), text="it trips"))
    await filled.reduce(window_ns=9 * EVERY_NS)
    left = len(await filled.raw())
    assert 0 < left < len(filled.written[1])
    period = await filled.period()
    dropped = await filled.store.drop(period, Rule.SIZE, at_ns=9, patience_s=5)
    assert dropped.readings == left
    assert (await filled.store.dropped())[GROUP.name] == (dropped,)
    assert [each.period.name for each in (await filled.store.decimated())[GROUP.name]] == [
        period.name,
        (await filled.period(2)).name,
    ]
    figures = await filled.store.reduced(GROUP, *EVER)
    assert figures["time_ns"].min() >= noon(2)
    await filled.see_whole()


def same_means(found: Array, wanted: Array, group: InstrumentGroup = GROUP) -> None:
    for name in ("instrument", "time_ns", "count"):
        assert found[name].tolist() == wanted[name].tolist(), name
    for channel in group.channels:
        np.testing.assert_allclose(found[channel.name], wanted[channel.name], rtol=1e-6, atol=1e-9)


async def test_means_are_the_same_across_what_is_raw_and_what_was_reduced(
    filled: Filled, rng: np.random.Generator
) -> None:
    second = BUCKET.ns
    begin = noon(3) - noon(3) % second
    questions = [
        Means(group=GROUP, start_ns=start_ns, end_ns=end_ns, step_ns=step_ns)
        for start_ns, end_ns in (EVER_ROUND, (begin + second, begin + 3 * second), (begin, noon(2) + DAY_NS))
        for step_ns in (second, 3 * second, 7 * DAY_NS)
    ]
    before = [await filled.store.ask(query) for query in questions]
    assert all(len(answer) for answer in before)
    await filled.store.keep_mark(Mark(id=uuid4(), time_ns=noon(3) + second, text="it trips"))
    await filled.reduce(window_ns=second // 3)
    assert 0 < len(await filled.raw()) < len(filled.written[1])
    for query, wanted in zip(questions, before, strict=True):
        same_means(await filled.store.ask(query), wanted)
    await filled.late(rng)
    await filled.reduce(day=2)
    late = await filled.store.ask(questions[0])
    assert int(late["count"].sum()) == int(before[0]["count"].sum()) + 1


async def test_means_count_a_reading_whose_trigger_was_reduced_and_that_lies_in_the_next_period(
    filled: Filled, rng: np.random.Generator
) -> None:
    """Arrays lie by the time of their trigger."""
    end_ns = (await filled.period()).end_ns
    readings = readings_of(GROUP, np.array([900]), np.array([end_ns - 10]), rng)
    readings["time_ns"] = end_ns - 10
    readings["time_ns"][0, -1] = end_ns + 4
    await filled.commit(readings, run=1)
    query = Means(group=GROUP, start_ns=EVER_ROUND[0], end_ns=EVER_ROUND[1], step_ns=BUCKET.ns)
    before = await filled.store.ask(query)
    await filled.reduce()
    same_means(await filled.store.ask(query), before)


async def test_means_of_shorter_steps_than_the_buckets_are_coarser_there(filled: Filled) -> None:
    coarse = Means(group=GROUP, start_ns=noon(3), end_ns=noon(3) + 3 * BUCKET.ns, step_ns=BUCKET.ns)
    before = await filled.store.ask(coarse)
    await filled.reduce()
    fine = replace(coarse, step_ns=BUCKET.ns // 4)
    same_means(await filled.store.ask(fine), before)
    elsewhere = replace(fine, start_ns=noon(2), end_ns=noon(2) + 3 * BUCKET.ns)
    assert len(await filled.store.ask(elsewhere)) == 4 * len(before)


async def test_a_period_that_is_not_there_is_refused(filled: Filled) -> None:
    period = Period(group=GROUP.name, name="20010101", start_ns=0, end_ns=DAY_NS)
    with pytest.raises(StoreError, match="no partition '20010101' with readings"):
        await filled.store.decimate(period, BUCKET, window_ns=0, at_ns=1, pace=at_once, patience_s=1)
    assert await filled.store.decimated() == {GROUP.name: ()}


async def test_what_another_reduces_and_what_is_written_beside_it_is_counted_once(
    filled: Filled, rng: np.random.Generator
) -> None:
    async def write() -> None:
        for number in range(20):
            readings = readings_of(GROUP, np.arange(2) + 5_000 + 2 * number, noon(3) + np.arange(2) * EVERY_NS, rng)
            await filled.commit(readings, run=1)
            filled.written[1] = np.concatenate([filled.written[1], readings.ravel()])

    async def reduce() -> None:
        with contextlib.suppress(StoreError):
            await filled.reduce(patience_s=20)

    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            await filled.see_whole()
            looks += 1

    looking = asyncio.create_task(look())
    await asyncio.gather(write(), reduce(), reduce())
    while not looks and not looking.done():  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    await end_tasks(looking)
    if not looking.cancelled():
        looking.result()
    assert looks
    await filled.see_figures(1)
    await filled.reduce()
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))
    await filled.see_whole()


@pytest.mark.parametrize("kind", SQL)
async def test_a_kill_before_any_statement_loses_and_doubles_nothing(filled: Filled) -> None:
    period = await filled.period()
    for after in range(1, 400):
        try:
            async with filled.store._reader() as connection:
                dying, tables = Dying(connection, after), filled.store._tables[GROUP.name]
                reducing = filled.store._reducing(dying, tables, patience_s=5)
                await reducing.reduce(period, BUCKET, window_ns=0, at_ns=77, pace=at_once)
                break
        except Killed:
            await filled.see_whole()
            await filled.see_figures(1)
    assert after > 12
    (done,) = (await filled.store.decimated())[GROUP.name]
    assert done.ended_ns is not None
    assert done.readings == len(filled.written[1])
    await filled.see_whole()
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))


async def test_a_mark_that_comes_while_a_period_is_reduced_keeps_what_no_step_has_come_to(filled: Filled) -> None:
    steps = 0

    async def pace(done: float) -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            await filled.store.keep_mark(Mark(id=uuid4(), time_ns=noon(3) + 190 * EVERY_NS, text="it trips"))

    window_ns = 4 * EVERY_NS + 1000
    await filled.store.decimate(await filled.period(), BUCKET, window_ns=window_ns, at_ns=77, pace=pace, patience_s=5)
    assert np.unique((await filled.raw())["trigger"]).tolist() == list(range(186, 195))
    await filled.see_whole()
    await filled.see_figures(1)


@pytest.mark.parametrize("how", [BUCKET, Every(3)])
async def test_retention_drops_a_period_that_was_reduced_in_part(filled: Filled, how: How) -> None:
    async def away(done: float) -> None:
        if any(each.readings for each in (await filled.store.decimated())[GROUP.name]):
            raise StoreUnavailable("it went away")

    period = await filled.period()
    with pytest.raises(StoreUnavailable):
        await filled.store.decimate(period, how, window_ns=0, at_ns=77, pace=away, patience_s=5)
    dropped = await filled.store.drop(period, Rule.SIZE, at_ns=9, patience_s=5)
    (begun,) = (await filled.store.decimated())[GROUP.name]
    assert 0 < begun.readings < len(filled.written[1])
    assert begun.readings + dropped.readings == len(filled.written[1])
    assert len(await filled.store.reduced(GROUP, period.start_ns, period.end_ns)) == 0
    await filled.see_whole()


@pytest.mark.parametrize("kind", ["rows"])
async def test_readings_whose_file_cannot_be_found_are_not_taken_for_reduced(
    filled: Filled, rng: np.random.Generator
) -> None:
    """As where the disk of a tablespace is not mounted: a PostgreSQL takes a table without a file for an empty one."""
    leaf = f'{filled.store._database.schema_name}."bpm${(await filled.period()).name}$leaf"'
    async with filled.store._reader() as connection:
        folder = await connection.fetchval("SHOW data_directory")
        file = Path(folder) / await connection.fetchval("SELECT pg_relation_filepath(to_regclass($1))", leaf)
        await connection.execute("CHECKPOINT")
    away = file.rename(file.with_name(f"{file.name}.away"))
    try:
        with pytest.raises(StoreError, match="could not open file"):
            await filled.reduce()
        assert [each.reduced_ns for each in (await filled.store.decimated())[GROUP.name]] == [None]
    finally:
        away.rename(file)
    await filled.see_whole()
    await filled.reduce()
    await filled.see_whole()
    await filled.see_figures(1, kept=np.zeros(len(filled.written[1]), bool))
