"""Experiments that are asked for while the daemon starts."""

from pathlib import Path

import pytest

from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.workloads.frame.runner import WorkloadBusy
from daemon.workloads.interference.runner import ExperimentRunner
from daemon.workloads.readers.manager import Readers
from schemas.api.interference import Experiment
from schemas.api.status import Status


def no_status() -> Status:
    raise AssertionError("an experiment that measures no pipeline was admitted")


async def test_no_experiment_begins_before_there_are_pipelines_to_measure(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text('[[groups]]\nname = "bpm"\ncount = 4\nchannels = [{ name = "x" }]\n')
    loaded, events = load_config(file), Events()
    runner = ExperimentRunner(loaded, Readers(loaded, events), events, {}, no_status)
    await runner.open()
    with pytest.raises(WorkloadBusy, match="the daemon is starting"):
        await runner.start(Experiment.model_validate({"workloads": [{"name": "scan", "kind": "scan", "clients": 1}]}))
