"""The whole measure on a real server, and what it must not take for right."""

import pytest

from benchmarks.conditions import measure as conditions
from benchmarks.conditions.measure import APPEND, FROM_DATABASE, FROM_MEMORY, HTTP, LOAD, ORDER, READ, contenders
from benchmarks.conditions.strategies import STRATEGIES
from benchmarks.rounds.plan import PLANS
from benchmarks.servers import running
from schemas.checking.dsn import Backend
from tests.support.servers import server_folder

pytestmark = pytest.mark.slow
PLAN = PLANS["smoke"]


def test_every_contender_has_its_rounds_and_nothing_is_left() -> None:
    wanted = list(contenders([Backend.POSTGRESQL], PLAN))
    with server_folder() as folder, running(folder, [Backend.POSTGRESQL], [], pytest.fail) as servers:
        server = servers[Backend.POSTGRESQL]
        found = conditions.measure(servers, PLAN)
        server.drop_all()
    assert found.keys() == {each.name for each in wanted}
    by = {(each.scenario, each.kind, each.way, each.clients): found[each.name] for each in wanted}
    for name, strategy in STRATEGIES.items():
        assert ("Execution Time" in by["tiny", READ, name, 0].plan) is (strategy.statement is not None)
    for each in found.values():
        assert [one.seconds > 0 for one in each.rounds] == [True]
    (memory,), (database,) = (by["tiny", HTTP, way, 2].rounds for way in (FROM_MEMORY, FROM_DATABASE))
    assert memory.facts["requests a second"] > 0
    assert memory.facts["server CPU ms"] > 0
    assert database.facts["database CPU ms"] > memory.facts["database CPU ms"]
    (loaded,) = by["tiny-moderate", ORDER, LOAD, 0].rounds
    assert loaded.facts["memory MiB"] > 0
    assert loaded.facts["reference indexes MiB"] > 0
    assert by["tiny", ORDER, APPEND, 0].rounds[0].facts["least ms"] > 0
