"""One seed from its plan to its findings, in a process of a pool."""

import time
from dataclasses import dataclass

from tests.simulation.oracle import Finding
from tests.simulation.plan import Plan, draw
from tests.simulation.shrinking import shrink
from tests.simulation.world import play


@dataclass(frozen=True)
class Outcome:
    """What came of a seed."""

    seed: int
    findings: tuple[Finding, ...]
    readings: int
    lives: int
    cpu_s: float


def run_seed(seed: int, *, mix: str = "all") -> Outcome:
    """Draw a plan and play it."""
    began = time.process_time()
    result = play(draw(seed, mix=mix))
    return Outcome(seed, result.findings, result.readings, result.lives, time.process_time() - began)


def shrunk(plan: Plan) -> Plan:
    """The smallest plan with a finding of the same kind as the first one of this."""
    kinds = {finding.kind for finding in play(plan).findings}
    return shrink(plan, lambda smaller: bool(kinds & {finding.kind for finding in play(smaller).findings}))
