"""docs/grafana: the dashboard and the alert rules ask only for what a daemon's /metrics has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon.telemetry.exposition.workloads import reading
from schemas.api.status import ExperimentStatus, GovernorStatus, Latency, ReaderStatus
from schemas.states import ExperimentPhase
from tests.daemon.api.test_api import served

FOLDER = Path(__file__).parent.parent / "docs" / "grafana"
DASHBOARD = json.loads((FOLDER / "triggerlog.json").read_text())
ALERTS = (FOLDER / "alerts.yaml").read_text()
READER = ReaderStatus(
    kind="history",
    group="bpm",
    clients=4,
    admitted=2,
    since_ns=1,
    state="running",
    problem=None,
    cycles=90,
    in_time=80,
    failed=1,
    slipped_s=2.5,
    rows=7200,
    rate=1.5,
    row_rate=120,
    efficiency=0.88,
    latency_ms=Latency(p50=20, p99=900, max=None),
    deadline_ms=1000,
)
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


@pytest.fixture
async def exposed() -> str:
    """What a daemon with a reader workload answers to Prometheus."""
    async with served() as api:
        api.workloads["readers"] = {"control_room": READER}
        await api.commit(1, 2)
        return (await api.client.get("/metrics")).raise_for_status().text


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield from (panel, *panel.get("panels", ()))


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in DASHBOARD["templating"]["list"]:
        yield variable.get("definition", "")
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation.get("expr", "")
    yield from re.findall(r"expr: (?:>-\n)?((?:.*\n)+?) {8}\w+:", ALERTS)


async def test_every_metric_that_is_asked_for_is_there(exposed: str) -> None:
    families = list(text_string_to_metric_families(exposed))
    names = {family.name + suffix for family in families for suffix in SUFFIXES[family.type]}
    asked = {name for text in expressions() for name in re.findall(r"\b(?:triggerlog|process)_\w+", text)}
    assert len(asked) > 55
    assert asked - names == set()
    labels: dict[str, set[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        labels.setdefault(sample.name, {"instance", "job", "__name__"}).update(sample.labels)
    for text in expressions():
        for name, matchers in re.findall(r"(triggerlog_\w+)\{([^}]*)\}", text):
            wanted = set(re.findall(r'(\w+)(?:=~|!~|!=|=)"', matchers))
            assert name not in labels or wanted <= labels[name], (name, matchers)


async def test_readers_governor_and_experiment_are_exposed(exposed: str) -> None:
    workload = 'group="bpm",kind="history",workload="control_room"'
    for line in (
        f"triggerlog_reader_answers_total{{{workload}}} 90.0",
        f"triggerlog_reader_slipped_seconds_total{{{workload}}} 2.5",
        f"triggerlog_reader_admitted{{{workload}}} 2.0",
        'triggerlog_reader_latency_seconds{group="bpm",kind="history",quantile="0.99",workload="control_room"} 0.9',
        'triggerlog_state{state="running"} 1.0',
        "triggerlog_experiment_running 0.0",
    ):
        assert line in exposed
    assert 'quantile="1"' not in exposed
    async with served() as api:
        status = api.service.reporter.status().model_copy(
            update={
                "governor": GovernorStatus(
                    commit_p99_ms=50,
                    backlog_triggers=None,
                    admitted=2,
                    share=0.5,
                    clients=4,
                    state="lowering",
                    reason="",
                ),
                "experiment": ExperimentStatus(
                    id="x", began_ns=1, phase=ExperimentPhase.WRITE_ONLY, block=3, blocks=12, readers=0, left_s=77
                ),
            }
        )
    values = {
        (sample.name, *sample.labels.values()): sample.value for family in reading(status) for sample in family.samples
    }
    assert values["triggerlog_governor_state", "lowering"] == 1
    assert values["triggerlog_governor_commit_ceiling_seconds",] == 0.05
    assert values["triggerlog_governor_share",] == 0.5
    assert ("triggerlog_governor_backlog_ceiling_triggers",) not in values
    assert values["triggerlog_experiment_phase", "A"] == 1
    assert values["triggerlog_experiment_left_seconds",] == 77


def test_the_dashboard_is_sound() -> None:
    every = list(panels())
    assert len({panel["id"] for panel in every}) == len(every)
    taken: set[tuple[int, int]] = set()
    for panel in every:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", " ".join(expressions())))
    assert used <= variables == {"datasource", "logger", "instance", "group"}
    assert DASHBOARD["schemaVersion"] >= 39
    assert "id" not in DASHBOARD


def test_every_alert_says_what_to_do() -> None:
    rules = ALERTS.split("- alert: ")[1:]
    assert len(rules) >= 10
    for rule in rules:
        assert {"expr", "severity", "summary", "action"} <= set(re.findall(r"^ +(\w+):", rule, re.MULTILINE)), rule
