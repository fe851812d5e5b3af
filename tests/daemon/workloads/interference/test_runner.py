"""Experiments that are asked for, or stopped, when none can be."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backends.base import StoreUnavailable
from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.frame.runner import WorkloadBusy
from daemon.workloads.interference.counters import read_counters
from daemon.workloads.interference.experiment import Planned
from daemon.workloads.interference.run import Beside, ExperimentRun, _Stopped
from daemon.workloads.interference.runner import ExperimentRunner
from daemon.workloads.readers.manager import Figures, Readers
from daemon.workloads.readers.measuring import Totals
from schemas.api.interference import Experiment
from schemas.api.status import Status
from schemas.states import ExperimentPhase, ReaderState, RunState
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


def run_in(
    folder: Path,
    pipelines: Mapping[str, Pipeline] | None = None,
    beside: Callable[[], Beside] = lambda: ("", frozenset()),
    **settings: Any,
) -> Any:
    async def nothing() -> None: ...

    return ExperimentRun(
        "made",
        Experiment.model_validate({**SETTINGS, **settings}),
        readers=Readers(load_config(folder / "beam.toml"), Events()),
        pipelines=pipelines or {},
        watch=lambda _: SimpleNamespace(between=lambda *_: (0, {}, {})),  # type: ignore[arg-type,return-value]
        beside=beside,
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


async def test_a_stall_within_a_block_is_not_what_always_waits(tmp_path: Path) -> None:
    runner_in(tmp_path)
    async with logging_to_memory(make_group(), folder=tmp_path / "state") as logger:
        run = run_in(tmp_path, logger.pipelines)
        first = read_counters(run._pipelines)
        run._waited = [2] * 60 + [5000] * 40
        run._readers = {"scan": Unanswered()}
        run._block(1, Planned("A", 0), 0.0, first, {"scan": Totals()}, whole=True)
        run._pipelines = (Falling(3000, 400),)
        draining = asyncio.create_task(run._drain_backlog(1))
        await asyncio.sleep(1.0)
        assert not draining.done()  # 400 wait, of which 398 are left behind
        run._pipelines[0].least = 0
        await asyncio.wait_for(draining, 60)


class Falling:
    """A group whose backlog becomes less with each look, down to what always waits there."""

    def __init__(self, triggers: int, least: int) -> None:
        self.triggers, self.least = triggers, least

    @property
    def waiting(self) -> SimpleNamespace:
        self.triggers = max(self.least, self.triggers - 100)
        return SimpleNamespace(triggers=self.triggers)


@pytest.mark.parametrize("least", [0, 7])
async def test_the_first_block_begins_when_what_waited_before_is_gone(tmp_path: Path, least: int) -> None:
    runner_in(tmp_path)
    run = run_in(tmp_path)
    run._pipelines = (before := Falling(2000, least),)
    await asyncio.wait_for(run._settle(), 60)
    assert before.triggers == least
    assert run.notes == []


async def test_a_backlog_that_goes_on_falling_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner_in(tmp_path)
    run = run_in(tmp_path)
    run._pipelines = (Falling(100_000, 0),)
    monkeypatch.setattr("daemon.workloads.interference.run.DRAIN_LEAST_S", 0.3)
    monkeypatch.setattr("daemon.workloads.interference.run.DRAIN_BLOCKS", 0)
    await asyncio.wait_for(run._settle(), 60)
    (note,) = run.notes
    assert note.endswith(" triggers of before still waited when block 1 began, and became fewer.")


async def test_what_goes_on_beside_the_blocks_is_noted(tmp_path: Path) -> None:
    runner_in(tmp_path)
    found = iter(
        [
            ("", frozenset({"w"})),
            ("", frozenset({"w"})),
            ("commit p99 at most 5 ms", frozenset({"w", "a run of visits"})),
            ("", frozenset({"a run of visits"})),
        ]
    )
    run = run_in(tmp_path, beside=lambda: next(found))
    for _ in range(4):
        run._check_beside()
    assert run.notes == [
        "Other workloads ran at the start, in A and in B alike: w.",
        "The governor was changed in block 1: commit p99 at most 5 ms.",
        "Other workloads began in block 1: a run of visits.",
        "The governor was changed in block 1: it is off.",
        "Other workloads ended in block 1: w.",
    ]


def test_visits_and_other_readers_are_told_and_own_ones_are_not(tmp_path: Path) -> None:
    runner = runner_in(tmp_path)
    readers = {name: SimpleNamespace(admitted=n) for name, n in (("scan", 1), ("w", 1), ("idle", 0))}
    visits = SimpleNamespace(is_active=True)
    snapshots = SimpleNamespace(is_active=True)
    status: Any = SimpleNamespace(readers=readers, visits=visits, snapshots=snapshots, governor=None)
    runner._status = lambda: status
    settings = Experiment.model_validate(SETTINGS)
    assert runner._beside(settings) == ("", frozenset({"w", "a run of visits", "snapshot readers"}))
    visits.is_active = snapshots.is_active = False
    assert runner._beside(settings) == ("", frozenset({"w"}))


class Unanswered:
    """A reader of which one question waits for its answer."""

    asking, totals = 1, Totals()

    def admit(self, clients: int) -> None: ...

    def measure(self) -> None: ...

    def end_measuring(self) -> None: ...

    def stretch_figures(self) -> Figures:
        return Figures()

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(state=ReaderState.RUNNING, problem=None)


async def test_a_block_whose_last_answers_were_not_waited_for_is_not_whole(tmp_path: Path) -> None:
    runner_in(tmp_path)
    async with logging_to_memory(make_group(), folder=tmp_path / "state") as logger:
        run = run_in(tmp_path, logger.pipelines, block_s=0.2, warm_up_s=0.05)
        run._readers = {"scan": Unanswered()}
        block = asyncio.create_task(run._measure(2, Planned("B", 1)))
        await eventually(lambda: run.phase is ExperimentPhase.WRITE_AND_READ)
        await eventually(lambda: run.phase is ExperimentPhase.WARM_UP)  # it drains
        run.stop("somebody stopped it")
        with pytest.raises(_Stopped):
            await asyncio.wait_for(block, 30)
        assert [(each.kind, each.whole) for each in run.blocks] == [("B", False)]
