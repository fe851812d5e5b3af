"""Experiments that are asked for, or stopped, when none can be."""

import asyncio
from pathlib import Path

import pytest

from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.workloads.frame.runner import WorkloadBusy
from daemon.workloads.interference.run import ExperimentRun
from daemon.workloads.interference.runner import ExperimentRunner
from daemon.workloads.readers.manager import Readers
from schemas.api.interference import Experiment
from schemas.api.status import Status
from schemas.states import RunState

SETTINGS = {"workloads": [{"name": "scan", "kind": "scan", "clients": 1}]}


def no_status() -> Status:
    raise AssertionError("an experiment that measures no pipeline was admitted")


def runner_in(folder: Path) -> ExperimentRunner:
    file = folder / "beam.toml"
    file.write_text('[[groups]]\nname = "bpm"\ncount = 4\nchannels = [{ name = "x" }]\n')
    loaded, events = load_config(file), Events()
    return ExperimentRunner(loaded, Readers(loaded, events), events, {}, no_status)


async def test_no_experiment_begins_before_there_are_pipelines_to_measure(tmp_path: Path) -> None:
    runner = runner_in(tmp_path)
    await runner.open()
    with pytest.raises(WorkloadBusy, match="the daemon is starting"):
        await runner.start(Experiment.model_validate(SETTINGS))


async def test_an_experiment_that_is_being_reported_cannot_be_stopped(tmp_path: Path) -> None:
    runner, reporting = runner_in(tmp_path), asyncio.Event()

    async def report() -> None:
        await reporting.wait()

    settings = Experiment.model_validate(SETTINGS)
    runner.run = run = ExperimentRun(
        "made",
        settings,
        readers=Readers(load_config(tmp_path / "beam.toml"), Events()),
        pipelines={},
        watch=lambda _: None,  # type: ignore[arg-type,return-value]
        after_block=report,
    )
    run.state, run.problem = RunState.FAILED, "the readers are away"
    runner._start(report(), "experiment made")
    with pytest.raises(KeyError):
        await asyncio.wait_for(runner.stop(), 30)
    assert run.problem == "the readers are away"
    reporting.set()
