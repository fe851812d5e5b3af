"""Seeds and committed plans are played without a finding; and each is the same run every time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import show
from tests.simulation.plan import Plan, draw
from tests.simulation.seeds import shrunk
from tests.simulation.world import play

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SEEDS = range(1, 201)
PLANS = sorted((Path(__file__).parent / "plans").glob("*.json"))
TWICE = (3, 4, 5, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_has_no_finding(seed: int) -> None:
    plan = draw(seed)
    if play(plan).findings:
        small = shrunk(plan)
        show(small)
        pytest.fail(small.to_json())


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_committed_plan_has_no_finding(path: Path) -> None:
    """Each of them had one once."""
    assert play(Plan.from_json(path.read_text())).findings == ()


def test_the_same_seed_gives_the_same_bytes() -> None:
    """In two processes whose hashes of texts differ."""
    code = (
        "import sys; from tests.simulation.plan import draw; from tests.simulation.world import play\n"
        "for seed in map(int, sys.argv[1:]):\n"
        "    result = play(draw(seed)); print(result.digest, *result.trace, sep='\\n')\n"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code, *map(str, TWICE)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": number, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for number in ("1", "2")
    )
    assert first == second
    assert len(first.splitlines()) > 500


def test_the_trace_is_that_of_the_seed() -> None:
    assert play(draw(3)).digest != play(draw(4)).digest


def test_the_command_tells_how_many_seeds_it_ran() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seeds", "3", "--from", "11", "--jobs", "1"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 seeds from 11: ")
