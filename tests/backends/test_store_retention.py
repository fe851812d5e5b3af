"""Dropping a period, asked of every store."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pymysql.err import MySQLError

from backends.base import BatchRejected, Partition, Store, StoreBusy, StoreError
from backends.mysql.server.address import address_of, connect
from schemas.batch import JournalPosition, Layout
from schemas.queries import LedgerTail, Totals, WindowReadings
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Period, Rule
from tests.backends.test_store_contract import (
    EVER,
    Make,
    everything,
    layout_of,
    maker,
    opened,
    rng,
)
from tests.support.batches import batch_of, group_of, readings_of, with_late

__all__ = ["opened", "rng"]

DAY_NS = 86_400_000_000_000
SQL = ["rows", "arrays", "mysql-rows", "mysql-arrays"]
ALL = ["memory", *SQL, "mongodb-rows", "mongodb-arrays", "mongodb-set-arrays"]
Filled = tuple[Store, InstrumentGroup, Period]


@pytest.fixture(params=ALL)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str, schema: str) -> Make:
    return maker(request, kind, schema)


def noon(days_ago: int) -> int:
    """Noon of a day: no reading is near the edge of a partition."""
    return (time.time_ns() // DAY_NS - days_ago) * DAY_NS + DAY_NS // 2


async def filled(
    store: Store, group: InstrumentGroup, rng: np.random.Generator, days: tuple[int, ...] = (3, 2, 1)
) -> dict[int, Array]:
    """Four triggers a day, of which the last one lacks an instrument, in a run a day; the readings by run."""
    written = {}
    for number, day in enumerate(days, 1):
        times = noon(day) + np.arange(4) * 10_000_000
        readings = readings_of(group, np.arange(4) + 10 * number, times, rng)
        present = np.ones(readings.shape, bool)
        present[-1, 0] = False
        position = JournalPosition(sequence=number, triggers=4 * number, readings=(4 * group.size - 1) * number)
        await store.commit(batch_of(group, number, readings, run=number, present=present, position=position))
        written[number] = readings
    return written


async def with_readings(store: Store, group: InstrumentGroup) -> list[Partition]:
    found = (await store.partitions())[group.name]
    return [each for each in found if each.name.isdigit() and each.readings_bytes is not None]


async def period_of(store: Store, group: InstrumentGroup, time_ns: int) -> Period:
    (found,) = [each for each in await with_readings(store, group) if each.start_ns <= time_ns < each.end_ns]
    return Period(group=group.name, name=found.name, start_ns=found.start_ns, end_ns=found.end_ns)


async def totals(store: Store, group: InstrumentGroup) -> Array:
    return await store.ask(Totals(group=group, within_s=60))


def rows_of(kind: str, group: InstrumentGroup, triggers: int = 4) -> int:
    """What a day is stored as."""
    is_arrays = kind != "memory" and layout_of(kind) is Layout.ARRAYS
    return triggers if is_arrays else triggers * group.size - 1


@pytest.fixture
async def three_days(make: Make, opened: Callable, rng: np.random.Generator) -> Filled:
    """A store that is filled, its group, and the oldest of the days."""
    group = group_of()
    store = await opened(make(group))
    await filled(store, group, rng)
    return store, group, await period_of(store, group, noon(3))


async def test_what_is_dropped_is_gone_and_its_ledger_and_its_account_are_there(
    make: Make, opened: Callable, rng: np.random.Generator, kind: str
) -> None:
    group = group_of()
    store = await opened(make(group))
    written = await filled(store, group, rng)
    period = await period_of(store, group, noon(3))
    before = await totals(store, group)

    dropped = await store.drop(period, Rule.AGE, at_ns=123, patience_s=1)

    assert (dropped.period, dropped.rule, dropped.dropped_ns) == (period, Rule.AGE, 123)
    assert dropped.stored == {1: rows_of(kind, group)}
    counts = dropped.triggers, dropped.readings, dropped.missing, dropped.skipped
    assert counts == (4, 4 * group.size - 1, 1, 0)
    assert dropped.size_bytes > 0
    assert await store.dropped() == {group.name: (dropped,)}
    left = await everything(store, group)
    assert np.unique(left["run"]).tolist() == [2, 3]
    assert len(left) == sum(readings.size - 1 for run, readings in written.items() if run != 1)
    after = await totals(store, group)
    for name in ("triggers", "expected", "arrived", "account_triggers", "account_readings", "sequence"):
        assert after[name].tolist() == before[name].tolist(), name
    assert after["dropped"].tolist() == [rows_of(kind, group), 0, 0]
    assert (after["stored"] + after["dropped"]).tolist() == before["stored"].tolist()
    assert len(await store.ask(LedgerTail(group=group, most=9, run=1))) == 4
    assert period.name not in [each.name for each in await with_readings(store, group)]


async def test_the_writing_and_late_readings_go_on_after_a_drop(
    make: Make, opened: Callable, rng: np.random.Generator, kind: str
) -> None:
    group = group_of()
    store = await opened(make(group))
    written = await filled(store, group, rng)
    await store.drop(await period_of(store, group, noon(3)), Rule.SIZE, at_ns=5, patience_s=1)

    now = readings_of(group, np.arange(4) + 90, time.time_ns() + np.arange(4) * 1000, rng)
    row = (await store.ask(LedgerTail(group=group, most=1, run=3)))[0]
    late = written[3][-1, :1]
    await store.commit(
        batch_of(
            group,
            9,
            now,
            run=4,
            late=late,
            late_of=np.zeros(1, np.intp),
            revised=np.array([with_late(row, late, np.ones(group.size, bool))]),
            position=JournalPosition(sequence=9, triggers=16, readings=0),
        )
    )

    found = await everything(store, group)
    assert np.unique(found["run"], return_counts=True)[1].tolist() == [47, 48, 48]


async def test_a_reading_with_a_wrong_clock_is_kept_after_its_day_was_dropped(
    three_days: Filled, rng: np.random.Generator, kind: str
) -> None:
    store, group, period = three_days
    await store.drop(period, Rule.AGE, at_ns=5, patience_s=1)

    now = readings_of(group, np.array([90]), np.array([time.time_ns()]), rng)
    now["time_ns"][0, 0] = noon(3)
    await store.commit(batch_of(group, 9, now, run=4, position=JournalPosition(sequence=9, triggers=13, readings=153)))

    found = await totals(store, group)
    recorded = found["triggers"] if kind.endswith("arrays") else found["arrived"]
    assert (found["stored"] + found["dropped"]).tolist() == recorded.tolist()
    mine = WindowReadings(group=group, start_ns=EVER[0], end_ns=EVER[1], by_trigger=True)
    assert np.count_nonzero((await store.ask(mine))["run"] == 4) == group.size


async def test_days_are_dropped_one_after_the_other_and_each_is_accounted_for(
    make: Make, opened: Callable, rng: np.random.Generator, kind: str
) -> None:
    group = group_of()
    store = await opened(make(group))
    await filled(store, group, rng, days=(5, 4, 3, 2, 1))
    for at, day in enumerate((5, 4, 3, 2)):
        await store.drop(await period_of(store, group, noon(day)), Rule.DISK, at_ns=at, patience_s=1)
        found = await totals(store, group)
        recorded = found["triggers"] if kind.endswith("arrays") else found["arrived"]
        assert (found["stored"] + found["dropped"]).tolist() == recorded.tolist()
    assert [each.begun_ns for each in (await store.dropped())[group.name]] == [0, 1, 2, 3]
    assert np.unique((await everything(store, group))["run"]).tolist() == [5]


async def test_what_is_not_there_is_not_dropped(three_days: Filled) -> None:
    store, group, period = three_days
    await store.drop(period, Rule.AGE, at_ns=5, patience_s=1)
    with pytest.raises(StoreError, match=f"no partition '{period.name}' with readings"):
        await store.drop(period, Rule.AGE, at_ns=6, patience_s=1)
    assert len((await store.dropped())[group.name]) == 1


@pytest.mark.parametrize("kind", ["arrays", "mysql-arrays", "mongodb-arrays", "mongodb-set-arrays"])
async def test_a_late_reading_for_arrays_that_were_dropped_is_refused_by_name(
    three_days: Filled, rng: np.random.Generator
) -> None:
    """As dead letters that another daemon has kept: stored it would count twice, in the table and in the account."""
    store, group, period = three_days
    (row,) = await store.ask(LedgerTail(group=group, most=1, run=1))
    before = (await totals(store, group))["triggers"].tolist()
    late = readings_of(group, row[["trigger"]].tolist(), np.array([row["time_ns"]]), rng)[0, :1]
    nothing = readings_of(group, np.empty(0, np.int64), np.empty(0, np.int64), rng)
    more = {"late": late, "late_of": np.zeros(1, np.intp)}
    revised = np.array([with_late(row, late, np.ones(group.size, bool))])
    batch = batch_of(group, 9, nothing, revised=revised, position=JournalPosition(sequence=9, triggers=12), **more)
    await store.drop(period, Rule.AGE, at_ns=5, patience_s=1)
    for write in (store.rehearse, store.commit):
        with pytest.raises(BatchRejected) as refused:
            await write(batch)
        assert refused.value.reason == "the readings of its time were dropped by retention"
    found = await totals(store, group)
    assert (found["stored"] + found["dropped"]).tolist() == found["triggers"].tolist() == before
    assert len(await everything(store, group)) == 2 * (4 * group.size - 1)
    (other,) = await store.ask(LedgerTail(group=group, most=1, run=2))
    mine = {**more, "late": readings_of(group, other[["trigger"]].tolist(), np.array([other["time_ns"]]), rng)[0, :1]}
    revised = np.array([with_late(other, mine["late"], np.ones(group.size, bool))])
    position = JournalPosition(sequence=9, triggers=12)
    await store.commit(batch_of(group, 9, nothing, revised=revised, position=position, **mine))
    assert len(await everything(store, group)) == 2 * (4 * group.size - 1) + 1


@pytest.mark.parametrize("kind", SQL)
async def test_a_table_that_somebody_reads_is_busy_and_nothing_has_changed(three_days: Filled, kind: str) -> None:
    store, group, period = three_days
    before = await totals(store, group)
    async with store._reader() as reader:
        is_mysql = kind.startswith("mysql")
        run = reader.run if is_mysql else reader.execute
        await run("START TRANSACTION")
        await _read(reader, store, group)
        with pytest.raises(StoreBusy):
            await store.drop(period, Rule.AGE, at_ns=5, patience_s=0.05)
        await run("COMMIT")
    assert await store.dropped() == {group.name: ()}
    assert (await totals(store, group)).tolist() == before.tolist()
    await store.drop(period, Rule.AGE, at_ns=6, patience_s=1)


async def _read(reader: object, store: Store, group: InstrumentGroup) -> None:
    schema = store._database.schema_name
    quote = "`" if "mysql" in type(store).__module__ else '"'
    await reader.fetch(f"SELECT run FROM {quote}{schema}{quote}.{quote}{group.name}{quote} LIMIT 1")


class Killed(Exception):
    """The daemon ended here."""


class Dying:
    """A connection that ends before its so many-th statement."""

    def __init__(self, connection: Any, after: int) -> None:
        self._connection = connection
        self._left = after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in ("run", "execute", "fetch", "fetchrow", "fetchval"):
            return found

        async def counted(*arguments: Any) -> Any:
            if not self._left:
                raise Killed
            self._left -= 1
            return await found(*arguments)

        return counted


@pytest.mark.parametrize("kind", SQL)
async def test_a_kill_before_any_statement_neither_loses_the_account_nor_counts_twice(
    make: Make, opened: Callable, rng: np.random.Generator, kind: str
) -> None:
    group = group_of()
    store = await opened(make(group))
    days = tuple(range(30, 0, -1))
    await filled(store, group, rng, days=days)
    for steps, day in enumerate(days):
        period = await period_of(store, group, noon(day))
        with contextlib.suppress(Killed):
            async with store._reader() as connection:
                dropping = store._dropping(Dying(connection, steps), store._tables[group.name], patience_s=1)
                await dropping.drop(period, Rule.AGE, steps)
                break
        found = await totals(store, group)
        recorded = found["triggers"] if kind.endswith("arrays") else found["arrived"]
        assert (found["stored"] + found["dropped"]).tolist() == recorded.tolist(), steps
        ended = [each.period for each in (await store.dropped())[group.name] if each.dropped_ns is not None]
        if period not in ended:
            await store.drop(period, Rule.SIZE, at_ns=1000 + steps, patience_s=1)
        account = (await store.dropped())[group.name]
        (mine,) = [each for each in account if each.period == period]
        assert all(each.dropped_ns is not None for each in account)
        assert mine.stored == {steps + 1: rows_of(kind, group)}
        found = await totals(store, group)
        assert (found["stored"] + found["dropped"]).tolist() == recorded.tolist(), steps
    else:
        pytest.fail("a drop has more statements than there are days")
    assert steps > 4


class Stopped:
    """A connection that waits before its first statement with a text."""

    def __init__(self, connection: Any, before: str, wait: Callable[[], Any]) -> None:
        self._connection = connection
        self._before = before
        self._wait: Callable[[], Any] | None = wait

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in ("run", "fetch"):
            return found

        async def stopped(text: str) -> Any:
            if self._before in text and self._wait is not None:
                wait, self._wait = self._wait, None
                await wait()
            return await found(text)

        return stopped


MYSQL = pytest.mark.parametrize("kind", ["mysql-rows", "mysql-arrays"])


async def begun(store: Store, group: InstrumentGroup, period: Period) -> None:
    """Set a period apart, and end before it is counted."""

    async def die() -> None:
        raise Killed

    with contextlib.suppress(Killed):
        async with store._reader() as connection:
            stopped = Stopped(connection, "SELECT run, COUNT(*)", die)
            await store._dropping(stopped, store._tables[group.name], patience_s=1).drop(period, Rule.SIZE, 5)


@MYSQL
@pytest.mark.parametrize("before", ["information_schema.TABLES", "by_run"])
async def test_what_is_counted_while_a_period_goes_is_counted_once(three_days: Filled, before: str) -> None:
    store, group, period = three_days
    expected = (await totals(store, group))["stored"].tolist()
    await begun(store, group, period)

    async def drop() -> None:
        await store.drop(period, Rule.SIZE, at_ns=6, patience_s=1)

    async with store._reader() as connection:
        questions = store._questions(Stopped(connection, before, drop), store._tables[group.name])
        found = await questions.answer(Totals(group=group, within_s=60))
    assert (found["stored"] + found["dropped"]).tolist() == expected


@MYSQL
async def test_two_that_drop_the_same_period_lose_nothing(three_days: Filled) -> None:
    """Another daemon; or this one again, while the server is at the last statement of one that was killed."""
    store, group, period = three_days
    expected = (await totals(store, group))["stored"].tolist()
    arrived, goes_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        arrived.set()
        await goes_on.wait()

    async def drop() -> None:
        async with store._reader() as connection:
            stopped = Stopped(connection, "DROP TABLE IF EXISTS", wait)
            await store._dropping(stopped, store._tables[group.name], patience_s=1).drop(period, Rule.SIZE, 5)

    dropping = asyncio.create_task(drop())
    await asyncio.wait_for(arrived.wait(), 60)
    with contextlib.suppress(StoreBusy):
        await begun(store, group, period)
    goes_on.set()
    await asyncio.wait_for(dropping, 60)
    found = await totals(store, group)
    assert (found["stored"] + found["dropped"]).tolist() == expected


@pytest.mark.parametrize("kind", ["rows"])
async def test_a_partition_of_another_role_is_not_set_apart_for_ever(three_days: Filled, schema: str) -> None:
    store, group, period = three_days
    async with store._reader() as admin:
        await admin.execute(f"CREATE ROLE {schema} LOGIN; GRANT ALL ON SCHEMA {schema} TO {schema}")
        await admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema}")
        await admin.execute(f'ALTER TABLE {schema}."{group.name}" OWNER TO {schema}')
    try:
        async with store._reader() as connection:
            await connection.execute(f"SET ROLE {schema}")
            dropping = store._dropping(connection, store._tables[group.name], patience_s=1)
            with pytest.raises(StoreError, match="belongs to another role"):
                await dropping.drop(period, Rule.SIZE, 5)
            await connection.execute("RESET ROLE")
        assert await store.dropped() == {group.name: ()}
    finally:
        async with store._reader() as admin:
            await admin.execute(f"REASSIGN OWNED BY {schema} TO postgres; DROP OWNED BY {schema}; DROP ROLE {schema}")


@MYSQL
@pytest.mark.parametrize("right", ["CREATE", "ALTER", "DROP"])
async def test_where_a_right_is_lacking_nothing_was_begun(
    three_days: Filled, mariadb_dsn: str, schema: str, right: str
) -> None:
    store, group, period = three_days
    guest = f"guest_{schema}"
    rights = {"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP"} - {right}
    async with store._reader() as admin:
        await admin.run(f"CREATE USER {guest}@'%'")
        await admin.run(f"GRANT {', '.join(sorted(rights))} ON `{schema}`.* TO {guest}@'%'")
    connection = await connect(address_of(mariadb_dsn.replace("root@", f"{guest}@")), program="a test", timeout_s=60)
    try:
        dropping = store._dropping(connection, store._tables[group.name], patience_s=1)
        with pytest.raises(MySQLError, match="denied"):
            await dropping.drop(period, Rule.SIZE, 5)
    finally:
        connection.terminate()
    assert await store.dropped() == {group.name: ()}
    await store.drop(period, Rule.SIZE, at_ns=6, patience_s=5)
    async with store._reader() as admin:
        await admin.run(f"DROP USER {guest}@'%'")


@pytest.mark.parametrize("kind", ["rows", "mysql-rows", "mongodb-rows"])
async def test_a_daemon_whose_clock_is_ahead_of_the_servers_drops_nothing_by_age(three_days: Filled) -> None:
    store, group, period = three_days
    ahead_ns = time.time_ns() + 2 * DAY_NS
    with pytest.raises(StoreError, match=r"node is 48\.0 hours ahead of the database server's"):
        await store.drop(period, Rule.AGE, at_ns=ahead_ns, patience_s=1)
    assert await store.dropped() == {group.name: ()}
    await store.drop(period, Rule.DISK, at_ns=ahead_ns, patience_s=1)
