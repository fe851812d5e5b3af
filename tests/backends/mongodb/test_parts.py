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
from bson import Binary, Int64
from bson.timestamp import Timestamp

from backends.base import BatchRejected, StoreError, StoreUnavailable
from backends.mongodb import schema_statements
from backends.mongodb.protocol.documents import (
    DOCUMENT,
    DOUBLE,
    NULL,
    USER_DEFINED,
    DocumentFormat,
    Field,
    NotOurDocuments,
    binary,
    number,
    split,
)
from backends.mongodb.protocol.triggers import (
    LATE,
    REVISION,
    decode_heads,
    decode_readings,
    encode_closed,
    encode_late,
    encode_revised,
    id_bytes,
    key_in,
    merged,
    written_by,
)
from backends.mongodb.reading.documents import of_stretch, stretches
from backends.mongodb.schema import NEEDED, GroupCollections, lacking_rights
from backends.mongodb.server.client import make_client, target_of
from backends.mongodb.server.errors import check_answer
from backends.mongodb.server.facts import Server, _settings, check_server, held
from backends.mongodb.server.positions import is_dead, new_owner
from schemas.batch import Durability, Layout
from tests.support.batches import answers, batch_of, group_of, readings_of, with_late

WIRED = {"storageEngine": "wiredTiger", "storage.journal.commitIntervalMs": "100"}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


# --- documents ------------------------------------------------------------------------------------------------------


def test_a_document_is_what_the_driver_makes_of_it() -> None:
    form = DocumentFormat(
        [
            binary("_id", 16),
            number("run", "<i4"),
            number("time_ns", "<i8"),
            Field(name="nothing", type=NULL),
            number("x", "<f4"),
            Field(name="inner", type=DOCUMENT, fields=(binary("bits", 3), number("n", "<i2"))),
        ]
    )
    documents = form.blank(4)
    columns = form.columns(documents)
    columns["run"][:], columns["time_ns"][:] = np.arange(4), 2**40 + np.arange(4)
    columns["_id"][:] = np.frombuffer(b"".join(id_bytes(1, k) for k in range(4)), "V16")
    columns["inner.bits"][:], columns["inner.n"][:] = np.frombuffer(b"abc" * 4, "V3"), -np.arange(4)
    columns["x"][:] = np.arange(4) / 4
    for k, document in enumerate(documents):
        whole = {
            "_id": Binary(id_bytes(1, k), USER_DEFINED),
            "run": k,
            "time_ns": Int64(2**40 + k),
            "nothing": None,
            "x": k / 4,
            "inner": {"bits": Binary(b"abc", USER_DEFINED), "n": -k},
        }
        assert document.tobytes() == bson.encode(whole)
    assert form.columns(form.parse(documents.tobytes()))["inner.n"].tolist() == [0, -1, -2, -3]


def test_parse_takes_nothing_else() -> None:
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
    for cut in (3, 17):
        with pytest.raises(NotOurDocuments):
            [*split(bson.encode({"a": 1.5, "b": 2})[:cut])]


def test_special_doubles_of_visits_keep_their_bytes() -> None:
    form = DocumentFormat([number("n", "<i4"), number("x", "<f8")])
    specials = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0])
    specials = np.append(specials, [np.array([0x7FF8_DEAD_BEEF_0001], "<u8").view("<f8")[0], 0.0, 1.5])
    documents = form.blank(len(specials))
    form.columns(documents)["x"][:] = specials
    before = documents.copy()
    form.mark_specials(documents)
    assert np.count_nonzero(documents != before) == 6
    assert not np.flatnonzero((documents ^ before) & ~np.uint8(DOUBLE ^ 0x11)).size
    values = [bson.decode(document.tobytes())["x"] for document in documents]
    assert [type(value) for value in values] == [Timestamp] * 6 + [float] * 2
    form.parse(documents.tobytes())


