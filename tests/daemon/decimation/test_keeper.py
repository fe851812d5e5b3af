"""The keeper of decimation on a real server: it reduces what the configuration asks for, by a clock that is given."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import numpy as np
import pytest

from backends.base import Decimating, StoreUnavailable
from backends.postgresql import PostgresqlStore
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.decimation.keeper import DecimationKeeper
from schemas.batch import JournalPosition
from schemas.config import Config
from schemas.decimation import Decimated, How
from schemas.queries import Totals
from schemas.retention import Period, Rule, spans_of
from tests.backends.postgresql.test_moving import database
from tests.daemon.retention.test_keeper import GivenClock
from tests.daemon.tiers.test_keeper import GROUP, HOUR_NS, HOURS, NOW_NS, TRIGGERS, opened, write
from tests.support.batches import batch_of, readings_of

__all__ = ["database"]

OF_AN_HOUR = TRIGGERS * GROUP.size


def config_of(**decimation: Any) -> Config:
    group = {"name": GROUP.name, "count": GROUP.size, "channels": [{"name": "ch0"}]}
    section = {"after_days": 2.5 / 24, "bucket_s": 1.0, "mib_per_s": 1000.0, **decimation}
    return Config.model_validate({"groups": [group], "decimation": section, "database": {"partition": "hour"}})


@pytest.fixture
async def store(postgresql_dsn: str, schema: str) -> AsyncIterator[PostgresqlStore]:
    """An hour a partition; the newest ended an hour ago."""
    async with opened(postgresql_dsn, schema, places=()) as store:
        for number in range(HOURS):
            await write(store, number + 1, NOW_NS - (HOURS - number) * HOUR_NS)
        yield store


class Kept:
    """A keeper, its clock, and its events."""

    def __init__(self, store: PostgresqlStore, config: Config, **keeper: Any) -> None:
        real, self.clock, self.events = Outside.real(), GivenClock(NOW_NS), Events()
        outside = Outside(clock=self.clock, disk=real.disk, rng=real.rng, workers=real.workers)
        self.keeper = DecimationKeeper(store, config, outside, self.events, pipelines={}, **keeper)

    def status(self) -> Any:
        return self.keeper.status()

    def told(self) -> list[str]:
        return [event.text for event in self.events.newest()]


async def stored(store: PostgresqlStore) -> tuple[int, int]:
    """Rows that are there, and rows that are in the account."""
    found = await store.ask(Totals(group=GROUP, within_s=60))
    assert int(found["stored"].sum() + found["dropped"].sum()) == int(found["arrived"].sum())
    return int(found["stored"].sum()), int(found["dropped"].sum())


async def test_age_reduces_hours_as_time_goes_on(store: PostgresqlStore) -> None:
    kept = Kept(store, config_of())
    await kept.keeper.look()
    # They ended 4, 3, ... hours before the newest trigger.
    assert await stored(store) == (4 * OF_AN_HOUR, 2 * OF_AN_HOUR)
    status = kept.status()
    assert (status.problem, status.periods, status.readings) == (None, 2, 2 * OF_AN_HOUR)
    assert (status.waiting, status.reducing, status.held) == (0, None, [])
    assert status.next.at_ns == NOW_NS - HOUR_NS // 2
    assert f"was reduced to figures of every 1 s, {OF_AN_HOUR:,} readings" in kept.told()[0]
    kept.clock.utc_ns += 900 * HOUR_NS
    await kept.keeper.look()
    assert (await stored(store))[1] == 2 * OF_AN_HOUR, "a clock alone makes nothing old"
    assert len(kept.told()) == 2
    await write(store, HOURS + 1, NOW_NS)
    await kept.keeper.look()
    assert "hours ahead" in kept.status().problem
    kept.clock.utc_ns = NOW_NS + HOUR_NS // 2
    await kept.keeper.look()
    assert kept.status().problem is None
    assert (await stored(store))[1] == 3 * OF_AN_HOUR


async def test_what_comes_late_is_reduced_at_the_next_look_also_after_a_restart(store: PostgresqlStore) -> None:
    kept = Kept(store, config_of())
    await kept.keeper.look()
    rng = np.random.default_rng(1)

    async def come_late(sequence: int) -> None:
        times = NOW_NS - HOURS * HOUR_NS + np.arange(3) * 1000
        readings = readings_of(GROUP, np.arange(3) + 100_000 * sequence, times, rng)
        await store.commit(batch_of(GROUP, sequence, readings, position=JournalPosition(sequence=sequence)))

    await come_late(50)
    await kept.keeper.look()
    assert (await stored(store))[1] == 2 * OF_AN_HOUR + 3 * GROUP.size
    assert "12 readings: readings came for it since" in kept.told()[0]
    store._late.know(())  # as of another process
    await come_late(51)
    again = Kept(store, config_of())
    await again.keeper.look()
    assert (await stored(store))[1] == 2 * OF_AN_HOUR + 6 * GROUP.size
    assert len(again.told()) == 1
    await again.keeper.look()
    assert len(again.told()) == 1


async def test_nothing_is_reduced_while_marks_wait_for_the_database(store: PostgresqlStore) -> None:
    waiting = 1
    kept = Kept(store, config_of(), marks_waiting=lambda: waiting)
    await kept.keeper.look()
    assert (await stored(store))[1] == 0
    assert "marks wait for the database" in kept.status().held[0]
    waiting = 0
    await kept.keeper.look()
    assert (await stored(store))[1] == 2 * OF_AN_HOUR


async def test_without_an_age_nothing_happens(store: PostgresqlStore) -> None:
    kept = Kept(store, config_of(after_days=None, bucket_s=None))
    await kept.keeper.look()
    assert (await stored(store))[1] == 0
    assert kept.status() is None
    kept.keeper.change(config_of(bucket_s=None, keep_every=10))
    await kept.keeper.look()
    assert (await stored(store))[1] == 2 * (TRIGGERS - TRIGGERS // 10) * GROUP.size
    assert isinstance(store, Decimating)
    assert [str(each.how) for each in (await store.decimated())[GROUP.name]] == ["every 10"] * 2


async def test_a_database_that_is_away_is_a_problem_only_where_something_is_to_be_reduced(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> Any:
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(store, "partitions", away)
    for asked_for, problems in ({"after_days": None, "bucket_s": None}, 0), ({}, 1):
        kept = Kept(store, config_of(**asked_for))
        await kept.keeper.look()
        assert kept.told() == ["decimation cannot reduce all that it has to: it is away"] * problems


async def test_one_that_cannot_be_reduced_holds_up_no_other(
    store: PostgresqlStore, database: asyncpg.Connection, schema: str
) -> None:
    (first, *_) = [each for each in (await store.partitions())[GROUP.name] if each.name.isdigit() and each.rows]
    leaf = f'"{schema}"."{GROUP.name}${first.name}$leaf"'
    await database.execute(f"CREATE RULE never AS ON DELETE TO {leaf} DO INSTEAD NOTHING")
    kept = Kept(store, config_of())
    await kept.keeper.look()
    status = kept.status()
    assert status.periods == 1
    assert status.problem is not None
    await database.execute(f"DROP RULE never ON {leaf}")
    await kept.keeper.look()
    assert (kept.status().periods, kept.status().problem) == (2, None)
    await stored(store)


async def test_one_that_the_server_cannot_reduce_now_holds_up_no_other(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its disk is full, or not there: the server answers all else."""
    (first, *_) = [each for each in (await store.partitions())[GROUP.name] if each.name.isdigit() and each.rows]
    really = store.decimate

    async def decimate(period: Period, how: How, **more: Any) -> Decimated:
        if period.name == first.name:
            raise StoreUnavailable("could not open file (58P01)")
        return await really(period, how, **more)

    monkeypatch.setattr(store, "decimate", decimate)
    kept = Kept(store, config_of())
    await kept.keeper.look()
    assert (kept.status().periods, kept.status().problem) == (1, "could not open file (58P01)")
    monkeypatch.undo()
    await kept.keeper.look()
    assert (kept.status().periods, kept.status().problem) == (2, None)
    await stored(store)


