"""What `backends.visits.base.VisitStore` promises, asked of every store of visits in every index mode."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends import open_visit_store
from backends.base import SchemaMismatch
from backends.mysql.server.address import address_of, connect
from backends.visits.base import VisitDone, VisitsLocked, VisitsLost, VisitStore
from backends.visits.compaction import COMPACTED
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import Region
from schemas.visits.tables import Step
from tests.support.memory.visits import MemoryVisitStore, Schema, in_ranges
from tests.support.visits import (
    EVERYWHERE,
    NEW,
    STEPS,
    TILES,
    VARIABLES,
    by_id,
    history_of,
    record_of,
    region_of,
    run_visits,
    same,
    tables_in,
    tile_write,
    time_of,
    visits_config,
)

MODES: dict[str, dict[str, str]] = {
    "baseline": {"index_mode": "baseline"},
    "pix_id_iov": {"index_mode": "pix_id_iov"},
    "last-delete_insert": {"index_mode": "last_object_table", "last_update": "delete_insert"},
    "last-replace": {"index_mode": "last_object_table", "last_update": "replace"},
    "last-upsert": {"index_mode": "last_object_table", "last_update": "upsert"},
    "last-wide": {"index_mode": "last_object_table", "last_columns": "wide"},
    "partitioned": {"index_mode": "partitioned"},
}
# A database a line: the fixture that has a server, and the modes it does not have, or (FerretDB, over wide documents)
# takes too long over.
SERVERS: dict[str, tuple[str, set[str]]] = {
    "memory": ("", set()),
    "mongodb": ("mongodb_dsn", {"last-wide"}),
    "mariadb": ("mariadb_dsn", set()),
    "postgresql": ("postgresql_dsn", {"last-replace"}),
}
KINDS = [f"{server}/{mode}" for server, (_, lacks) in SERVERS.items() for mode in MODES if mode not in lacks]
# What is deleted in a MongoDB has to be repaired without transactions.
LAST = {"mongodb": "last-delete_insert"}
FEW = [f"{server}/{mode}" for server in SERVERS for mode in ("baseline", LAST.get(server, "last-wide"), "partitioned")]
PARTITIONED = [f"{server}/partitioned" for server in SERVERS]
COMPACTING = [kind for kind in PARTITIONED if kind.startswith(("postgresql", "mariadb"))]
"""MongoDB and the memory leave packs as they were written."""

Make = Callable[..., VisitStore]


@pytest.fixture
def dsn(request: pytest.FixtureRequest, kind: str) -> str | None:
    fixture, _ = SERVERS[kind.partition("/")[0]]
    return request.getfixturevalue(fixture) if fixture else None


@pytest.fixture
async def make(dsn: str | None, kind: str, schema: str, tmp_path: Path) -> AsyncIterator[Make]:
    """Makes stores of one kind in one schema, as workers have them; the schema is dropped afterwards."""
    mode = kind.partition("/")[2]
    memory = Schema()
    async with AsyncExitStack() as stack:

        def open_one(**settings: object) -> VisitStore:
            config = visits_config(schema, MODES[mode], **settings)
            if dsn is None:
                return MemoryVisitStore(config, memory)
            store = open_visit_store(DatabaseConfig(dsn=dsn), config, state_dir=tmp_path)
            stack.push_async_callback(store.close)
            return store

        stack.push_async_callback(open_one().drop)
        yield open_one


def config_of(kind: str) -> VisitsConfig:
    return visits_config("model", MODES[kind.partition("/")[2]])


async def model_of(kind: str, visits: range) -> MemoryVisitStore:
    """The store in memory after the same visits."""
    model = MemoryVisitStore(config_of(kind))
    await model.create()
    await run_visits(model, visits)
    return model


async def created(store: VisitStore) -> VisitStore:
    await store.create()
    await store.connect()
    return store


def within(rows: Array, region: Region) -> Array:
    """An answer about a region may have more than was asked for; each object once."""
    assert len(np.unique(rows["diaObjectId"])) == len(rows)
    return by_id(rows[in_ranges(rows["pixelId"], region.ranges)])


async def assert_as_model(store: VisitStore, model: VisitStore, kind: str) -> None:
    """Every table holds the same, and the counts say so."""
    for table in tables_in(config_of(kind)):
        assert same(await store.whole(table), await model.whole(table)), table
    assert dict(await store.counts()) == dict(await model.counts())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_mode_holds_and_answers_as_the_model_does(kind: str, make: Make) -> None:
    model, store = await model_of(kind, range(6)), make()
    assert len(await store.pointings(10)) == 0
    await store.create()
    await store.create()
    await store.connect()
    assert await store.last_visit() is None
    assert await store.first_visit_since(0) is None
    await run_visits(store, range(3))
    await run_visits(store, range(3, 6), at_once=True)
    await assert_as_model(store, model, kind)

    for region in (EVERYWHERE, region_of([1_001, 1_004]), region_of([999])):
        expected = within(await model.objects(region), region)
        assert same(within(await store.objects(region), region), expected)
    # More than one chunk of ids, and ids that nobody has.
    ids = [*range(0, VARIABLES, 2), *range(1_000_000_000, 1_000_000_000 + NEW), 77_777]
    for since, before in ((0, 6), (2, 5), (4, 4), (5, 100)):
        history = history_of(ids, since, before)
        for name in ("sources", "forced_sources"):
            answer, expected = [await getattr(one, name)(history) for one in (store, model)]
            assert same(by_id(answer), by_id(expected)), (name, since, before)
    nothing = history_of([], 0, 6)
    assert len(await store.sources(nothing)) == len(await store.forced_sources(nothing)) == 0

    assert await store.last_visit() == record_of(5)
    assert (await store.pointings(4)).tolist() == (await model.pointings(4)).tolist()
    assert (await store.pointings(100))["visit"].tolist() == [5, 4, 3, 2, 1, 0]
    assert await store.first_visit_since(0) == 0
    assert await store.first_visit_since(time_of(2)) == 2
    assert await store.first_visit_since(time_of(2) + 1) == 3
    assert await store.first_visit_since(time_of(6)) is None
    sizes = await store.sizes()
    assert set(sizes) == set(tables_in(config_of(kind)))
    assert all(size.table_bytes > 0 for size in sizes.values())

    await store.drop()
    await store.drop()
    assert await (await created(make())).last_visit() is None


@pytest.mark.parametrize("kind", FEW)
async def test_a_visit_that_was_cut_short_is_completed(kind: str, make: Make) -> None:
    model, store = await model_of(kind, range(3)), await created(make())
    await run_visits(store, range(2))
    assert await store.begin(2, time_of(2)) == frozenset()
    await store.write(tile_write(2, 0, (Step.OBJECTS,)))
    await store.write(tile_write(2, 1, (Step.OBJECTS, Step.SOURCES)))
    await store.close()

    again = await created(make())
    assert await again.last_visit() == record_of(1)
    there = {(0, Step.OBJECTS), (1, Step.OBJECTS), (1, Step.SOURCES)}
    assert await again.begin(2, time_of(2)) == there
    # What nobody knows to be committed is written again: it changes nothing.
    await again.write(tile_write(2, 1, (Step.OBJECTS, Step.SOURCES)))
    for tile in range(TILES):
        rest = tuple(step for step in STEPS if (tile, step) not in there)
        await again.write(tile_write(2, tile, rest))
    assert await again.begin(2, time_of(2)) == {(tile, step) for tile in range(TILES) for step in STEPS}
    # A history before the visit does not see what it wrote itself.
    before = history_of(range(VARIABLES), 0, 2)
    assert same(by_id(await again.sources(before)), by_id(await model.sources(before)))
    await again.finish(record_of(2))
    await again.finish(record_of(2))
    with pytest.raises(VisitDone, match="visit 2"):
        await again.begin(2, time_of(2))
    assert await again.last_visit() == record_of(2)
    await assert_as_model(again, model, kind)


@pytest.mark.parametrize("kind", FEW)
async def test_a_visit_does_not_follow_one_that_the_server_lost(kind: str, make: Make) -> None:
    model, store = await model_of(kind, range(2)), await created(make())
    await run_visits(store, range(1))
    with pytest.raises(VisitsLost, match="of visit 1 or before it"):
        await store.begin(2, time_of(2))
    assert await store.begin(1, time_of(1)) == frozenset()
    for tile in range(TILES):
        await store.write(tile_write(1, tile))
    with pytest.raises(VisitsLost, match="of visit 1 or before it"):
        await store.finish(record_of(1), TILES * len(STEPS) + 1)
    with pytest.raises(VisitsLost, match="of visit 2 or before it"):
        await store.finish(record_of(2))
    assert await store.last_visit() == record_of(0)
    await store.finish(record_of(1), TILES * len(STEPS))
    await store.finish(record_of(1), TILES * len(STEPS))
    await assert_as_model(store, model, kind)


@pytest.mark.parametrize("kind", COMPACTING)
async def test_a_partition_that_the_server_lost_is_made_again(kind: str, make: Make, dsn: str, schema: str) -> None:
    model, store = await model_of(kind, range(1)), await created(make(durability="async"))
    await store.begin(0, time_of(0))
    period = time_of(0) // config_of(kind).period_ns
    if dsn.startswith("postgresql"):
        connection = await asyncpg.connect(dsn)
        for table in tables_in(config_of(kind)):
            await connection.execute(f'DROP TABLE {schema}."{table}Packs${period}"')
        await connection.close()
    else:
        session = await connect(address_of(dsn), program="test", timeout_s=30)
        for table in tables_in(config_of(kind)):
            await session.run(f"ALTER TABLE {schema}.{table}Packs DROP PARTITION p{period}")
        session.terminate()
    await store.close()  # as a server that crashed leaves it
    await run_visits(store, range(1))
    await assert_as_model(store, model, kind)


@pytest.mark.parametrize("kind", COMPACTING)
async def test_one_run_at_a_time_holds_a_schema(kind: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.sql.visits.HOLD_TIMEOUT_S", 0.05)
    first, second = await created(make()), await created(make())
    await first.hold()
    await first.hold()
    with pytest.raises(VisitsLocked, match=r"another run writes visits into schema .* stop that one"):
        await second.hold()
    # Workers of the first write on, and another connection of its own holds the schema, too.
    await run_visits(second, range(1))
    await first.close()
    await first.connect()
    with pytest.raises(VisitsLocked):
        await second.hold()
    await first.release()
    await first.connect()
    monkeypatch.setattr("backends.sql.visits.HOLD_TIMEOUT_S", 5.0)
    await second.hold()


@pytest.mark.parametrize("kind", FEW)
async def test_workers_write_the_tiles_of_a_visit_at_once(kind: str, make: Make) -> None:
    model = await model_of(kind, range(4))
    workers = [make() for _ in range(TILES)]
    await asyncio.gather(*(worker.create() for worker in workers))
    for visit in range(4):
        await asyncio.gather(*(worker.begin(visit, time_of(visit)) for worker in workers))
        writes = (worker.write(tile_write(visit, tile)) for tile, worker in enumerate(workers))
        await asyncio.gather(*writes)
        await asyncio.gather(*(worker.finish(record_of(visit)) for worker in workers))
    await assert_as_model(workers[0], model, kind)


@pytest.mark.parametrize("kind", FEW)
async def test_a_tile_without_anything_is_written_too(kind: str, make: Make) -> None:
    store = await created(make())
    await store.begin(0, time_of(0))
    full = tile_write(0, 0)
    empty = {name: getattr(full, name)[:0] for name in ("objects", "detected", "known", "object_pixels", "forced")}
    empty |= {"sources": full.sources[:0], "source_pixels": full.source_pixels[:0]}
    kept = {"visit": 0, "time_ns": full.time_ns, "tile": 0, "steps": STEPS}
    await store.write(type(full)(**kept, **empty))
    assert await store.begin(0, time_of(0)) == {(0, step) for step in STEPS}
    assert set((await store.counts()).values()) == {0}
    assert len(await store.objects(EVERYWHERE)) == 0


@pytest.mark.parametrize("kind", PARTITIONED)
async def test_periods_that_are_over_are_dropped(kind: str, make: Make) -> None:
    model, store = await model_of(kind, range(6)), await created(make())
    await run_visits(store, range(6))
    # A period has the visits 0 and 1, 2 and 3, 4 and 5.
    for before in (time_of(2) - 1, time_of(2), time_of(3), time_of(4)):
        for one in (store, model):
            await one.expire(before)
        await assert_as_model(store, model, kind)
    assert {int(visit) for visit in (await store.whole("DIASource"))["ccdVisitId"]} == {4, 5}
    assert same(within(await store.objects(EVERYWHERE), EVERYWHERE), by_id(await model.objects(EVERYWHERE)))
    await run_visits(store, range(6, 8))
    await run_visits(model, range(6, 8))
    await assert_as_model(store, model, kind)


@pytest.mark.parametrize("kind", FEW)
async def test_other_settings_are_refused(kind: str, make: Make) -> None:
    await created(make())
    with pytest.raises(SchemaMismatch, match=r"visits\.survey\.seed: .* 3, .* 4; set it to what it was"):
        await make(survey={"seed": 4}).create()
    other = "partitioned" if kind.endswith("baseline") else "baseline"
    with pytest.raises(SchemaMismatch, match=r"visits\.index_mode: "):
        await make(index_mode=other, last_update=None).create()
    await make(tiles=3, id_chunk=10).create()


@pytest.mark.parametrize("kind", FEW)
async def test_a_check_changes_nothing_and_finds_other_settings(kind: str, make: Make) -> None:
    store = make()
    await store.check()
    await make(survey={"seed": 4}).check()  # nothing was made
    await created(store)
    await store.check()
    with pytest.raises(SchemaMismatch, match=r"visits\.survey\.seed: .* 3, .* 4; set it to what it was"):
        await make(survey={"seed": 4}).check()


@pytest.mark.parametrize("kind", [kind for kind in FEW if not kind.endswith("partitioned")])
async def test_rows_of_the_papers_modes_are_kept_for_ever(kind: str, make: Make) -> None:
    model, store = await model_of(kind, range(3)), await created(make())
    await run_visits(store, range(3))
    await store.expire(time_of(100))
    await assert_as_model(store, model, kind)


async def assert_answers(store: VisitStore, model: VisitStore) -> None:
    """Rows, last versions and histories are those of the model; `counts` may be lower where old versions went."""
    for table in tables_in(visits_config("model", MODES["partitioned"])):
        assert same(await store.whole(table), await model.whole(table)), table
    for region in (EVERYWHERE, region_of([1_001, 1_004])):
        assert same(within(await store.objects(region), region), within(await model.objects(region), region))
    ids = [*range(0, VARIABLES, 2), *range(1_000_000_000, 1_000_000_000 + NEW)]
    # Also beginning and ending within a period that is compacted.
    for since, before in ((0, 8), (1, 8), (3, 6), (1, 3), (2, 2)):
        history = history_of(ids, since, before)
        for name in ("sources", "forced_sources"):
            answer, expected = [await getattr(one, name)(history) for one in (store, model)]
            assert same(by_id(answer), by_id(expected)), (name, since, before)


@pytest.mark.parametrize("kind", COMPACTING)
async def test_compacted_periods_answer_as_before(kind: str, make: Make) -> None:
    model, store, worker = await model_of(kind, range(6)), await created(make()), make()
    await run_visits(store, range(6))
    await worker.connect()
    for _ in range(6):  # its statements are prepared, and outlive the exchange
        await assert_answers(worker, model)
    first = time_of(0) // visits_config("model", MODES["partitioned"]).period_ns
    # A period has the visits 0 and 1, 2 and 3, 4 and 5.
    assert list(await store.uncompacted(time_of(2) - 1)) == []
    found = list(await store.uncompacted(time_of(4)))
    assert [period for _, period in found] == [first] * 3 + [first + 1] * 3
    assert {table for table, _ in found} == set(COMPACTED)
    for table, period in found:
        made = await store.compact(table, period)
        assert made is not None
        assert 0 < made.after.packs < made.before.packs
        assert made.after.records == made.before.records or table == "DIAObjectLast"
        again = await store.compact(table, period)
        assert again is not None
        assert again.before == again.after == made.after
    assert list(await store.uncompacted(time_of(4))) == []
    for one in (store, worker):
        await assert_answers(one, model)
    counts, expected = [dict(await one.counts()) for one in (store, model)]
    assert 0 < counts.pop("DIAObjectLast") < expected.pop("DIAObjectLast")
    assert counts == expected
    for one in (store, model):
        await run_visits(one, range(6, 8))
        await one.expire(time_of(3))
    await assert_answers(store, model)
    for one in (store, model):
        await one.expire(time_of(4))
    await assert_answers(worker, model)
    assert [period for _, period in await store.uncompacted(time_of(8))] == [first + 2] * 3 + [first + 3] * 3
