"""The routes for folders over a real socket, with the stores of real servers behind them."""

import csv
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from backends import open_folders_store
from backends.base import StoreUnavailable
from backends.folders.base import FoldersStore
from daemon.api.folders import BLOCK_BYTES, COLUMNS_BYTES
from daemon.folders.opened import OpenedFolders
from schemas.api.folders import FolderDetails, FolderTree, Inserted, IntervalColumns, SourcePosition
from schemas.api.model import Problem
from schemas.config import DatabaseConfig, FoldersConfig
from schemas.folders.blocks import OPEN
from schemas.folders.folders import Column, block_dtype
from schemas.readings import Array
from tests.daemon.api.test_api import WITH_TOKEN, Served, served
from tests.support.memory.folders import MemoryFoldersStore

SERVERS = {"postgresql": "postgresql_dsn", "mariadb": "mariadb_dsn"}
PATH = "/magnets/current"
COLUMNS = (Column(name="ampere", dtype="float64"), Column(name="note", dtype="text", width=12))
DTYPE = block_dtype(COLUMNS)
NEW = {
    "path": PATH,
    "columns": [{"name": "ampere", "dtype": "float64"}, {"name": "note", "dtype": "text", "width": 12}],
    "channels": {"1": "Q1", "2": "Q2", "7": "Q7"},
    "description": "Currents",
}
ROWS = [(1, 100, 200, 1.5, "µA".encode()), (2, 150, OPEN, -2.0, b""), (1, 200, OPEN, 1e300, b"twelve bytes")]
NPY = "application/x-npy"
RECORDS = "application/octet-stream"


@pytest.fixture(params=SERVERS)
def dsn(request: pytest.FixtureRequest) -> str:
    """The address of a server that is started outside of the loop of a test."""
    return str(request.getfixturevalue(SERVERS[request.param]))


class Folders:
    """The routes below `/api/v1/folders`."""

    def __init__(self, api: Served) -> None:
        self.api = api

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = WITH_TOKEN | more.pop("headers", {})
        return await self.api.client.request(method, f"/api/v1/folders{path}", headers=headers, **more)

    async def found(self, path: str, **params: Any) -> httpx.Response:
        answer = await self.ask("GET", path, params={"path": PATH, **params})
        assert answer.status_code == 200, answer.text
        return answer

    async def block(self, path: str, **params: Any) -> list[tuple[Any, ...]]:
        """An answer in numpy's format."""
        answer = await self.found(path, format="npy", **params)
        assert answer.headers["content-type"] == NPY
        loaded = np.load(io.BytesIO(answer.content), allow_pickle=False)
        assert loaded.dtype == DTYPE
        return list(loaded.tolist())

    async def insert(self, block: Array, sequence: int, *, kind: str = NPY, **params: Any) -> httpx.Response:
        file = io.BytesIO()
        np.save(file, block)
        return await self.ask(
            "POST",
            "/block",
            params={"path": PATH, "source": "test", "sequence": sequence, **params},
            content=file.getvalue() if kind == NPY else block.tobytes(),
            headers={"content-type": kind},
        )

    async def refused(self, status: int, field: str | None, answer: httpx.Response) -> Problem:
        problem = Problem.model_validate_json(answer.content)
        assert (answer.status_code, problem.field) == (status, field), problem
        assert problem.fix
        return problem


@asynccontextmanager
async def serving(store: FoldersStore, **config: Any) -> AsyncIterator[Folders]:
    """The API with an opened store that has a folder."""
    async with served() as api:
        opened = OpenedFolders(store, FoldersConfig.model_validate({"serve": True, **config}), api.logger.events)
        await opened.run()
        api.service.folders = opened
        folders = Folders(api)
        answer = await folders.ask("POST", "", json=NEW)
        assert answer.status_code == 201, answer.text
        yield folders


@pytest.fixture
async def folders(dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Folders]:
    store = open_folders_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
    try:
        async with serving(store) as made:
            yield made
    finally:
        await store.drop()
        await store.close()


@pytest.fixture
async def in_memory() -> AsyncIterator[Folders]:
    async with serving(MemoryFoldersStore(), answer_mib=0.1) as made:
        yield made


def block(*rows: tuple[Any, ...]) -> Array:
    return np.array(list(rows), DTYPE)


# --- the tree ---------------------------------------------------------------------------------------------------------


