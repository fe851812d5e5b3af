"""Fixtures of the benchmarks, and what they add to pytest-benchmark's JSON."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks import latency, throughput
from benchmarks.plan import PLANS, Plan
from benchmarks.progress import say
from benchmarks.rounds import Round
from benchmarks.server import Server, throwaway_server

FACTS = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the options that `python -m benchmarks` hands on."""
    parser.addoption("--plan", choices=sorted(PLANS), default="short", help="how long it all takes")
    parser.addoption("--folder", type=Path, default=Path(".benchmarks"), help="on whose disk the server writes")


@pytest.fixture(scope="session")
def plan(pytestconfig: pytest.Config) -> Plan:
    """How long it all takes."""
    return PLANS[pytestconfig.getoption("--plan")]


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """The one server of all measures."""
    with throwaway_server(pytestconfig.getoption("--folder")) as running:
        pytestconfig.stash[FACTS] = {
            "plan": pytestconfig.getoption("--plan"),
            "began_ns": time.time_ns(),
            "load": os.getloadavg()[0],
            "cores": os.cpu_count(),
            "memory_gib": psutil.virtual_memory().total / 2**30,
            "settings": running.settings,
            "fdatasync_ms": running.fdatasync_ms,
        }
        say(f"PostgreSQL {running.settings['server_version']}, an fdatasync takes {running.fdatasync_ms:.2f} ms")
        yield running


@pytest.fixture(scope="session")
def throughput_rounds(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """All rounds of the throughput, interleaved."""
    say("throughput")
    return throughput.measure(server, plan)


@pytest.fixture(scope="session")
def latency_windows(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """All windows of the latency, interleaved."""
    say("latency")
    return latency.measure(server, plan)


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Keep the server and its settings with the figures."""
    output_json["triggerlog"] = config.stash.get(FACTS, {})
