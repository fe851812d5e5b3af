"""The HTTP contract: each route declares models for what it takes and answers, and real answers are of these models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

from backends.base import StoreUnavailable
from daemon.api.app import ROUTES, make_app
from schemas.api.model import Problem
from tests.daemon.api.test_api import GROUP, TOKEN, WITH_TOKEN, Served, served
from tests.support.pipelines import eventually
from tests.support.readings import make_block, time_of

ASKED = [
    ("GET", "/health", ""),
    ("GET", "/ready", ""),
    ("GET", "/api/v1/status", ""),
    ("GET", "/api/v1/storage", ""),
    ("GET", "/api/v1/alarms", ""),
    ("GET", "/api/v1/events", ""),
    ("GET", "/api/v1/events", f"?last=1&severity=warning&start_ns={time_of(1)}"),
    ("GET", "/api/v1/groups", ""),
    ("GET", "/api/v1/groups/{group}", ""),
    ("GET", "/api/v1/groups/{group}/newest", ""),
    ("GET", "/api/v1/groups/{group}/newest", "?complete=false"),
    ("GET", "/api/v1/groups/{group}/readings", f"?instrument=2&start_ns={time_of(1)}&end_ns={time_of(9)}"),
    ("GET", "/api/v1/groups/{group}/ledger/{trigger}", ""),
    ("GET", "/api/v1/groups/{group}/triggers/{trigger}", ""),
    ("GET", "/api/v1/groups/{group}/triggers/{trigger}", "?run=1"),
    ("GET", "/api/v1/groups/{group}/missing", ""),
    ("GET", "/api/v1/groups/{group}/missing", "?instrument=2"),
    ("GET", "/api/v1/groups/{group}/gaps", ""),
    ("GET", "/api/v1/groups/{group}/gaps", f"?last=1&start_ns={time_of(1)}&end_ns={time_of(9)}"),
    ("GET", "/api/v1/marks", ""),
    ("GET", "/api/v1/marks", f"?last=1&start_ns={time_of(1)}&end_ns={time_of(9)}"),
    ("POST", "/api/v1/dead-letters/retry", ""),
    ("POST", "/api/v1/dead-letters/discard", "?group=bpm"),
    ("POST", "/api/v1/run", ""),
]


def routes_of(api: Served) -> list[APIRoute]:
    routes = [route for make in ROUTES for route in make(api.service).routes]
    return [route for route in routes if isinstance(route, APIRoute)]


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


async def test_every_route_declares_what_it_answers_and_what_it_takes() -> None:
    async with served() as api:
        document = make_app(api.service, token=TOKEN, reads_freely=True).openapi()
    found = dict(operations(document))
    assert len(found) > 20
    for name, operation in found.items():
        answers = {code: answer for code, answer in operation["responses"].items() if code.startswith("2")}
        assert answers
        for content in (answer.get("content") for answer in answers.values()):
            assert content, f"{name} does not declare what it answers"
            if "application/json" in content:
                assert "$ref" in content["application/json"]["schema"], f"{name} answers JSON without a model"
        if "requestBody" in operation:
            taken = operation["requestBody"]["content"]
            if "application/json" in taken:
                schema = taken["application/json"]["schema"]
                models = [schema, *schema.get("anyOf", ())]
                assert any("$ref" in model for model in models), f"{name} takes a body without a model"
            else:
                assert all(each["schema"]["format"] == "binary" for each in taken.values()), name
        for code in operation["responses"].keys() - answers.keys():
            error = operation["responses"][code]["content"]["application/json"]["schema"]
            model = "Readiness" if (name, code) == ("GET /ready", "503") else "Problem"
            assert error == {"$ref": f"#/components/schemas/{model}"}, (name, code)


async def test_every_route_and_parameter_is_described() -> None:
    async with served() as api:
        document = make_app(api.service, token=TOKEN, reads_freely=True).openapi()
    summaries = set()
    for name, operation in operations(document):
        assert operation.get("description", "").rstrip().endswith((".", "`")), f"{name} has no description"
        assert 5 < len(operation["summary"]) < 110, f"{name}: {operation['summary']}"
        assert operation["description"].startswith(operation["summary"]), name
        assert operation["tags"], f"{name} is under no heading"
        summaries.add((*operation["tags"], operation["summary"]))
        for parameter in operation.get("parameters", []):
            assert parameter.get("description", "").endswith("."), f"{name}: {parameter['name']} is not described"
        for code, answer in operation["responses"].items():
            assert answer["description"], (name, code)
        changes = not name.startswith("GET")
        assert bool(operation.get("security")) == changes, f"{name}: whether the token is asked for"
        assert {"400", "403", "429", "500", "default"} <= operation["responses"].keys(), name
        assert ("401" in operation["responses"]) == (name != "GET /health"), name
        assert ("422" in operation["responses"]) == ("/api/" in name), name
        if "{" in name:
            assert {"404"} <= operation["responses"].keys(), f"{name} does not say that there may be no such thing"
    assert len(summaries) == len(list(operations(document)))


async def test_the_document_is_the_same_when_it_is_asked_for_again() -> None:
    async with served() as api:
        first, again = [(await api.client.get("/openapi.json")).json() for _ in range(2)]
    assert first == again


async def test_a_declared_model_lets_no_undeclared_field_pass() -> None:
    async with served() as api:
        routes = routes_of(api)
    declared = [route.response_model for route in routes if route.response_model is not None]
    models = [model for model in declared if issubclass(model, BaseModel)]
    assert len(models) == len(declared) > 15
    for model in models:
        assert model.__pydantic_root_model__ or model.model_config.get("extra") == "forbid", model


@pytest.mark.parametrize(("method", "path", "asked"), ASKED)
async def test_answers_are_what_their_routes_declare(method: str, path: str, asked: str, tmp_path: Path) -> None:
    (tmp_path / "bpm").mkdir()
    async with served(folder=tmp_path) as api:
        (model,) = (each.response_model for each in routes_of(api) if each.path == path and method in each.methods)
        await api.commit(1, 2, 3)
        api.logger.pipelines["bpm"].receive(make_block(GROUP, [(4, 0), (4, 1)]))
        await eventually(lambda: api.logger.pipelines["bpm"].figures().committed.triggers == 4)
        url = path.format(group="bpm", trigger=4) + asked
        answer = await api.client.request(method, url, headers=WITH_TOKEN)
        assert answer.status_code == 200, answer.text
        assert TypeAdapter(model).validate_json(answer.content)


@pytest.mark.parametrize(
    ("method", "path", "code", "field"),
    [
        ("GET", "/api/v1/groups/bmp", 404, "group"),
        ("GET", "/api/v1/groups/bpm/readings?instrument=nobody", 404, "instrument"),
        ("GET", "/api/v1/groups/bpm/missing?last=x", 422, "last"),
        ("GET", "/api/v1/groups/bpm/gaps?last=0", 422, "last"),
        ("GET", "/api/v1/groups/bpm/gaps?start_ns=7&end_ns=7", 422, "start_ns"),
        ("GET", "/api/v1/marks?start_ns=7&end_ns=7", 422, "start_ns"),
        ("GET", "/api/v1/marks?start_ns=yesterday", 422, "start_ns"),
        ("GET", "/api/v1/marks?last=10001", 422, "last"),
        ("GET", "/api/v1/marks", 503, None),
        ("GET", "/api/v1/events?severity=bad", 422, "severity"),
        ("DELETE", "/api/v1/marks/none", 422, "id"),
        ("POST", "/api/v1/dead-letters/retry?group=bmp", 404, "group"),
        ("POST", "/api/v1/alarms/acknowledge", 422, "body"),
        ("GET", "/api/v1/nothing", 404, None),
        ("PUT", "/api/v1/status", 405, None),
        ("GET", "/api/v1/groups/bpm/newest", 503, None),
    ],
)
async def test_an_error_is_a_problem_with_its_fix(method: str, path: str, code: int, field: str | None) -> None:
    async with served() as api:
        api.logger.store.fail_with(StoreUnavailable("no route to host"))
        answer = await api.client.request(method, path, headers=WITH_TOKEN)
        problem = Problem.model_validate_json(answer.content)
        assert (answer.status_code, problem.field) == (code, field)
        assert problem.fix
        assert "; " not in problem.detail


@pytest.mark.parametrize(
    ("method", "asked", "body", "detail", "fix", "field"),
    [
        ("POST", "run?epcoh=41", b"", "unknown parameter", "did you mean `epoch`?", "epcoh"),
        (
            "POST",
            "run",
            b'{"epoch": 41}',
            "there is no body here",
            "send none; there are the parameters `epoch`",
            "body",
        ),
        ("GET", "status?x=1", b"", "unknown parameter", "take it out; there are no parameters here", "x"),
        ("GET", "groups/bpm/gaps?lats=5", b"", "unknown parameter", "did you mean `last`?", "lats"),
        ("DELETE", "readers/one", b"x", "there is no body here", "send none", "body"),
    ],
)
async def test_what_nobody_asked_for_is_refused(
    method: str, asked: str, body: bytes, detail: str, fix: str, field: str
) -> None:
    async with served() as api:
        answer = await api.client.request(method, f"/api/v1/{asked}", content=body, headers=WITH_TOKEN)
        assert answer.status_code == 422
        assert Problem.model_validate_json(answer.content) == Problem(detail=detail, fix=fix, field=field)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[" * 60_000, "arrays or objects lie in each other too deeply"),
        (b'{"clients": ' + b"9" * 5000 + b"}", "a number has too many digits"),
        (b'{"name": "\xff"}', "it is not UTF-8 text"),
    ],
)
async def test_a_body_that_no_parser_takes_is_a_problem_with_its_fix(body: bytes, why: str) -> None:
    async with served() as api:
        headers = {**WITH_TOKEN, "content-type": "application/json"}
        answer = await api.client.post("/api/v1/readers", content=body, headers=headers)
        assert answer.status_code == 400
        expected = Problem(detail=f"not valid JSON: {why}", fix="send one object; see /docs", field="body")
        assert Problem.model_validate_json(answer.content) == expected


async def test_a_pattern_is_shown_as_it_is() -> None:
    async with served() as api:
        answer = await api.client.get("/api/v1/interference/nope")
        assert r"'^\d{8}T\d{6}Z" in Problem.model_validate_json(answer.content).detail


async def test_a_defect_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        monkeypatch.setattr(api.logger.store, "ask", None)
        answer = await api.client.get("/api/v1/groups/bpm/newest")
        problem = Problem.model_validate_json(answer.content)
        assert (answer.status_code, problem.detail) == (500, "the request failed with TypeError")


async def test_what_is_refused_before_the_application_is_a_problem_too() -> None:
    async with served() as api:
        answer = await api.client.post("/api/v1/run")
        problem = Problem.model_validate_json(answer.content)
        assert (answer.status_code, problem.detail) == (401, "this needs the API's token")
        assert (problem.fix or "").startswith("send `Authorization: Bearer TOKEN`")


def test_all_problems_of_a_request_are_one_line_for_a_person() -> None:
    problem = Problem(
        detail="missing", fix="give it", field="name", further=(Problem(detail="unknown key", field="x"),)
    )
    assert str(problem) == "name: missing; give it; and x: unknown key"
    assert Problem.model_validate_json(problem.encoded()) == problem
    assert Problem(detail="gone").encoded() == b'{"detail":"gone"}'