async def test_the_tree_is_built_and_taken_down_again(folders: Folders) -> None:
    answer = await folders.ask("POST", "/sets", json={"path": "/weather/inside", "description": "Temperatures"})
    assert answer.status_code == 201
    multi = {**NEW, "path": "/weather/inside/hall", "kind": "multi", "channels": {}}
    assert (await folders.ask("POST", "", json=multi)).status_code == 201
    tree = FolderTree.model_validate_json((await folders.ask("GET", "")).content)
    assert [each.path for each in tree.sets] == ["/magnets", "/weather", "/weather/inside"]
    assert [(each.path, each.kind, each.layout) for each in tree.folders] == [
        (PATH, "single", "window"),
        ("/weather/inside/hall", "multi", "window"),
    ]
    added = await folders.ask("POST", "/channels", json={"path": "/weather/inside/hall", "channels": {"3": "T3"}})
    assert added.json() == {"path": "/weather/inside/hall", "added": 1}
    tagged = await folders.ask("POST", "/tags", params={"path": "/weather", "tag": "first"})
    assert [(each["path"], each["name"]) for each in tagged.json()["tags"]] == [("/weather/inside/hall", "first")]
    details = FolderDetails.model_validate_json(
        (await folders.ask("GET", "/folder", params={"path": "/weather/inside/hall"})).content
    )
    assert details.channels == {3: "T3"}
    assert [each.name for each in details.tags] == ["first"]
    assert [column.column() for column in details.folder.columns] == list(COLUMNS)
    untagged = await folders.ask("DELETE", "/tags", params={"path": "/weather/inside/hall", "tag": "first"})
    assert untagged.status_code == 200
    for path in ("/weather/inside/hall", "/weather/inside", "/weather"):
        assert (await folders.ask("DELETE", "", params={"path": path})).json() == {"path": path}
    tree = FolderTree.model_validate_json((await folders.ask("GET", "")).content)
    assert [each.path for each in tree.folders] == [PATH]


# --- insertions and questions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [NPY, RECORDS])
async def test_a_block_is_inserted_exactly_once_and_found_again(folders: Folders, kind: str) -> None:
    first = await folders.insert(block(*ROWS), 1, kind=kind)
    said = Inserted.model_validate_json(first.content)
    assert (first.status_code, said.inserted, said.intervals) == (201, True, 3)
    again = await folders.insert(block(*ROWS), 1, kind=kind, follows=0)
    assert (again.status_code, Inserted.model_validate_json(again.content).inserted) == (200, False)
    position = SourcePosition.model_validate_json((await folders.found("/position", source="test")).content)
    assert (position.sequence, position.journal) == (1, 0)
    nobody = SourcePosition.model_validate_json((await folders.found("/position", source="nobody")).content)
    assert nobody.sequence == 0
    of_1, of_2, later = ROWS
    assert await folders.block("/snapshot", at=199) == [of_1, of_2]
    assert await folders.block("/snapshot") == [later, of_2]
    assert await folders.block("/snapshot", at="1970-01-01T00:00:00.000000160Z", tag="HEAD") == [of_1, of_2]
    assert await folders.block("/history", channel="Q1") == [of_1, later]
    assert await folders.block("/history", channel="1", since=0, until=200) == [of_1]
    assert await folders.block("/changes", after=-1) == [of_1, later, of_2]
    assert await folders.block("/changes", after=100, upto=150) == [of_2]
    # The events are for what people order.
    assert not [event for event in folders.api.logger.events.newest() if "/block" in event.text]


async def test_no_text_is_a_formula_in_a_csv(folders: Folders) -> None:
    assert (await folders.insert(block((1, 100, OPEN, 1.5, b"=1+1"), (2, 150, OPEN, -2.0, b"-")), 1)).status_code == 201
    answer = await folders.found("/changes", after=-1, format="csv")
    assert [row[3:] for row in csv.reader(io.StringIO(answer.text))][1:] == [["1.5", "'=1+1"], ["-2.0", "'-"]]