async def test_what_retention_drops_meanwhile_is_no_problem(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, dropped = store.decimate, []

    async def decimate(period: Period, how: How, **more: Any) -> Decimated:
        if not dropped:
            dropped.append(await store.drop(period, Rule.SIZE, at_ns=NOW_NS, patience_s=5))
        return await really(period, how, **more)

    monkeypatch.setattr(store, "decimate", decimate)
    kept = Kept(store, config_of())
    await kept.keeper.look()
    status = kept.status()
    assert dropped
    assert (status.problem, status.periods, status.held) == (None, 1, [])
    assert len(kept.told()) == 1
    await stored(store)


async def test_what_is_reduced_is_told_without_a_gap_between_the_reducing_and_the_account(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for readings in between finds them no more, and has to be told of the figures."""
    really, reduced, told = store.partitions, list[Period](), list[bool]()
    decimate = store.decimate

    async def noted(period: Period, how: How, **more: Any) -> Decimated:
        found = await decimate(period, how, **more)
        reduced.append(period)
        return found

    async def partitions() -> Any:
        spans = kept.keeper.spans(GROUP.name)
        told.extend(any(span.start_ns <= each.start_ns < span.end_ns for span in spans) for each in reduced)
        return await really()

    monkeypatch.setattr(store, "decimate", noted)
    monkeypatch.setattr(store, "partitions", partitions)
    kept = Kept(store, config_of())
    await kept.keeper.look()
    assert told == [True] * 3


async def test_a_database_that_goes_away_in_the_middle_leaves_it_told_what_was_begun(
    store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = store.decimate

    async def goes_away(period: Period, how: How, **more: Any) -> Decimated:
        async def pace(done: float) -> None:
            if done > 0:
                raise StoreUnavailable("it went away")

        return await really(period, how, **{**more, "pace": pace})

    monkeypatch.setattr("backends.postgresql.decimation.STEP_BYTES", 8192)
    monkeypatch.setattr(store, "decimate", goes_away)
    kept = Kept(store, config_of())
    await kept.keeper.look()
    assert 0 < (await stored(store))[1] < OF_AN_HOUR
    # It holds up no other: each period that was tried has begun.
    begun = (await store.decimated())[GROUP.name]
    spans = spans_of([each.period for each in begun])
    assert kept.keeper.spans(GROUP.name) == spans
    assert await kept.keeper.spans_now(GROUP.name) == spans
    monkeypatch.setattr(store, "decimate", really)
    await kept.keeper.look()
    assert (await stored(store))[1] == 2 * OF_AN_HOUR
