"""`make nightly`: it goes on after what fails or hangs, says so in one table, and covers every target."""

import re
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.nightly import JOBS, MOST_MINUTES, Job, main
from tests.support.processes import until

ROOT = Path(__file__).parent.parent

NOT_TESTS = {
    *("help", "setup", "run", "format", "clean", "nightly"),
    "quick",  # a part of `make test`
    "budgets",  # lowers what `make lint` compares; tests/test_budgets.py runs it
    "bench-full",  # `make bench` for two hours
    "lock",  # asks the package index for newer versions
    "reference",  # tests/test_packaging.py compares what it writes
    "screenshots",  # writes docs/images; tests/page sees the same pages
}


def test_every_target_is_run_by_ci_or_by_night() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    in_ci = set(re.findall(r"^make ([a-z-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    by_night = {target for job in JOBS for target in re.findall(r"\bmake ([a-z-]+)", job.command)}
    assert targets == in_ci | by_night | NOT_TESTS
    assert not (in_ci | by_night) & NOT_TESTS


def test_all_of_it_takes_three_hours_at_most() -> None:
    assert sum(job.minutes for job in JOBS) <= MOST_MINUTES
    assert len({job.name for job in JOBS}) == len(JOBS)


def test_it_goes_on_after_what_fails_and_what_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pid = tmp_path / "pid"
    jobs = (
        Job(name="bad", command="echo 1 finding; echo more; exit 3", minutes=1, shows=r"\d finding"),
        Job(name="hangs", command=f"sleep 600 & echo $! > {pid}; wait", minutes=0.01),
        Job(name="silent", command="true", minutes=1),
        Job(name="good", command="echo '== 5 passed in 0.10s =='", minutes=1),
    )
    assert main([], jobs, tmp_path) == 1
    lines = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines[1:]] == [
        ["bad", "failed (3)"],
        ["hangs", "not done in 0.01 min"],
        ["silent", "passed"],
        ["good", "passed"],
    ]
    assert [line[3] for line in lines[1:]] == ["1 finding", "it said nothing", "it said nothing", "5 passed in 0.10s"]
    until(lambda: not psutil.pid_exists(int(pid.read_text())), "what it started is ended")
    assert main(["good"], jobs, tmp_path) == 0
    assert "bad" not in capsys.readouterr().out
    assert (tmp_path / "table.txt").read_text().count("\n") == 2


def test_a_job_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["soek"])
    assert "there is no job 'soek'" in capsys.readouterr().err


def test_the_commands_are_what_a_shell_understands() -> None:
    for job in JOBS:
        subprocess.run(["/bin/sh", "-n", "-c", job.command], check=True)
