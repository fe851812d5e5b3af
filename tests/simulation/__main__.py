"""Run seeds, or plans: `python -m tests.simulation --seeds 200 --from 1`.

Exits with 1 after a finding, and leaves the shrunk plan in build/simulation/, from where it can be committed to
tests/simulation/plans/.
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.simulation.fingerprint import fingerprint
from tests.simulation.plan import MIXES, Plan, draw
from tests.simulation.seeds import run_seed, shrunk
from tests.simulation.world import play

FOUND = Path("build/simulation")
REPORT_EVERY_S = 60.0
LOOKED_AT = 500
"""Plans that are looked at for events that are asked for: each is in several of so many."""


def say(text: str) -> None:
    """Print at once: a run of hours is watched."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(plan: Plan) -> None:
    """Print a plan and its findings."""
    say(f"seed {plan.seed}: {plan.settings}")
    for event in plan.events:
        say(f"  {event}")
    for finding in play(plan).findings:
        say(f"  -> {finding}")


def _seeds(arguments: argparse.Namespace) -> Iterator[int]:
    seeds: Iterator[int] = itertools.count(arguments.first)
    if arguments.having:
        # What is rare among all seeds is found sooner among those that may have it.
        seeds = (seed for seed in seeds if _kinds(seed, arguments.mix).issuperset(arguments.having))
    if arguments.minutes is None:
        return (seed for seed in itertools.islice(seeds, arguments.seeds) if seed not in arguments.skip)
    until = time.monotonic() + 60 * arguments.minutes
    return itertools.takewhile(lambda _: time.monotonic() < until, seeds)


def _kinds(seed: int, mix: str) -> set[str]:
    return {event.kind for event in draw(seed, mix=mix).events}


def run_seeds(arguments: argparse.Namespace) -> int:
    """Run seeds in several processes; return the exit status."""
    failed: list[int] = []
    kinds: Counter[str] = Counter()
    seeds = readings = lives = 0
    cpu_s, began = 0.0, time.monotonic()
    reported = began
    code = fingerprint()  # before the first seed: what is changed beside a run of hours is not what it runs
    # As fresh processes: what one seed leaves behind in memory is not for another.
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, maxtasksperchild=500) as pool:
        for outcome in pool.imap_unordered(partial(run_seed, mix=arguments.mix), _seeds(arguments)):
            seeds, readings, lives = seeds + 1, readings + outcome.readings, lives + outcome.lives
            cpu_s += outcome.cpu_s
            if outcome.findings:
                failed.append(outcome.seed)
                kinds.update({finding.kind for finding in outcome.findings})
                say(f"seed {outcome.seed}: {outcome.findings[0]}"[:300])
            if time.monotonic() - reported > REPORT_EVERY_S:
                reported = time.monotonic()
                say(f"{seeds} seeds, {len(failed)} with findings, {reported - began:.0f} s")
            if len(failed) >= arguments.most:
                pool.terminate()
                break
    mix = "" if arguments.mix == MIXES[0] else f" of the mix {arguments.mix}"
    found = (
        f"{seeds} seeds{mix} from {arguments.first}: {readings} readings, {lives} lives of daemons,"
        f" {cpu_s / max(1, seeds):.2f} s of CPU a seed, {time.monotonic() - began:.0f} s; {len(failed)} with findings;"
        f" code {code}"
    )
    say(found)
    if arguments.log is not None:
        with arguments.log.open("a", encoding="utf-8") as log:
            log.write(f"{found}\n")
    for kind, count in kinds.most_common():
        say(f"  {count} x {kind}")
    for seed in sorted(failed)[: arguments.shrink]:
        keep_shrunk(draw(seed, mix=arguments.mix))
    return 1 if failed else 0


def keep_shrunk(plan: Plan) -> None:
    """Shrink a failing plan, print it, and leave it in a file."""
    small = shrunk(plan)
    show(small)
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"seed-{plan.seed}.json"
    path.write_text(small.to_json())
    say(f"  in {path}")


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("plans", nargs="*", type=Path, help="plans to play in place of seeds")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first seed")
    parser.add_argument("--skip", type=int, nargs="*", default=[], help="seeds to leave out")
    parser.add_argument("--having", nargs="*", default=[], metavar="EVENT", help="seeds whose plans have all of these")
    parser.add_argument("--mix", choices=MIXES, default=MIXES[0], help="from which plans are drawn")
    parser.add_argument("--minutes", type=float, help="run seeds for so long, however many these are")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--most", type=int, default=5, help="stop after so many seeds with findings")
    parser.add_argument("--shrink", type=int, default=1, help="shrink so many failing plans")
    parser.add_argument("--log", type=Path, help="a file to which the result is appended")
    parser.add_argument("--trace", action="store_true", help="print all that happens in the plans")
    arguments = parser.parse_args()
    if arguments.having:
        seeds = range(arguments.first, arguments.first + LOOKED_AT)
        known = set[str]().union(*(_kinds(seed, arguments.mix) for seed in seeds))
        if unknown := {*arguments.having} - known:
            parser.error(f"--having: no plan from seed {arguments.first} on has {min(unknown)!r}")
    if not arguments.plans:
        return run_seeds(arguments)
    status = 0
    for path in arguments.plans:
        plan = Plan.from_json(path.read_text())
        show(plan)
        result = play(plan)
        if arguments.trace:
            say("\n".join(result.trace))
        say(f"{path}: {result.readings} readings, {len(result.findings)} findings, {result.digest}")
        status |= bool(result.findings)
    return status


if __name__ == "__main__":
    sys.exit(main())
