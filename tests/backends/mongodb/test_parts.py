"""The parts of the MongoDB store that need no server: layout of documents, durability, rights, views, texts."""

import json
import math
import os
import re
import subprocess
import sys
from typing import Any

import bson
import numpy as np
import pytest
from bson import Binary, Int64, ObjectId
from bson.timestamp import Timestamp

from backends.base import BatchRejected, StoreError, StoreUnavailable
from backends.columns.stored import MISSING_OFFSET
from backends.mongodb import schema_statements
from backends.mongodb.accounts import ACCOUNT_INDEXES, ACCOUNTS
from backends.mongodb.protocol.documents import (
    BINARY,
    DOUBLE,
    OBJECT_ID,
    STRING,
    USER_DEFINED,
    DocumentFormat,
    Field,
    NotOurDocuments,
    array_bytes,
    id_bytes,
    number,
)
from backends.mongodb.protocol.formats import arrays_format, encode_arrays, encode_rows, rows_format
from backends.mongodb.reading.documents import readings_in_window, readings_of_trigger
from backends.mongodb.schema.create import NEEDED, GroupCollections, lacking_rights
from backends.mongodb.schema.views import readings_view
from backends.mongodb.server.client import make_client, target_of
from backends.mongodb.server.errors import check_answer
from backends.mongodb.server.facts import Server, check_server, held
from backends.mongodb.server.owner import is_dead, new_owner
from schemas.batch import Durability, Layout
from schemas.queries import WindowReadings
from tests.support.batches import batch_of, group_of, readings_of

WIRED = {"storageEngine": "wiredTiger", "storage.journal.commitIntervalMs": "100"}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


# --- documents ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 9, 10, 11, 99, 100, 101, 1001])
def test_a_document_is_what_the_driver_makes_of_it(size: int, rng: np.random.Generator) -> None:
    form = DocumentFormat(
        [
            Field(name="_id", type=OBJECT_ID, form="V12"),
            number("run", "<i4"),
            number("time_ns", "<i8"),
            number("x", "<f8", size),
            number("n", "<i2", size),
            Field(name="bits", type=BINARY, form="V3"),
            Field(name="logger", type=STRING, constant=b"main"),
        ]
    )
    x, n = rng.standard_normal((4, size)), rng.integers(-100, 100, (4, size))
    documents = form.blank(4)
    columns = form.columns(documents)
    columns["run"][:], columns["time_ns"][:] = np.arange(4), 2**40 + np.arange(4)
    columns["_id"][:] = np.frombuffer(b"".join(id_bytes(1, k) for k in range(4)), "V12")
    columns["bits"][:] = np.frombuffer(b"abc" * 4, "V3")
    form.put_arrays(documents, {"x": x, "n": n})
    for k, document in enumerate(documents):
        whole = {
            "_id": ObjectId(id_bytes(1, k)),
            "run": k,
            "time_ns": Int64(2**40 + k),
            "x": x[k].tolist(),
            "n": n[k].tolist(),
            "bits": Binary(b"abc", USER_DEFINED),
            "logger": "main",
        }
        assert document.tobytes() == bson.encode(whole)
    read = form.get_arrays(form.parse(documents.tobytes()))
    np.testing.assert_array_equal(read["x"], x)
    np.testing.assert_array_equal(read["n"], n)
    assert array_bytes(size, 8) == len(bson.encode({"": [1.0] * size})) - 7


def test_parse_takes_nothing_else(rng: np.random.Generator) -> None:
    form = DocumentFormat([number("a", "<f8"), number("b", "<i4")])
    form.parse(bson.encode({"a": 1.5, "b": 2}) + bson.encode({"a": Timestamp(5, 6), "b": 2}))
    for other in (
        {"a": 1.5, "b": 2, "c": 1},
        {"b": 2, "a": 1.5},
        {"a": 1.5, "c": 2},
        {"a": Int64(1), "b": 2},
        {"a": 1.5, "b": Int64(2)},
    ):
        with pytest.raises(NotOurDocuments):
            form.parse(bson.encode({"a": 1.5, "b": 2}) + bson.encode(other))


