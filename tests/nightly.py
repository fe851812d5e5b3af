"""Run what `.ci/run` leaves out, one job after the other, and print one table of all: `make nightly`.

A job that fails or takes longer than its minutes does not keep the others from running. What it said is in
`build/nightly/NAME.log`. The whole takes at most three hours on two cores.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "nightly"
MOST_MINUTES = 180
ENDS_WITHIN_S = 60.0
"""After SIGTERM, before SIGKILL."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """command: of a shell, from the project's root. minutes: it is ended after these. shows: a line with the result."""

    name: str
    command: str
    minutes: float
    shows: str = r".* in [\d.]+s.*"  # pytest's last line


JOBS = (
    Job(name="test-systemd", command="make test-systemd", minutes=15),
    Job(
        name="bench-latency",
        command='make bench ARGS="--only latency --backend postgresql"',
        minutes=4,
        shows=r"triggerlog: .*|report .*",
    ),
    *(
        Job(
            name=f"bench-{only}",
            command=f'make bench ARGS="--plan smoke --only {only}"',
            minutes=minutes,
            shows=r"triggerlog: .*|report .*",
        )
        for only, minutes in {
            "throughput": 4,
            "load": 3,
            "outages": 3,
            "governor": 4,
            "page": 4,
            "conditions": 4,
        }.items()
    ),
    Job(name="bench-visits", command='make bench-visits ARGS="--quick"', minutes=8, shows=r"triggerlog: .*|report .*"),
    Job(
        name="bench-folders", command='make bench-folders ARGS="--quick"', minutes=10, shows=r"triggerlog: .*|report .*"
    ),
    Job(
        name="bench-tiers", command='make bench-tiers ARGS="--scale 0.05"', minutes=8, shows=r"triggerlog: .*|report .*"
    ),
    Job(
        name="simulate-faults",
        # Another seed each day, the same all day.
        command='make simulate-faults ARGS="--minutes 12 --from $(date +%Y%m%d)0000"',
        minutes=16,
        shows=r"\d+ seeds from .*",
    ),
    Job(name="simulate-mutants", command="make simulate-mutants", minutes=25, shows=r".*not found by \d+ seeds"),
    Job(name="test-crashes", command='make test-crashes ARGS="--kills 120"', minutes=8, shows=r".*lost.*"),
    Job(name="test-visit-crashes", command="TRIGGERLOG_KILLS=6 make test-visit-crashes", minutes=9),
    Job(name="test-tier-crashes", command="TRIGGERLOG_KILLS=8 make test-tier-crashes", minutes=8),
    Job(name="fuzz", command='make fuzz ARGS="--minutes 5"', minutes=13, shows=r".* findings$"),
    Job(name="soak", command="TRIGGERLOG_SOAK_S=600 make soak", minutes=15),
    Job(name="ninety-days", command="make ninety-days", minutes=14),
    Job(
        name="test-conditions",
        command="TRIGGERLOG_STEPS=300 .venv/bin/python -m pytest -q "
        "tests/daemon/conditions/processes/test_reference_client.py",
        minutes=5,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a job."""

    job: Job
    outcome: str
    seconds: float
    showed: str

    @property
    def is_good(self) -> bool:
        """Return true if the job ended by itself with exit code 0."""
        return self.outcome == "passed"


def run(job: Job, folder: Path) -> Outcome:
    """Run a job to its end, or to the end of its time with all that it started."""
    log, began = folder / f"{job.name}.log", time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["/bin/sh", "-c", job.command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(60 * job.minutes)
            outcome = "passed" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            outcome = f"not done in {job.minutes:g} min"
        finally:
            _end(process)
    return Outcome(job=job, outcome=outcome, seconds=time.monotonic() - began, showed=_showed(job, log))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of a job, also where it has ended itself."""
    for number, within_s in ((signal.SIGTERM, ENDS_WITHIN_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            continue


def _showed(job: Job, log: Path) -> str:
    """Return the last line that has the job's result, else its last line."""
    lines = [line.strip(" =") for line in log.read_text(errors="replace").splitlines() if line.strip(" =")]
    found = [line for line in lines if re.fullmatch(job.shows, line)]
    return (found or lines or ["it said nothing"])[-1]


def table(outcomes: Sequence[Outcome]) -> str:
    """Lay out the outcomes: a line a job."""
    rows = [("target", "outcome", "seconds", "what it showed")]
    rows += [(each.job.name, each.outcome, f"{each.seconds:.0f}", each.showed[:160]) for each in outcomes]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d}\n" for a, b, c, d in rows)


def main(arguments: Sequence[str] | None = None, jobs: Sequence[Job] = JOBS, folder: Path = FOLDER) -> int:
    """Run the jobs that are asked for; return 1 when any of them failed."""
    parser = argparse.ArgumentParser(prog="make nightly", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(job.name for job in jobs)}; else all")
    asked = parser.parse_args(arguments)
    if unknown := {*asked.names} - {job.name for job in jobs}:
        parser.error(f"there is no job {min(unknown)!r}")
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for job in jobs:
        if not asked.names or job.name in asked.names:
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {job.name}: {job.command}\n")
            outcomes.append(run(job, folder))
    said = table(outcomes)
    (folder / "table.txt").write_text(said)
    sys.stdout.write(said)
    return 0 if all(each.is_good for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
