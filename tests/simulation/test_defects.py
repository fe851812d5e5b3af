"""A defect that was planted ends the daemon, and nothing else; one of its own is a finding."""

from dataclasses import replace
from unittest import mock

import pytest

from daemon.pipeline.assembly import Assembly
from tests.simulation.defects import PLACES
from tests.simulation.plan import Event, Plan, draw
from tests.simulation.world import play

CRATES = (("received", True), ("committed", True), ("spooled", True))
QUIET = replace(draw(1).settings, instruments=4, crates=CRATES, duration_s=3.0, missing=0.0)


def plan_with(*events: Event) -> Plan:
    return Plan(seed=1, settings=QUIET, events=events)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("after", [0, 1])
def test_a_planted_one_ends_the_daemon_which_begins_again_and_loses_nothing(place: str, after: int) -> None:
    result = play(plan_with(Event(at_s=0.0, kind="defect", settings={"place": place, "count": 0, "after": after})))
    assert result.findings == ()
    failed = [line for line in result.trace if "fail-stop" in line]
    assert len(failed) == 1
    assert place in failed[0]


def test_one_of_its_own_is_a_finding() -> None:
    with mock.patch.object(Assembly, "close_due", side_effect=AssertionError("half a step")):
        kinds = {finding.kind for finding in play(plan_with()).findings}
    assert "an exception in the data path" in kinds