@pytest.mark.parametrize("layout", list(Layout))
def test_special_doubles_keep_their_bytes(layout: Layout, rng: np.random.Generator) -> None:
    group = group_of(size=12, dtypes=("float64", "int32"))
    readings = readings_of(group, np.arange(2), np.arange(2) * 1000, rng)
    specials = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0])
    specials = np.append(specials, np.array([0x7FF8_DEAD_BEEF_0001], "<u8").view("<f8"))
    readings["ch0"][1, :6], readings["ch0"][1, 6] = specials, 0.0
    batch = batch_of(group, 1, readings)
    form, encode = (arrays_format, encode_arrays) if layout is Layout.ARRAYS else (rows_format, encode_rows)
    documents = encode(batch, group)
    before = documents.copy()
    form(group).mark_specials(documents)
    assert np.count_nonzero(documents != before) == 6
    assert not np.flatnonzero((documents ^ before) & ~np.uint8(DOUBLE ^ 0x11)).size
    marked = [bson.decode(document.tobytes()) for document in documents]
    values = marked[1]["ch0"] if layout is Layout.ARRAYS else [document["ch0"] for document in marked[12:]]
    assert [type(value) for value in values[:8]] == [Timestamp] * 6 + [float] * 2
    form(group).parse(documents.tobytes())


def test_ids_are_in_the_order_of_what_they_name() -> None:
    named = [(1, -(2**63), 0), (1, -1, 5), (1, 0, 0), (1, 0, 32_766), (1, 7, 0), (1, 2**63 - 1, 0), (2, -5, 0)]
    ids = [id_bytes(*name) for name in named]
    assert ids == sorted(ids)
    assert [id_bytes(*name[:2]) for name in named] == sorted(id_bytes(*name[:2]) for name in named)
    between = readings_of_trigger(1, 0, Layout.ROWS)["_id"]
    inside = [name for name, raw in zip(named, ids, strict=True) if between["$gte"] <= raw <= between["$lte"]]
    assert inside == [(1, 0, 0), (1, 0, 32_766)]


# --- servers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "sync", "risk_ms", "asynchronous", "async_risk_ms"),
    [
        (Server(product="mongodb", version="7.0.1", settings=WIRED), "sync (w: 1, j: true", 0, "last 100 ms", 100),
        (
            Server(product="mongodb", version="8.0", settings={**WIRED, "storage.journal.commitIntervalMs": "30"}),
            *("sync (w: 1", 0, "last 30 ms", 30),
        ),
        (
            Server(product="mongodb", version="6.0", set_name="rs0", settings=WIRED),
            *("sync (w: majority, j: true: in the journals of the majority of rs0)", 0, "failover", math.inf),
        ),
        (
            Server(product="mongodb", version="6.0", settings={"storageEngine": "inMemory"}),
            *("NOT durable: storageEngine is inMemory", math.inf, "NOT durable", math.inf),
        ),
        (
            Server(product="mongodb", version="5.0", settings={**WIRED, "storage.journal.enabled": "false"}),
            *("NOT durable: storage.journal.enabled is false", math.inf, "NOT durable", math.inf),
        ),
        (
            Server(product="ferretdb", version="1.24.2", keeps_json=True),
            *("sync as far as the database behind FerretDB 1.24.2 is", 0, "sync as far as", 0),
        ),
    ],
    ids=["standalone", "interval", "replica set", "in memory", "no journal", "ferretdb"],
)
def test_durability_follows_from_the_server(
    server: Server, sync: str, risk_ms: float, asynchronous: str, async_risk_ms: float
) -> None:
    found = held(server)
    assert found[Durability.SYNC].words.startswith(sync)
    assert asynchronous in found[Durability.ASYNC].words
    assert (found[Durability.SYNC].risk_ms, found[Durability.ASYNC].risk_ms) == (risk_ms, async_risk_ms)
    assert (found[Durability.SYNC].shortfall is None) == sync.startswith("sync (")


def test_the_write_concern_is_what_is_promised() -> None:
    alone, member = Server(product="mongodb", version="7.0"), Server(product="mongodb", version="7.0", set_name="rs0")
    assert alone.write_concern(Durability.SYNC, 30) == {"w": 1, "j": True, "wtimeout": 30_000}
    assert member.write_concern(Durability.SYNC, 0.5) == {"w": "majority", "j": True, "wtimeout": 500}
    for server in (alone, member):
        assert server.write_concern(Durability.ASYNC, 30) == {"w": 1, "j": False}


