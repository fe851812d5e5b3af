"""Fixtures of the benchmarks, and what they add to pytest-benchmark's JSON."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.conditions import measure as conditions
from benchmarks.conditions.scenarios import SCENARIOS
from benchmarks.measures import governor, latency, outages, pages, throughput
from benchmarks.measures.contenders import measured
from benchmarks.rounds.plan import PLANS, Plan
from benchmarks.rounds.rounds import Round, print_line
from benchmarks.servers import Servers, running
from benchmarks.servers.base import Server, fdatasync_ms
from schemas.checking.dsn import Backend

FACTS = pytest.StashKey[dict[str, Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `triggerlog bench` passes on."""
    parser.addoption("--plan", choices=sorted(PLANS), default="short", help="how long it all takes")
    parser.addoption("--folder", type=Path, default=Path(".benchmarks"), help="on whose disk the servers write")
    parser.addoption("--backend", type=Backend, action="append", help="a database to measure; all by default")
    parser.addoption("--dsn", action="append", default=[], help="a server to measure instead of a throw-away one")
    parser.addoption("--scenario", action="append", default=[], choices=list(SCENARIOS), help="of conditions")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each contender of each database that is to be measured a benchmark."""
    backends, plan = chosen(metafunc.config), PLANS[metafunc.config.getoption("--plan")]
    if "contender" in metafunc.fixturenames:
        everybody = [contender for backend in backends for contender in measured(backend, plan)]
        metafunc.parametrize("contender", everybody, ids=[contender.name for contender in everybody])
    if "window" in metafunc.fixturenames:
        windows = [window for backend in backends for window in latency.windows(backend, plan)]
        metafunc.parametrize("window", windows, ids=[window.name for window in windows])
    if "condition" in metafunc.fixturenames:
        everything = list(conditions.contenders(backends, plan, metafunc.config.getoption("--scenario")))
        metafunc.parametrize("condition", everything, ids=[each.name for each in everything])
    if "layout" in metafunc.fixturenames:
        metafunc.parametrize("layout", plan.layouts)


def chosen(config: pytest.Config) -> list[Backend]:
    """The databases to measure."""
    return config.getoption("--backend") or list(Backend)


@pytest.fixture(scope="session")
def plan(pytestconfig: pytest.Config) -> Plan:
    """How long it all takes."""
    return PLANS[pytestconfig.getoption("--plan")]


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Iterator[Servers]:
    """The servers of all measures."""
    folder: Path = pytestconfig.getoption("--folder")
    load = os.getloadavg()[0]
    with running(folder, chosen(pytestconfig), pytestconfig.getoption("--dsn"), print_line) as found:
        if not found:
            pytest.exit("there is no database to measure", returncode=pytest.ExitCode.USAGE_ERROR)
        facts = {
            "plan": pytestconfig.getoption("--plan"),
            "began_ns": time.time_ns(),
            "load": load,
            "cores": os.cpu_count(),
            "memory_gib": psutil.virtual_memory().total / 2**30,
            "fdatasync_ms": fdatasync_ms(folder),
            "servers": {backend.value: server.described() for backend, server in found.items()},
        }
        pytestconfig.stash[FACTS] = facts
        for server in facts["servers"].values():
            print_line(f"{server['product']} {server['version']} at {server['target']}")
        print_line(f"an fdatasync takes {facts['fdatasync_ms']:.2f} ms")
        yield found


@pytest.fixture(scope="session")
def server(servers: Servers) -> Server:
    """PostgreSQL, the default of the daemon, for the measures that are taken on one database only."""
    if Backend.POSTGRESQL not in servers:
        pytest.skip("measured with PostgreSQL alone")
    return servers[Backend.POSTGRESQL]


@pytest.fixture(scope="session")
def throughput_rounds(servers: Servers, plan: Plan) -> dict[str, list[Round]]:
    """All rounds of the throughput, interleaved, by contender."""
    print_line("throughput")
    return throughput.measure(servers, plan)


@pytest.fixture(scope="session")
def latency_rounds(servers: Servers, plan: Plan) -> dict[str, list[Round]]:
    """All windows of the latency, interleaved, by their names."""
    print_line("latency")
    return latency.measure(servers, plan)


@pytest.fixture(scope="session")
def journal_rounds(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """All rounds with the journal and without, interleaved, by their names."""
    print_line("outages")
    return outages.journal(server, plan)


@pytest.fixture(scope="session")
def governor_blocks(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """All blocks with readers and without, governor and not, interleaved, by their names."""
    print_line("governor")
    return governor.measure(server, plan)


@pytest.fixture(scope="session")
def page_rounds(server: Server, plan: Plan) -> dict[str, list[Round]]:
    """All rounds of the page's cost, interleaved, by audience."""
    print_line("page")
    return pages.measure(server, plan)


@pytest.fixture(scope="session")
def condition_rounds(servers: Servers, plan: Plan, pytestconfig: pytest.Config) -> dict[str, conditions.Found]:
    """All rounds of conditions, interleaved, by contender."""
    print_line("conditions")
    return conditions.measure(servers, plan, pytestconfig.getoption("--scenario"))


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Keep the servers and their settings with the figures."""
    output_json["triggerlog"] = config.stash.get(FACTS, {})
