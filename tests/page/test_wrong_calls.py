"""Calls of the page's callbacks with values that no page sends: each is refused in one line, and none is a defect."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dashboard.app import build_app
from dashboard.feed.client import Daemon
from tests.page.stage import Stage, ask, until

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    10**30,
    "",
    "wrong",
    "\x00\ud800",
    [],
    [None],
    [[1], {"a": 2}],
    {},
    {"view": 1},
    {"view": {}},
    {"view": {"pausedAt": None, "group": 5, "channel": {}, "calibrated": []}},
    {"run": [], "key": {}, "order": 3, "rowId": {}, "value": {"id": []}, "points": [{"x": {}}]},
    {"method": 5, "path": [], "body": 3, "what": {}, "done": [], "outcome": {}},
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage()
    stage.page.log = tmp_path_factory.mktemp("page") / "log"
    try:
        stage.start()
        until(lambda: bool(ask(stage.page.url + "/healthz")["daemon"] == "ok"), "the page hears the daemon")
        yield stage
    finally:
        stage.end()


def properties(declared: list[dict[str, str]], value: Any) -> list[Any]:
    return [_given(each["id"], each["property"], value) for each in declared]


def _given(name: str, prop: str, value: Any) -> Any:
    if not name.startswith("{"):
        return {"id": name, "property": prop, "value": value}
    pattern = json.loads(name)
    given = {"id": {key: "x" if isinstance(at, list) else at for key, at in pattern.items()}, "property": prop}
    given["value"] = given["id"] if prop == "id" else value
    return [given] * 2 if any(at in (["ALL"], ["ALLSMALLER"]) for at in pattern.values()) else given


def outputs(name: str) -> Any:
    several = name.startswith("..")
    given = []
    for each in name.strip(".").split("...") if several else [name]:
        at, _, prop = each.rpartition(".")
        given.append(_given(at.replace("\\.", "."), prop.partition("@")[0], None))
    return given if several else given[0]


def called(client: httpx.Client, callback: dict[str, Any], value: Any) -> httpx.Response:
    call = {
        "output": callback["output"],
        "outputs": [] if callback.get("no_output") else outputs(callback["output"]),
        "changedPropIds": [],
        "inputs": properties(callback["inputs"], value),
        "state": properties(callback["state"], value),
    }
    headers = {"content-type": "application/json"}
    while True:
        answer = client.post("/_dash-update-component", content=json.dumps(call), headers=headers)
        if answer.status_code != 429:
            return answer
        time.sleep(float(answer.headers["retry-after"]))


def test_a_call_with_values_that_no_page_sends_is_refused_in_one_line(stage: Stage) -> None:
    found = Counter[int]()
    with httpx.Client(base_url=stage.page.url, trust_env=False, timeout=60) as client:
        callbacks = [each for each in client.get("/_dash-dependencies").json() if not each["clientside_function"]]
        assert len(callbacks) > 40
        for callback in callbacks:
            for value in WRONG:
                answer = called(client, callback, value)
                found[answer.status_code] += 1
                assert answer.status_code in (200, 204, 400), f"{callback['output']} {value!r}: {answer.text}"
                if answer.status_code == 400:
                    assert answer.json()["fix"] == "send what the page itself sends, or ask the daemon's API"
        assert found[400] > len(callbacks)
        for _ in range(100):
            assert called(client, callbacks[0], True).status_code == 400
        # The page is as before.
        assert client.get("/healthz").json()["daemon"] == "ok"
    assert stage.page.log is not None
    lines = stage.page.log.read_text().splitlines()
    assert all("a callback cannot take the values of a call: dashboard/" in line for line in lines)
    assert max(Counter(line.partition(": dashboard/")[2].partition(":")[0] for line in lines).values()) < 50


async def test_a_defect_is_answered_with_500_and_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    app = build_app(daemon=Daemon(url="http://127.0.0.1:9"))

    @app.get("/defect")
    async def fail() -> None:
        raise RuntimeError("a defect")

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        answer = await client.get("/defect")
    assert (answer.status_code, answer.json()["detail"]) == (500, "the request failed with RuntimeError")
    assert "a request failed: a defect of triggerlog" in caplog.text
    assert "RuntimeError: a defect" in caplog.text