async def test_answers_are_the_same_in_every_format_and_can_be_inserted_again(folders: Folders) -> None:
    assert (await folders.insert(block(*ROWS), 1)).status_code == 201
    found = await folders.found("/changes", after=-1)
    columns = IntervalColumns.model_validate_json(found.content)
    assert columns.model_dump() == {
        "channel": [1, 1, 2],
        "since": [100, 200, 150],
        "until": [200, None, None],
        "values": {"ampere": [1.5, 1e300, -2.0], "note": ["µA", "twelve bytes", ""]},
    }
    answer = await folders.found("/changes", after=-1, format="csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["channel", "since", "until", "ampere", "note"],
        ["1", "100", "200", "1.5", "µA"],
        ["1", "200", "", "1e+300", "twelve bytes"],
        ["2", "150", "", "-2.0", ""],
    ]
    other = {**NEW, "path": "/magnets/copy"}
    assert (await folders.ask("POST", "", json=other)).status_code == 201
    params = {"path": "/magnets/copy", "source": "me", "sequence": 1}
    answer = await folders.ask("POST", "/intervals", params=params, json=found.json())
    assert answer.status_code == 201, answer.text
    copied = await folders.ask("GET", "/changes", params={"path": "/magnets/copy", "after": -1})
    assert copied.json() == found.json()


async def test_what_a_source_has_lost_is_told(folders: Folders) -> None:
    assert (await folders.insert(block(ROWS[0]), 3, journal=7)).status_code == 201
    lost = await folders.refused(409, "follows", await folders.insert(block(ROWS[1]), 9, journal=7, follows=8))
    assert lost.fix == "insert again what this source has from 4 on"
    await folders.refused(409, "journal", await folders.insert(block(ROWS[1]), 9, journal=8, follows=3))
    assert await folders.block("/changes", after=-1) == [ROWS[0]]


async def test_an_interval_that_overlaps_is_refused_with_all_others(folders: Folders) -> None:
    assert (await folders.insert(block(ROWS[0]), 1)).status_code == 201
    over = block((2, 0, 5, 1.0, b""), (1, 150, 160, 1.0, b""))
    answer = await folders.insert(over, 2)
    assert answer.status_code == 409, answer.text
    assert await folders.block("/changes", after=-1) == [ROWS[0]]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "params", "status", "field"),
    [
        ("GET", "/folder", {"path": "/nothing"}, 404, "path"),
        ("GET", "/folder", {"path": "../etc"}, 404, "path"),
        ("GET", "/folder", {}, 422, "path"),
        ("GET", "/snapshot", {"path": "/nothing"}, 404, "path"),
        ("GET", "/snapshot", {"path": "/magnets"}, 404, "path"),
        ("GET", "/snapshot", {"path": PATH, "at": "yesterday"}, 422, "at"),
        ("GET", "/snapshot", {"path": PATH, "at": "-2"}, 422, "at"),
        ("GET", "/snapshot", {"path": PATH, "at": str(2**63)}, 422, "at"),
        ("GET", "/snapshot", {"path": PATH, "at": "9" * 5000}, 422, "at"),
        ("GET", "/snapshot", {"path": PATH, "tag": "none"}, 404, "tag"),
        ("GET", "/snapshot", {"path": PATH, "format": "xml"}, 422, "format"),
        ("GET", "/snapshot", {"path": PATH, "ta": "none"}, 422, "ta"),
        ("GET", "/history", {"path": PATH}, 422, "channel"),
        ("GET", "/history", {"path": PATH, "channel": "Q9"}, 404, "channel"),
        ("GET", "/history", {"path": PATH, "channel": "9" * 5000}, 404, "channel"),
        ("GET", "/history", {"path": PATH, "channel": "²"}, 404, "channel"),
        ("GET", "/history", {"path": PATH, "channel": "1", "since": "7", "until": "7"}, 422, "until"),
        ("GET", "/changes", {"path": PATH}, 422, "after"),
        ("GET", "/changes", {"path": PATH, "after": "-5"}, 422, "after"),
        ("GET", "/position", {"path": "/nothing", "source": "x"}, 404, "path"),
        ("POST", "/tags", {"path": PATH, "tag": "x"}, 409, "path"),
        ("POST", "/tags", {"path": "/magnets", "tag": "HEAD"}, 422, "tag"),
        ("DELETE", "/tags", {"path": PATH, "tag": "x"}, 404, "tag"),
        ("DELETE", "", {"path": "/magnets"}, 409, "path"),
        ("DELETE", "", {"path": "/nothing"}, 404, "path"),
    ],
)
async def test_a_bad_question_or_order_names_field_and_fix(
    in_memory: Folders, method: str, path: str, params: dict[str, str], status: int, field: str
) -> None:
    await in_memory.refused(status, field, await in_memory.ask(method, path, params=params))


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"path": "magnets"}, 422, "path"),
        ({"path": PATH}, 409, "path"),
        ({"path": f"{PATH}/below"}, 409, "path"),
        ({"path": "/new", "columns": []}, 422, "columns"),
        ({"path": "/new", "columns": [{"name": "since", "dtype": "int8"}]}, 422, "columns[0].name"),
        ({"path": "/new", "columns": [{"name": "x", "dtype": "float16"}]}, 422, "columns[0].dtype"),
        ({"path": "/new", "columns": [{"name": "x", "dtype": "text", "width": 10**6}]}, 422, "columns[0].width"),
        ({"path": "/new", "columns": [{"name": "x"}]}, 422, "columns[0].dtype"),
        ({"path": "/new", "kind": "many"}, 422, "kind"),
        ({"path": "/new", "kind": "multi", "layout": "lateral"}, 422, "layout"),
        ({"path": "/new", "channels": {"-1": "x"}}, 422, "channels[-1]"),
        ({"path": "/new", "colour": "red"}, 422, "colour"),
    ],
)
async def test_a_folder_that_cannot_be_names_field_and_fix(
    in_memory: Folders, change: dict[str, Any], status: int, field: str
) -> None:
    await in_memory.refused(status, field, await in_memory.ask("POST", "", json=NEW | change))