def test_a_server_that_will_not_do() -> None:
    with pytest.raises(StoreError, match=r"^there is MongoDB 4.4.29; triggerlog needs 5.0 or newer: upgrade it$"):
        check_server(Server(product="mongodb", version="4.4.29"), "there")
    with pytest.raises(StoreUnavailable, match="takes no writes now: it is no primary"):
        check_server(Server(product="mongodb", version="7.0.1", is_writable=False), "there")
    check_server(Server(product="mongodb", version="5.0.31"), "there")
    check_server(Server(product="mongodb", version="8.2.1-rc0"), "there")
    check_server(Server(product="ferretdb", version="1", keeps_json=True), "there")


@pytest.mark.parametrize(
    ("resource", "actions", "lacking"),
    [
        ({"db": "here", "collection": ""}, NEEDED, set()),
        ({"db": "", "collection": ""}, NEEDED, set()),
        ({"anyResource": True}, {"anyAction"}, set()),
        ({"db": "here", "collection": ""}, NEEDED - {"insert", "update"}, {"insert", "update"}),
        ({"db": "elsewhere", "collection": ""}, NEEDED, NEEDED),
        ({"db": "here", "collection": "bpm"}, NEEDED, NEEDED),
        ({"cluster": True}, {"anyAction"}, NEEDED),
    ],
)
def test_rights_that_are_lacking(resource: dict[str, Any], actions: set[str], lacking: set[str]) -> None:
    assert lacking_rights([{"resource": resource, "actions": list(actions)}], "here") == lacking


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (
            {
                "code": 121,
                "errmsg": "Document failed validation",
                "errInfo": {"failingDocumentId": 8, "details": {"operatorName": "$lt", "consideredValue": 1000.0}},
            },
            "there refuses: Document failed validation (121)",
            "{'operatorName': '$lt', 'consideredValue': 1000.0}",
        ),
        (
            {"code": 11000, "errmsg": "E11000 duplicate key error collection: m1.bpm index: top_1 dup key: { top: 5 }"},
            "there refuses: E11000 duplicate key error collection: m1.bpm index: top_1 dup key: ... (11000)",
            "E11000 duplicate key error collection: m1.bpm index: top_1 dup key: { top: 5 }",
        ),
    ],
)
def test_what_is_refused_has_the_values_of_a_document_in_its_detail(
    error: dict[str, Any], reason: str, detail: str
) -> None:
    with pytest.raises(BatchRejected) as rejected:
        check_answer({"writeErrors": [{"index": 0, **error}]}, "there")
    assert (rejected.value.reason, rejected.value.detail) == (reason, detail)


def test_what_a_write_is_answered_with() -> None:
    twice = {"index": 3, "code": 11000, "errmsg": "E11000 duplicate key"}
    assert check_answer({"ok": 1, "writeErrors": [twice]}, "there", but=11000) == [3]
    with pytest.raises(StoreError, match=r"there refuses: Document failed validation \(121\)") as rejected:
        check_answer({"writeErrors": [{"index": 0, "code": 121, "errmsg": "Document failed\nvalidation"}]}, "there")
    assert not isinstance(rejected.value, StoreUnavailable)
    for answer in (
        {"writeErrors": [twice, {"index": 4, "code": 10107, "errmsg": "not primary"}]},
        {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}},
        {"writeErrors": [{"index": 0, "code": 13, "errmsg": "not authorized"}]},
    ):
        with pytest.raises(StoreUnavailable):
            check_answer(answer, "there", but=11000)


@pytest.mark.parametrize(
    ("dsn", "target"),
    [
        ("mongodb://localhost", "mongodb://localhost:27017"),
        ("mongodb://me:p%40ss@db:27018/?replicaSet=rs0", "mongodb://me@db:27018"),
        ("mongodb://me@a:1,b:2/auth?w=majority", "mongodb://me@a:1,b:2"),
        ("mongodb://[::1]:27017", "mongodb://::1:27017"),
    ],
)
def test_a_target_says_where_and_no_password(dsn: str, target: str) -> None:
    assert target_of(dsn) == target


@pytest.mark.parametrize(
    "dsn",
    [
        "mongodb://",
        "mongodb://me:se/cret@host",
        "mongodb://me:se@cret@host",
        "mongodb://me:secret@host:port",
        "mongodb://me:secret@host/?nonsense=1",
        "mongodb://me:secret@host/?w=-1",
    ],
)
async def test_a_dsn_that_cannot_be_understood(dsn: str) -> None:
    with pytest.raises(StoreError, match=r"^`dsn` in \[database\] cannot be (understood|used): ") as wrong:
        await make_client(dsn, password=None, program="triggerlog main", timeout_s=1).close()
    assert not re.search("se.?cret|\n", str(wrong.value))


