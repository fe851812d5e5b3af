"""What only MongoDB does for visits: documents laid out by hand, and what stands in for a transaction."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import bson
import numpy as np
import pytest
from bson import Binary
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from backends import open_visit_store
from backends.base import BatchRejected, SchemaMismatch, StoreError
from backends.mongodb.server.errors import check_answer, check_index
from backends.mongodb.visits import packs
from backends.mongodb.visits.rows import key_bytes, row_format
from backends.visits.base import VisitStore
from schemas.config import DatabaseConfig, VisitsConfig
from schemas.visits.tables import (
    DIA_FORCED_SOURCE,
    DIA_OBJECT,
    DIA_OBJECT_LAST_WIDE,
    DIA_SOURCE,
    LAST_DTYPE,
    LastUpdate,
    Step,
    Table,
)
from tests.support.visits import EVERYWHERE, by_id, filled, record_of, same, tile_write, time_of, visits_config

DELETE_INSERT = {"index_mode": "last_object_table", "last_update": "delete_insert"}
Database = AsyncDatabase[dict[str, object]]


@pytest.fixture
async def server(mongodb_dsn: str) -> AsyncIterator[AsyncMongoClient[dict[str, object]]]:
    async with AsyncMongoClient(mongodb_dsn) as client:
        yield client


@pytest.fixture
async def made(mongodb_dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Callable[..., VisitStore]]:
    """Makes stores of one schema, which is dropped afterwards."""
    stores: list[VisitStore] = []

    def make(mode: dict[str, str], **settings: object) -> VisitStore:
        visits: VisitsConfig = visits_config(schema, mode, **settings)
        stores.append(open_visit_store(DatabaseConfig(dsn=mongodb_dsn), visits, state_dir=tmp_path))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.mark.parametrize("table", [DIA_OBJECT, DIA_SOURCE, DIA_FORCED_SOURCE, DIA_OBJECT_LAST_WIDE])
def test_a_row_is_a_document_with_all_columns_and_its_key(table: Table) -> None:
    rows = filled(np.random.default_rng(4), table.dtype, 3)
    form = row_format(table)
    documents = [bson.decode(document.tobytes()) for document in form.encode(rows, all_doubles=True)]
    for row, document in zip(rows, documents, strict=True):
        assert set(document) == {"_id", *(column.name for column in table.columns)}
        assert document["_id"] == Binary(key_bytes(*(int(row[name]) for name in table.key)), 128)
        for column in table.columns:
            if column.name in table.dtype.names:
                assert document[column.name] == row[column.name] or np.isnan(row[column.name])
            else:
                assert document[column.name] is None
    # What a server answers to the projection.
    asked = [
        {name: document[name] for name in document if name in form.projection and name != "_id"}
        for document in documents
    ]
    assert same(form.decode(b"".join(map(bson.encode, asked))), rows)


@pytest.mark.parametrize("how", [LastUpdate.REPLACE, LastUpdate.UPSERT])
def test_an_upsert_is_a_statement_a_row(how: LastUpdate) -> None:
    rows = filled(np.random.default_rng(4), DIA_OBJECT_LAST_WIDE.dtype, 3)
    form = row_format(DIA_OBJECT_LAST_WIDE)
    statements = [bson.decode(one.tobytes()) for one in form.upserts(rows, how, all_doubles=False)]
    whole = [bson.decode(one.tobytes()) for one in form.encode(rows, all_doubles=False)]
    for statement, document in zip(statements, whole, strict=True):
        number = document["_id"]
        assert (statement["q"], statement["upsert"]) == ({"_id": number}, True)
        if how is LastUpdate.REPLACE:
            assert statement["u"] == document
        else:
            del document["_id"]
            assert statement["u"] == {"$set": document}
            # The order in which a server puts new fields.
            assert list(document) == sorted(document)


def test_a_document_is_forgiven_for_its_own_id_alone() -> None:
    taken = {"writeErrors": [{"index": 0, "code": 11000, "keyPattern": {"_id": 1}, "errmsg": "E11000"}]}
    check_index(taken, "server", "DIAObject")
    assert check_answer(taken, "server", but=11000) == [0]
    other = {"writeErrors": [{"index": 0, "code": 11000, "keyPattern": {"flags": 1}, "errmsg": "E11000"}]}
    with pytest.raises(BatchRejected, match=r"unique index of flags that is not triggerlog's.*; drop that index"):
        check_index(other, "server", "DIAObject")


async def test_last_versions_that_a_cut_had_deleted_are_put_back(
    made: Callable[..., VisitStore], server: AsyncMongoClient[dict[str, object]], schema: str
) -> None:
    store = made(DELETE_INSERT)
    await store.create()
    for visit in (0, 1):
        await store.begin(visit, time_of(visit))
        await store.write(tile_write(visit, 0, (Step.OBJECTS,)))
        if visit == 0:
            await store.finish(record_of(visit))
    whole = by_id(await store.objects(EVERYWHERE))
    # As after a kill between the deletion and the insertion of visit 1: its mark is not there either.
    written = tile_write(1, 0).objects["diaObjectId"]
    database = server[schema]
    await database["DIAObjectLast"].delete_many({"diaObjectId": {"$in": written.tolist()}})
    await database["VisitSteps"].delete_many({})
    assert len(await store.objects(EVERYWHERE)) == len(whole) - len(written) > 0
    assert await store.begin(1, time_of(1)) == frozenset()
    assert same(by_id(await store.objects(EVERYWHERE)), whole)
    await store.write(tile_write(1, 0, (Step.OBJECTS,)))
    assert same(by_id(await store.objects(EVERYWHERE)), whole)
    await store.drop()


async def test_between_a_new_version_and_the_end_of_the_old_one_the_new_one_is_the_last(
    made: Callable[..., VisitStore], server: AsyncMongoClient[dict[str, object]], schema: str
) -> None:
    store = made({"index_mode": "baseline"})
    await store.create()
    for visit in (0, 1):
        await store.write(tile_write(visit, 0, (Step.OBJECTS,)))
    whole = by_id(await store.objects(EVERYWHERE))
    ended = await server[schema]["DIAObject"].update_many(
        {"validityEnd": {"$ne": None}}, {"$set": {"validityEnd": None}}
    )
    assert ended.modified_count > 0
    assert same(by_id(await store.objects(EVERYWHERE)), whole)
    # The tile is done again.
    await store.write(tile_write(1, 0, (Step.OBJECTS,)))
    assert await server[schema]["DIAObject"].count_documents({"validityEnd": time_of(1)}) == ended.modified_count
    await store.drop()


async def test_a_pack_that_is_too_large_for_a_document_is_several(
    made: Callable[..., VisitStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "PART_BYTES", DIA_SOURCE.dtype.itemsize + 1)
    store = made({"index_mode": "partitioned"})
    await store.create()
    await store.begin(0, time_of(0))
    write = tile_write(0, 0)
    for _ in range(2):
        await store.write(write)
    assert (await store.counts())["DIASource"] == len(write.sources)
    assert same(await store.whole("DIASource"), np.sort(write.sources, order="diaSourceId"))
    assert (await store.objects(EVERYWHERE)).dtype == LAST_DTYPE
    await store.drop()


async def test_what_is_not_ours_is_refused_and_left(
    made: Callable[..., VisitStore], server: AsyncMongoClient[dict[str, object]], schema: str
) -> None:
    store = made({"index_mode": "baseline"})
    await server[schema]["orders"].insert_one({"_id": 1})
    for attempt in (store.create, store.drop):
        with pytest.raises(SchemaMismatch, match=r"has a collection 'orders' and no visits; set another `schema` in"):
            await attempt()
    assert await server[schema]["orders"].count_documents({}) == 1
    await server.drop_database(schema)
    await store.create()
    await server[schema]["DIAForcedSource"].insert_one({"diaObjectId": 4, "psFlux": "bright"})
    with pytest.raises(StoreError, match=r"documents in database .* are not as this store writes them"):
        await store.whole("DIAForcedSource")
    await store.drop()
