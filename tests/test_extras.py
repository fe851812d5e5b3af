"""An environment of requirements.lock alone: what runs in it, and what a command says that lacks an extra."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PINS = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
RUNTIME = dict(PINS.findall((ROOT / "requirements.lock").read_text()))

LEAST = """
[[groups]]
name = "bpm"
count = 3
channels = [{ name = "x" }]

[[sources]]
kind = "tcp"
port = 0

[api]
port = 0
"""
VISITS = """
[visits]
start = true

[[readers.workloads]]
name = "curves"
kind = "light_curve"
"""
INSTALL = (
    "not installed here; run `make setup` in the checkout of triggerlog, or: pip install '/path/to/the/checkout[{}]'"
)

HIDE = """
from importlib.machinery import PathFinder
hidden, find = {modules!r}, PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in hidden else find(name, *rest)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which Python finds no package that is not in requirements.lock, in child processes neither."""
    folder = tmp_path_factory.mktemp("runtime")
    owners = packages_distributions()
    names = {module: {re.sub(r"[-_.]+", "-", name).lower() for name in owners[module]} for module in owners}
    hidden = {module for module, found in names.items() if not found & {"triggerlog", *RUNTIME}}
    assert {"pytest", "hypothesis", "pyarrow", "h5py", "lsst", "psycopg", "playwright", "uv"} <= hidden
    (folder / "sitecustomize.py").write_text(HIDE.format(modules=hidden))
    return {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "TERM": "dumb"}


def command(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    code = [sys.executable, "-m", *arguments]
    return subprocess.run(code, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def started(environment: dict[str, str], folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    code = [sys.executable, "-m", "daemon", *arguments]
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(code, env=environment, cwd=ROOT, stdout=said, stderr=said, text=True)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, (folder / "said").read_text()


def until_said(folder: Path, words: str, process: "subprocess.Popen[str]") -> str:
    while words not in (said := (folder / "said").read_text()):
        assert process.poll() is None, said
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    return said


def test_every_pin_of_the_runtime_is_that_of_the_development() -> None:
    everything = dict(PINS.findall((ROOT / "requirements-dev.lock").read_text()))
    assert {name: everything.get(name) for name in RUNTIME} == RUNTIME


@pytest.mark.parametrize(
    "arguments",
    [
        ("daemon", "--help"),
        ("daemon", "simulate", "--help"),
        ("daemon", "export", "--help"),
        ("daemon", "visits", "run", "--help"),
        ("dashboard", "--help"),
        ("benchmarks.interference", "--help"),
        ("benchmarks.visits", "--help"),
    ],
    ids=" ".join,
)
def test_it_starts_without_extras(environment: dict[str, str], arguments: tuple[str, ...]) -> None:
    done = command(environment, *arguments)
    assert done.returncode == 0, done.stderr


def test_the_configuration_is_checked_without_extras(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(LEAST)
    done = command(environment, "daemon", "check-config", str(file), "--offline")
    assert done.returncode == 0, done.stderr
    assert "nothing is wrong" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["bench"],
            "bench needs pytest, pytest-benchmark, pytest-timeout, psycopg, psycopg2-binary, "
            + INSTALL.format("bench"),
        ),
        (["export", "beam.toml", "-o", "x.h5"], "an export as .h5 needs h5py, " + INSTALL.format("export")),
        (
            ["export", "beam.toml", "-o", "x.parquet"],
            "an export as .parquet needs pyarrow, " + INSTALL.format("export"),
        ),
        (
            ["export", "beam.toml", "-o", "x.csv"],
            "beam.toml: cannot be read (no such file or directory); give the path of a configuration file",
        ),
        (["visits", "run"], "visits run needs lsst-sphgeom, " + INSTALL.format("visits")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_misses_its_extra_says_which_one(environment: dict[str, str], arguments: list[str], line: str) -> None:
    done = command(environment, "daemon", *arguments)
    assert (done.returncode, done.stderr) == (1, f"triggerlog: {line}\n")


@pytest.mark.slow
def test_a_daemon_logs_and_says_what_it_cannot_run(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(LEAST + VISITS)
    with started(environment, tmp_path, "run", str(file)) as daemon:
        said = until_said(tmp_path, "visits do not start", daemon)
    assert "taking readings at" in said
    assert "visits do not start: a run needs lsst-sphgeom, " + INSTALL.format("visits") in said
    assert "kind: a workload of visits needs lsst-sphgeom, " + INSTALL.format("visits") in said


@pytest.mark.slow
def test_the_demonstration_needs_no_extra(environment: dict[str, str], tmp_path: Path) -> None:
    with started(environment, tmp_path, "demo", "--free-ports", "--state", str(tmp_path / "state")) as demo:
        until_said(tmp_path, "triggerlog is logging", demo)