def npy(array: Array, head: bytes = b"") -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return head + file.getvalue()


HUGE = npy(block(ROWS[0])).replace(b"(1,)", b"(9" + b"9" * 11 + b",)").replace(b"          \n", b"\n")


@pytest.mark.parametrize(
    ("kind", "body", "status", "field"),
    [
        (RECORDS, b"", 422, "body"),
        (RECORDS, b"x" * (DTYPE.itemsize - 1), 422, "body"),
        (RECORDS, block((9, 0, 5, 1.0, b"")).tobytes(), 404, "channel"),
        (RECORDS, block((1, 5, 4, 1.0, b"")).tobytes(), 422, "block[0].until"),
        (RECORDS, block((1, 0, 5, 1.0, b""), (1, 5, 9, np.nan, b"")).tobytes(), 422, "block[1].ampere"),
        (RECORDS, block((1, 0, 5, 1.0, b"a\0b")).tobytes(), 422, "block[0].note"),
        (RECORDS, block((1, 0, 5, 1.0, b"\xff")).tobytes(), 422, "block[0].note"),
        (NPY, b"", 422, "body"),
        (NPY, b"no array", 422, "body"),
        (NPY, npy(block(ROWS[0]))[:-1], 422, "body"),
        (NPY, HUGE, 422, "body"),
        (NPY, b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16, 422, "body"),
        (NPY, npy(block(ROWS[0]).astype(DTYPE.newbyteorder(">"))), 422, "block"),
        (NPY, npy(block(ROWS[0]).reshape(1, 1)), 422, "block"),
        (NPY, npy(np.zeros(3)), 422, "block"),
        (NPY, npy(np.array([{}], object)), 422, "body"),
        ("application/json", b"{}", 422, "body"),
    ],
)
async def test_a_bad_block_names_field_and_fix_and_changes_nothing(
    in_memory: Folders, kind: str, body: bytes, status: int, field: str
) -> None:
    params = {"path": PATH, "source": "test", "sequence": 1}
    answer = await in_memory.ask("POST", "/block", params=params, content=body, headers={"content-type": kind})
    await in_memory.refused(status, field, answer)
    assert await in_memory.block("/changes", after=-1) == []
    assert (await in_memory.found("/position", source="test")).json()["sequence"] == 0


