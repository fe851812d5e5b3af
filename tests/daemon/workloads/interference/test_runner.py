"""Experiments that are asked for, or stopped, when none can be."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from backends.base import StoreUnavailable
from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.frame.runner import WorkloadBusy
from daemon.workloads.interference.run import ExperimentRun
from daemon.workloads.interference.runner import ExperimentRunner
from daemon.workloads.readers.manager import Readers
from schemas.api.interference import Experiment
from schemas.api.status import Status
from schemas.states import RunState
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.readings import make_group, whole

SETTINGS = {"workloads": [{"name": "scan", "kind": "scan", "clients": 1}]}


def no_status() -> Status:
    raise AssertionError("an experiment that measures no pipeline was admitted")


def runner_in(folder: Path) -> ExperimentRunner:
    file = folder / "beam.toml"
    file.write_text('[[groups]]\nname = "bpm"\ncount = 4\nchannels = [{ name = "x" }]\n')
    loaded, events = load_config(file), Events()
    return ExperimentRunner(loaded, Readers(loaded, events), events, {}, no_status)


def run_in(folder: Path, pipelines: Mapping[str, Pipeline] | None = None, governor: Callable[[], str] = str) -> Any:
    async def nothing() -> None: ...

    return ExperimentRun(
        "made",
        Experiment.model_validate(SETTINGS),
        readers=Readers(load_config(folder / "beam.toml"), Events()),
        pipelines=pipelines or {},
        watch=lambda _: None,  # type: ignore[arg-type,return-value]
        governor=governor,
        after_block=nothing,
    )


async def test_no_experiment_begins_before_there_are_pipelines_to_measure(tmp_path: Path) -> None:
    runner = runner_in(tmp_path)
    await runner.open()
    with pytest.raises(WorkloadBusy, match="the daemon is starting"):
        await runner.start(Experiment.model_validate(SETTINGS))


async def test_an_experiment_that_is_being_reported_cannot_be_stopped(tmp_path: Path) -> None:
    runner, reporting = runner_in(tmp_path), asyncio.Event()

    async def report() -> None:
        await reporting.wait()

    runner.run = run = run_in(tmp_path)
    run.state, run.problem = RunState.FAILED, "the readers are away"
    runner._start(report(), "experiment made")
    with pytest.raises(KeyError):
        await asyncio.wait_for(runner.stop(), 30)
    assert run.problem == "the readers are away"
    reporting.set()


async def test_what_a_block_leaves_behind_is_waited_for_and_else_the_next_one_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner_in(tmp_path)
    group = make_group()
    async with logging_to_memory(group, folder=tmp_path / "state", assembly={"timeout_ms": 20.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        run = run_in(tmp_path, {"bpm": pipeline})
        await run._drain_backlog(1)
        assert (run._is_drained, run.notes) == (True, [])
        logger.store.fail_with(StoreUnavailable("it is busy"))
        pipeline.receive(whole(group, 1, 2, 3))
        await eventually(lambda: pipeline.waiting.triggers == 3)
        with monkeypatch.context() as patched:
            patched.setattr("daemon.workloads.interference.run.DRAIN_LEAST_S", 0.3)
            patched.setattr("daemon.workloads.interference.run.DRAIN_BLOCKS", 0)
            await run._drain_backlog(2)
        assert not run._is_drained
        assert run.notes == ["3 triggers still waited when block 3 began, and 0 without readers: block 3 is left out."]
        waiting = asyncio.create_task(run._drain_backlog(3))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        logger.store.fail_with(None)
        await asyncio.wait_for(waiting, 60)
        assert run._is_drained


async def test_a_governor_that_is_changed_meanwhile_is_noted(tmp_path: Path) -> None:
    runner_in(tmp_path)
    ceilings = iter(["", "", "commit p99 at most 5 ms", ""])
    run = run_in(tmp_path, governor=lambda: next(ceilings))
    for _ in range(4):
        run._check_beside()
    assert run.notes == [
        "The governor was changed in block 1: commit p99 at most 5 ms.",
        "The governor was changed in block 1: it is off.",
    ]
