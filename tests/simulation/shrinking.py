"""Shrinking: what can be taken out of a failing plan, and it still fails in the same way."""

import dataclasses
from collections.abc import Callable, Iterator

from tests.simulation.plan import Plan, Value

Fails = Callable[[Plan], bool]

SIMPLE: tuple[tuple[str, Value | bool], ...] = (
    ("missing", 0.0),
    ("clocks_ms", 0.0),
    ("in_parts", False),
    ("risk_ms", 0.0),
    ("torn", 0.0),
    ("kept", 0.0),
    ("segment_bytes", 1 << 20),
    ("waiting_mib", 256.0),
    ("window", 1024),
    ("first_trigger", 1000),
)
"""Settings, and what is the simplest of each."""


def shrink(plan: Plan, fails: Fails) -> Plan:
    """The smallest plan found by taking out events, several at once and one by one, and by simplifying settings."""
    before = None
    while plan != before:
        before = plan
        plan = _fewer_events(plan, fails)
        for simpler in _simpler(plan):
            if fails(simpler):
                plan = simpler
                break
    return plan


def _fewer_events(plan: Plan, fails: Fails) -> Plan:
    size = max(1, len(plan.events) // 2)
    while True:
        start = 0
        while start < len(plan.events):
            fewer = plan.without(set(range(start, start + size)))
            if fails(fewer):
                plan = fewer
            else:
                start += size
        if size == 1:
            return plan
        size = max(1, size // 2)


def _simpler(plan: Plan) -> Iterator[Plan]:
    settings = plan.settings
    last_s = max((event.at_s for event in plan.events), default=0.5)
    for duration_s in (last_s + 0.5, last_s + 1.5):
        if duration_s < settings.duration_s - 0.1:
            yield dataclasses.replace(plan, settings=dataclasses.replace(settings, duration_s=duration_s))
    for name, value in SIMPLE:
        if getattr(settings, name) != value:
            yield dataclasses.replace(plan, settings=dataclasses.replace(settings, **{name: value}))