@pytest.mark.parametrize("slice_bytes", [2**22, 100])
def test_a_trigger_is_put_together_from_its_documents(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, slice_bytes: int
) -> None:
    monkeypatch.setattr("backends.mongodb.protocol.triggers.SLICE_BYTES", slice_bytes)
    group = group_of(size=9, dtypes=("float64", "uint8", "int64"))
    readings = readings_of(group, np.arange(3), 2**60 + np.arange(3) * 1000, rng)
    readings["ch0"][0, :4] = np.nan, -np.nan, -np.inf, -0.0
    readings["time_ns"][1, :2] = -(2**63), 2**63 - 1
    present = np.ones(readings.shape, bool)
    present[1, [0, 5, 8]] = False
    plain = batch_of(group, 1, readings, present=present)
    own, after = readings[1, [5]], present[1].copy()
    after[5] = True
    revised = np.array([with_late(plain.ledger[1], own, after)])
    batch = batch_of(group, 1, readings, present=present, late=own, late_of=np.array([0]), revised=revised)
    *slices, closed = encode_closed(written_by(batch), group)
    assert len(slices) == (0 if slice_bytes > 100 else 3)

    # Then come another reading of it, a duplicate, and twice what is there.
    late, after = readings[1, [8, 5]], after.copy()
    after[8] = True
    row = with_late(revised[0], late[:1], after)
    row["late"], row["arrived"] = 2, 8
    counted = row.copy()
    counted["duplicates"] = 3
    parts = [
        *slices,
        closed,
        encode_late(np.array([row, row]), late, group),
        encode_revised(np.array([counted]), group),
    ]
    data = b"".join(part.tobytes() for part in parts)
    found = merged(rng.permutation(decode_heads(data, group)), group.size)
    np.testing.assert_array_equal(found.rows, np.array([plain.ledger[0], counted, plain.ledger[2]]))
    assert found.stored.tolist() == [9, 8, 9]
    assert found.is_stored.all()
    read = np.unique(decode_readings(data, group).view(f"V{decode_readings(data, group).dtype.itemsize}"))
    after[0] = False
    there = np.ones(readings.shape, bool)
    there[1] = after
    expected = answers(group, [(1, readings[there])])
    assert sorted(each.tobytes() for each in read) == sorted(each.tobytes() for each in expected)


def test_ids_are_in_the_order_of_what_they_name() -> None:
    named = [(1, -(2**63), 0), (1, -1, 5), (1, 0, 0), (1, 0, REVISION), (1, 0, LATE | 32_766), (1, 7, 0)]
    named += [(1, 2**63 - 1, 0), (2, -5, 0)]
    ids = [id_bytes(*name) for name in named]
    assert ids == sorted(ids)
    assert [key_in(raw) for raw in ids] == [name[:2] for name in named]
    between = of_stretch(1, 0, 0)["_id"]
    inside = [name for name, raw in zip(named, ids, strict=True) if between["$gte"] <= raw <= between["$lte"]]
    assert inside == [(1, 0, 0), (1, 0, REVISION), (1, 0, LATE | 32_766)]


def test_neighbours_are_looked_up_as_stretches() -> None:
    keys = np.array([(1, 5), (1, 3), (1, 4), (2, 6), (1, 9), (1, 5)], [("run", "<i4"), ("trigger", "<i8")])
    assert stretches(keys) == [(1, 3, 5), (1, 9, 9), (2, 6, 6)]
    assert stretches(keys[:0]) == []


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


@pytest.mark.parametrize("set_name", ["", "rs0"])
def test_a_login_that_may_not_see_the_settings_is_a_shortfall(set_name: str) -> None:
    for status, options, unseen in (
        ({}, {}, "storage.journal.commitIntervalMs, storage.journal.enabled, storageEngine"),
        ({"storageEngine": {"name": "wiredTiger"}}, {}, "storage.journal.commitIntervalMs, storage.journal.enabled"),
    ):
        settings = _settings(status, options)
        found = held(Server(product="mongodb", version="7.0", set_name=set_name, settings=settings))
        for durability in Durability:
            assert found[durability].words.endswith("which this login may not see)")
            shortfall = found[durability].shortfall
            assert shortfall is not None
            assert shortfall.problem.startswith(f"the login may not see {unseen} of the server")
            assert "clusterMonitor" in shortfall.fix
        assert found[Durability.ASYNC].risk_ms == (math.inf if set_name else 500)
    told = _settings({"storageEngine": {"name": "wiredTiger"}}, {"parsed": {}})
    assert held(Server(product="mongodb", version="7.0", settings=told))[Durability.SYNC].shortfall is None


def test_the_write_concern_is_what_is_promised() -> None:
    alone, member = Server(product="mongodb", version="7.0"), Server(product="mongodb", version="7.0", set_name="rs0")
    assert alone.write_concern(Durability.SYNC, 30) == {"w": 1, "j": True}
    assert member.write_concern(Durability.SYNC, 0.5) == {"w": "majority", "j": True, "wtimeout": 400}
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
        {"writeErrors": [{"index": 0, "code": 121, "errmsg": "again"}], "errorLabels": ["RetryableWriteError"]},
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


def test_the_script_makes_all_of_it() -> None:
    group = group_of(size=2, dtypes=("float64",))
    wanted = GroupCollections(group=group, layout=Layout.ARRAYS)
    script = schema_statements("db1", "main", {"bpm": group}, {"bpm": Layout.ARRAYS})
    text = "\n".join(script)
    assert all(part.startswith("//") or part.endswith(";") for part in script)
    assert script[1] == 'db = db.getSiblingDB("db1");'
    assert 'includes("bpm")) db.runCommand({"create": "bpm"' in text
    assert f'"createIndexes": "bpm", "indexes": {json.dumps(wanted.indexes())}' in text
    assert json.dumps(wanted.description("main")) in text


# --- owners ------------------------------------------------------------------------------------------------------

OWNER = "from backends.mongodb.server.positions import new_owner; print(new_owner(), flush=True); input()"


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
