"""Marks over the API: made once, listed, withdrawn, kept while the database is away."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from backends.base import StoreUnavailable
from schemas.api.marks import MarkKept, Marks
from schemas.api.model import Problem
from schemas.api.status import Status
from schemas.marks import Mark
from tests.daemon.api.test_api import WITH_TOKEN, Served, served
from tests.support.pipelines import eventually

PATH = "/api/v1/marks"
JSON = {"content-type": "application/json"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bpm").mkdir()
    return tmp_path


def body(**fields: Any) -> dict[str, Any]:
    return {"id": str(uuid4()), "time_ns": 1_764_000_000_000_000_000, "text": "beam study began"} | fields


async def make(api: Served, said: dict[str, Any], code: int) -> Problem | MarkKept:
    # httpx would refuse to encode some of what has to be refused.
    answer = await api.client.post(PATH, content=json.dumps(said), headers=WITH_TOKEN | JSON)
    assert answer.status_code == code, answer.text
    return (MarkKept if answer.is_success else Problem).model_validate_json(answer.content)


async def listed(api: Served, query: str = "") -> Marks:
    answer = await api.client.get(PATH + query)
    assert answer.status_code == 200, answer.text
    return Marks.model_validate_json(answer.content)


async def test_a_mark_is_made_once_and_listed_and_withdrawn(folder: Path) -> None:
    async with served(folder=folder) as api:
        first, second = body(author="A. Operator", group="bpm"), body(time_ns=-5, until_ns=7)
        for said in (first, second, first):
            assert await make(api, said, 201) == MarkKept(id=said["id"], stored=True)
        assert (await listed(api)).marks == [Mark.model_validate(said) for said in (second, first)]
        assert [str(mark.id) for mark in (await listed(api, "?start_ns=7&end_ns=8")).marks] == [second["id"]]
        newest = await listed(api, "?last=1")
        assert ([str(mark.id) for mark in newest.marks], newest.cut) == ([first["id"]], True)
        gone = await api.client.delete(f"{PATH}/{first['id']}", headers=WITH_TOKEN)
        assert gone.status_code == 200
        assert [str(mark.id) for mark in (await listed(api)).marks] == [second["id"]]
        assert (await make(api, first, 409)).field == "id"
        unknown = await api.client.delete(f"{PATH}/{uuid4()}", headers=WITH_TOKEN)
        assert unknown.status_code == 404
        assert Problem.model_validate_json(unknown.content).field == "id"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"text": "two\nlines"}, "text"),
        ({"text": "x" * 201}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"until_ns": 5}, "until_ns"),
        ({"time_ns": "yesterday"}, "time_ns"),
        ({"id": "1"}, "id"),
        ({"group": "bmp"}, "group"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_what_is_no_mark_is_refused_with_its_field_and_the_fix(wrong: dict[str, Any], field: str) -> None:
    async with served() as api:
        problem = await make(api, body(**wrong), 422)
        assert isinstance(problem, Problem)
        assert problem.field == field
        assert problem.fix


async def test_only_who_has_the_token_may_make_or_withdraw_one(folder: Path) -> None:
    async with served(folder=folder) as api:
        said = body()
        await make(api, said, 201)
        assert (await api.client.post(PATH, json=body())).status_code == 401
        assert (await api.client.delete(f"{PATH}/{said['id']}")).status_code == 401
        foreign = WITH_TOKEN | {"origin": "http://elsewhere.example"}
        assert (await api.client.post(PATH, json=body(), headers=foreign)).status_code == 403
        assert len((await listed(api)).marks) == 1


async def test_while_the_database_is_away_a_mark_is_answered_with_202_and_is_in_the_status(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.marks.keeper.ANSWER_WITHIN_S", 0.2)
    async with served(folder=folder) as api:
        api.logger.store.fail_with(StoreUnavailable("no route to host"))
        said = body()
        assert await make(api, said, 202) == MarkKept(id=said["id"], stored=False)

        async def status() -> Status:
            return Status.model_validate_json((await api.client.get("/api/v1/status")).content)

        told = (await status()).marks
        assert told is not None
        assert (told.waiting, told.problem) == (1, "no route to host")
        assert told.waiting_marks == [Mark.model_validate(said)]
        api.logger.store.fail_with(None)
        await eventually(lambda: not api.service.marks.status().waiting)
        assert (await listed(api)).marks == [Mark.model_validate(said)]
        after = (await status()).marks
        assert after is not None
        assert after.changes > told.changes


async def test_a_state_folder_that_takes_nothing_is_503_with_the_fix() -> None:
    async with served(folder=Path("/proc/nothing")) as api:
        problem = await make(api, body(), 503)
        assert isinstance(problem, Problem)
        assert "/proc/nothing/marks cannot be written" in problem.detail
        assert problem.fix