# --- what only a real mongod takes ----------------------------------------------------------------------------------


def test_a_window_names_all_instruments_where_an_index_serves_it() -> None:
    query = WindowReadings(group=group_of(size=3), start_ns=5, end_ns=9)
    mongodb, ferretdb = (
        Server(product="mongodb", version="7.0"),
        Server(product="ferretdb", version="1", keeps_json=True),
    )
    times = {"time_ns": {"$gte": 5, "$lt": 9}}
    assert readings_in_window(query, Layout.ROWS, mongodb) == {"instrument": {"$in": [0, 1, 2]}, **times}
    assert readings_in_window(query, Layout.ROWS, ferretdb) == times


def test_views_show_a_reading_a_document() -> None:
    group = group_of(size=3, dtypes=("float64", "int16"))
    rows, arrays = (readings_view(group, layout) for layout in Layout)
    assert rows["viewOn"] == arrays["viewOn"] == "bpm"
    assert [list(stage) for stage in rows["pipeline"]] == [["$project"]]
    assert [list(stage) for stage in arrays["pipeline"]] == [["$unwind"], ["$match"], ["$set"], ["$project"]]
    unwind, match, spread, project = (stage for stage in arrays["pipeline"])
    assert unwind["$unwind"] == {"path": "$time_offset_ns", "includeArrayIndex": "instrument"}
    assert match["$match"] == {"time_offset_ns": {"$ne": MISSING_OFFSET}}
    assert spread["$set"]["ch1"] == {"$arrayElemAt": ["$ch1", "$instrument"]}
    assert spread["$set"]["time_ns"] == {"$add": ["$time_ns", "$time_offset_ns"]}
    assert project == rows["pipeline"][0]
    assert project["$project"]["name"] == {"$arrayElemAt": [["bpm_000", "bpm_001", "bpm_002"], "$instrument"]}


@pytest.mark.parametrize("layout", list(Layout))
def test_the_script_makes_all_of_it(layout: Layout) -> None:
    group = group_of(size=2, dtypes=("float64",))
    wanted = GroupCollections(group=group, layout=layout)
    script = schema_statements("db1", "main", {"bpm": group}, {"bpm": layout})
    text = "\n".join(script)
    assert all(part.startswith("//") or part.endswith(";") for part in script)
    assert script[1] == 'db = db.getSiblingDB("db1");'
    for name in (wanted.data, wanted.ledger, wanted.view):
        assert f'includes("{name}")) db.runCommand({{"create": "{name}"' in text
    for collection, indexes in {**wanted.indexes(), ACCOUNTS: ACCOUNT_INDEXES}.items():
        assert f'"createIndexes": "{collection}", "indexes": {json.dumps(indexes)}' in text
    assert f'NumberLong("{MISSING_OFFSET}")' in text or layout is Layout.ROWS
    assert json.dumps(wanted.description("main")) in text
    assert 'db.positions.updateOne({"_id": "bpm"}' in text


# --- owners of leases -----------------------------------------------------------------------------------------------

OWNER = "from backends.mongodb.server.owner import new_owner; print(new_owner(), flush=True); input()"


def test_an_owner_is_dead_once_its_process_is() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", OWNER], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        assert owner.split(":")[1] == str(process.pid)
        assert not is_dead(owner)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(owner), "a zombie writes nothing"
    assert is_dead(owner)


def test_nobody_is_called_dead_who_may_live() -> None:
    mine = new_owner()
    host, pid, mark = mine.split(":")
    where, born, unique = mark.split("-")
    assert not is_dead(mine)
    assert is_dead(f"{host}:{pid}:{where}-{int(born) - 1}-{unique}"), "another process has the number by now"
    for owner in (
        f"{host}:{pid}:{where[:-1]}-1-{unique}",  # another boot, or another container
        f"{host}:{2**22 + 1}:elsewhere-1-{unique}",
        f"{host}:{2**22 + 1}:0123abcd",  # of an earlier release
        f"{host}:{2**22 + 1}:-1-{unique}",
        "somebody",
        "",
    ):
        assert not is_dead(owner)
