"""Alarms over the API: listed by everybody, changed with the token."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.api.alarms import Alarms
from schemas.api.model import Problem
from tests.daemon.api.test_api import SHORT, WITH_TOKEN, facts, served

PATH = "/api/v1/alarms"
KEY = "durability sync"


async def test_an_alarm_is_listed_acknowledged_shelved_and_shown_again(tmp_path: Path) -> None:
    (tmp_path / "bpm").mkdir()
    async with served(folder=tmp_path) as api:
        await api.commit(1, 2, 3)
        api.report.answered(facts(SHORT))
        api.service.alarms.look()

        async def after(way: str, **body: Any) -> tuple[bool, bool]:
            answer = await api.client.post(f"{PATH}/{way}", json=body, headers=WITH_TOKEN)
            assert answer.status_code == 200, answer.text
            (alarm,) = Alarms.model_validate_json(answer.content).root
            assert [alarm] == api.service.reporter.status().alarms
            return alarm.acknowledged_ns is not None, alarm.shelved_until_ns is not None

        (alarm,) = Alarms.model_validate_json((await api.client.get(PATH)).content).root
        assert (alarm.key, alarm.severity, alarm.fix[:14]) == (KEY, "warning", "Write it down.")
        assert 'triggerlog_alarms{severity="warning"} 1.0' in (await api.client.get("/metrics")).text
        assert await after("acknowledge", keys=[KEY]) == (True, False)
        assert 'triggerlog_alarms{severity="warning"} 1.0' in (await api.client.get("/metrics")).text
        assert await after("shelve", key=KEY, for_s=60) == (True, True)
        assert 'triggerlog_alarms{severity="warning"} 0.0' in (await api.client.get("/metrics")).text
        assert await after("reactivate", key=KEY) == (False, False)
        assert await after("acknowledge") == (True, False)


@pytest.mark.parametrize(
    ("way", "body", "code", "field", "fix"),
    [
        ("acknowledge", {"keys": ["store"]}, 404, "key", "there is no alarm now"),
        ("acknowledge", {"keys": []}, 422, "keys", ""),
        ("acknowledge", {"key": "store"}, 422, "key", "did you mean `keys`?"),
        ("shelve", {"key": "store"}, 422, "for_s", ""),
        ("shelve", {"key": "store", "for_s": 86_401}, 422, "for_s", ""),
        ("shelve", {"key": "store", "for_s": float("nan")}, 422, "for_s", ""),
        ("reactivate", {"key": "store"}, 404, "key", "there is no alarm now"),
    ],
)
async def test_what_cannot_be_ordered_is_refused_with_the_field_and_the_fix(
    way: str, body: dict[str, Any], code: int, field: str, fix: str
) -> None:
    async with served() as api:
        headers = WITH_TOKEN | {"content-type": "application/json"}
        answer = await api.client.post(f"{PATH}/{way}", content=json.dumps(body), headers=headers)
        problem = Problem.model_validate_json(answer.content)
        assert (answer.status_code, problem.field) == (code, field)
        assert fix in (problem.fix or "")


async def test_an_order_needs_the_token() -> None:
    async with served() as api:
        for way in ("acknowledge", "shelve", "reactivate"):
            assert (await api.client.post(f"{PATH}/{way}", json={"key": "store"})).status_code == 401