GIVEN = {"channel": [1], "since": [5], "until": [None], "values": {"ampere": [1], "note": ["x"]}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"since": [5, 6]}, "since"),
        ({"since": [-5]}, "since[0]"),
        ({"until": [2**63]}, "until[0]"),
        ({"channel": [2**31]}, "channel[0]"),
        ({"values": {"ampere": [1]}}, "values.note"),
        ({"values": {"ampere": [1], "note": ["x"], "more": [1]}}, "values.more"),
        ({"values": {"ampere": ["1"], "note": ["x"]}}, "values.ampere[0]"),
        ({"values": {"ampere": [1], "note": [1]}}, "values.note[0]"),
        ({"values": {"ampere": [1], "note": ["thirteen byte"]}}, "values.note[0]"),
        ({"values": {"ampere": [1], "note": ["x\0"]}}, "values.note[0]"),
    ],
)
async def test_bad_columns_name_field_and_fix(in_memory: Folders, change: dict[str, Any], field: str) -> None:
    params = {"path": PATH, "source": "test", "sequence": 1}
    answer = await in_memory.ask("POST", "/intervals", params=params, json=GIVEN | change)
    await in_memory.refused(422, field, answer)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source": "a b"}, "source"),
        ({"sequence": "0"}, "sequence"),
        ({"sequence": str(2**63)}, "sequence"),
        ({"journal": "-1"}, "journal"),
        ({"follows": "x"}, "follows"),
    ],
)
async def test_a_bad_number_of_an_insertion_names_field_and_fix(
    in_memory: Folders, change: dict[str, str], field: str
) -> None:
    params = {"path": PATH, "source": "test", "sequence": "1"} | change
    await in_memory.refused(422, field, await in_memory.ask("POST", "/intervals", params=params, json=GIVEN))


async def test_answers_and_bodies_have_limits(in_memory: Folders) -> None:
    count = 200_000 // DTYPE.itemsize
    many = np.zeros(count, DTYPE)
    many["channel"], many["since"], many["until"] = 1, np.arange(count), np.arange(count) + 1
    assert (await in_memory.insert(many, 1)).status_code == 201
    answer = await in_memory.ask("GET", "/changes", params={"path": PATH, "after": -1})
    problem = await in_memory.refused(422, "path", answer)
    assert problem.fix == "ask for a shorter span, or raise `answer_mib` in [folders]"
    assert len(await in_memory.block("/changes", after=-1, upto=9)) == 10
    params = {"path": PATH, "source": "test", "sequence": 2}
    for path, most in (("/block", BLOCK_BYTES), ("/intervals", COLUMNS_BYTES)):
        answer = await in_memory.ask("POST", path, params=params, content=b" " * (most + 1))
        assert answer.status_code == 413, path
        assert Problem.model_validate_json(answer.content).fix == f"send at most {most} bytes"


async def test_orders_need_the_token_and_questions_do_not(in_memory: Folders) -> None:
    client = in_memory.api.client
    for method, path in (
        ("POST", ""),
        ("POST", "/sets"),
        ("POST", "/channels"),
        ("POST", "/tags?path=/a&tag=b"),
        ("DELETE", f"?path={PATH}"),
        ("DELETE", f"/tags?path={PATH}&tag=b"),
        ("POST", f"/block?path={PATH}&source=a&sequence=1"),
        ("POST", f"/intervals?path={PATH}&source=a&sequence=1"),
    ):
        answer = await client.request(method, f"/api/v1/folders{path}", content=b"x" * 100_000 * ("/block" in path))
        assert answer.status_code == 401, (method, path)
    assert (await client.get("/api/v1/folders")).status_code == 200
    assert (await client.get("/api/v1/folders/snapshot", params={"path": PATH})).status_code == 200


async def test_folders_that_are_not_served_or_not_open_or_away_are_told() -> None:
    store = MemoryFoldersStore()
    async with served() as api:
        folders = Folders(api)
        problem = await folders.refused(409, "folders.serve", await folders.ask("GET", ""))
        assert problem.fix == "set `serve = true` in [folders], and start the daemon again"
        opened = OpenedFolders(store, FoldersConfig(serve=True), api.logger.events)
        api.service.folders = opened
        await folders.refused(503, None, await folders.ask("GET", "/snapshot", params={"path": PATH}))
        await opened.run()
        assert (await folders.ask("GET", "")).json() == {"sets": [], "folders": []}
        store.fail_with(StoreUnavailable("no route to host"))
        for method, path, more in (
            ("GET", "", {}),
            ("GET", "/snapshot", {"params": {"path": PATH}}),
            ("POST", "/sets", {"json": {"path": "/a"}}),
        ):
            problem = await folders.refused(503, None, await folders.ask(method, path, **more))
            assert problem.detail == "the database is away: no route to host"
