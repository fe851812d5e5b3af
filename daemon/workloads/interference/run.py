"""One experiment under way: block after block, measured as it goes."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from daemon.core.monitoring.metrics import percentile_within
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.frame.runner import Run
from daemon.workloads.interference.counters import (
    Counters,
    ServerWatch,
    read_counters,
    reading_between,
    waiting,
    with_answers,
    writing_between,
)
from daemon.workloads.interference.experiment import Planned, dealt, planned, seconds_of
from daemon.workloads.readers.manager import Reader, Readers
from daemon.workloads.readers.measuring import Totals
from schemas.api.interference import MOST_SAMPLES, SAMPLE_S, Block, Experiment, Sample
from schemas.api.status import ExperimentStatus, ReaderStatus
from schemas.states import ExperimentPhase, ReaderState, RunState

TICK_S = 0.1
"""Time between two looks at the backlog."""

READY_S = 120.0
"""Patience with the readers' processes at the start."""

DRAIN_S = 0.6
"""Until every reader's process has heard an order, and has said how it is since."""

DRAIN_BLOCKS = 2
DRAIN_LEAST_S = 30.0
"""Patience with the backlog that a block of B leaves behind, in blocks, and in seconds at least."""

SETTLED_S = 1.0
"""A backlog that did not become less in so long is what always waits."""


Beside = tuple[str, frozenset[str]]
"""What goes on beside the blocks: the ceilings of the governor in words, and the other workloads."""


class _Stopped(Exception):
    """Somebody stopped it."""


class _Failed(Exception):
    """It cannot go on; the message is one line."""


class ExperimentRun(Run):
    """Measures; its workloads stand ready and are stopped by whoever started them.

    blocks, timeline, notes: as in `schemas.api.interference.Record`, growing.
    beside: the ceilings of the governor now, in words, and what else asks the database. after_block: awaited after each
    block.
    """

    def __init__(
        self,
        name: str,
        settings: Experiment,
        *,
        readers: Readers,
        pipelines: Mapping[str, Pipeline],
        watch: Callable[[Callable[[str], None]], ServerWatch],
        beside: Callable[[], Beside],
        after_block: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(name)
        self.state = RunState.RUNNING
        self.settings = settings
        self.order = planned(settings)
        self.blocks: list[Block] = []
        self.timeline: list[Sample] = []
        self.notes: list[str] = []
        self._readers = readers
        self._pipelines = tuple(pipelines.values())
        self._watch = watch(self._note)
        self._after_block = after_block
        self._stop = asyncio.Event()
        self._began_s = time.monotonic()
        self._block_s = self._began_s
        self.phase = ExperimentPhase.WARM_UP
        self._number = 1
        self._backlog = 0  # at most, in the block
        self._waited: list[int] = []  # triggers that waited, at each look in the block
        self._quiet = 0.0  # their median in the last block of A that counts: a stall is not what always waits
        self._is_drained = True  # whether no more than that waited when the block began
        self._ask_beside = beside
        self._beside: Beside | None = None
        self._is_away_noted = False
        self._failure: str | None = None
        self._noted: set[str] = set()  # workloads of which was said that questions fail

    def stop(self, why: str) -> None:
        """End it soon; what was measured stays."""
        self.problem = why
        self._stop.set()

    def status(self) -> ExperimentStatus:
        """How far it is."""
        left = (len(self.order) - self._number + 1) * self.settings.block_s - (time.monotonic() - self._block_s)
        return ExperimentStatus(
            id=self.name,
            began_ns=self.began_ns,
            phase=self.phase,
            block=self._number,
            blocks=len(self.order),
            readers=self.order[self._number - 1].readers,
            left_s=max(0.0, left),
        )

    async def measure(self) -> RunState:
        """Go through all blocks; return how that ended, of a failure with `problem` set."""
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._watch.run())]
            try:
                await self._get_ready()
                await self._settle()
                self._began_s = self._block_s = time.monotonic()
                background.append(tasks.create_task(self._sample()))
                for number, block in enumerate(self.order, 1):
                    await self._measure(number, block)
                    await self._after_block()
            except _Stopped:
                return RunState.STOPPED
            except _Failed as error:
                self.problem = str(error)
                return RunState.FAILED
            finally:
                for task in background:
                    task.cancel()
        return RunState.FINISHED

    # --- one block ----------------------------------------------------------------------------------------------------

    async def _measure(self, number: int, block: Planned) -> None:
        self._number, self.phase, self._block_s = number, ExperimentPhase.WARM_UP, time.monotonic()
        begin_s = self._now()
        clients = dealt(self.settings, block)
        self._admit(clients)
        await self._pause(self.settings.warm_up_s)
        self.phase = ExperimentPhase(block.kind)
        self._backlog, self._waited = waiting(self._pipelines), []
        for reader in self._own_readers().values():
            reader.measure()
        first, reading = read_counters(self._pipelines), self._totals()
        try:
            await self._pause(self.settings.block_s - self.settings.warm_up_s)
        except (_Stopped, _Failed):
            self.blocks.append(self._block(number, block, begin_s, first, reading, whole=False))
            raise
        # Of B with the last answers: without them long ones would be missing, not short ones.
        measured = self._block(number, block, begin_s, first, reading, whole=block.kind == "A")
        for reader in self._own_readers().values():
            reader.end_measuring()
        try:
            if block.kind == "B":
                self._admit(dict.fromkeys(clients, 0))
                self.phase = ExperimentPhase.WARM_UP
                await self._drain_readers()
                measured = self._with_last_answers(measured)
            if number < len(self.order):
                await self._drain_backlog(number)
        finally:
            self.blocks.append(measured)
        self._check_readers()

    def _block(
        self,
        number: int,
        block: Planned,
        begin_s: float,
        first: Counters,
        reading: Mapping[str, Totals],
        *,
        whole: bool,
    ) -> Block:
        last, now, readers = read_counters(self._pipelines), self._totals(), self._own_readers()
        seconds = max(last.at_s - first.at_s, 1e-9)
        clients = dealt(self.settings, block)
        looks, server, waits = self._watch.between(first.at_s, last.at_s)
        if block.kind == "A" and self._is_drained:
            self._quiet = statistics.median(self._waited or [0])
        kind: Literal["A", "B"] = block.kind
        return Block(
            number=number,
            kind=kind,
            readers=block.readers,
            begin_s=begin_s,
            from_s=first.at_s - self._began_s,
            end_s=last.at_s - self._began_s,
            whole=whole,
            backlog=self._backlog,
            workloads={
                name: reading_between(
                    now[name] - reading[name], readers[name].stretch_figures(), clients[name], seconds
                )
                for name in self._names()
            },
            drained=self._is_drained,
            looks=looks,
            server=server,
            waits=waits,
            **writing_between(first, last),
        )

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return
        if self._failure is not None:
            raise _Failed(self._failure)
        raise _Stopped

    # --- the readers --------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return [workload.name for workload in self.settings.workloads]

    async def _get_ready(self) -> None:
        """Wait until every process stands ready."""
        deadline = time.monotonic() + READY_S
        while any(status.state is not ReaderState.RUNNING for status in self._statuses().values()):
            if time.monotonic() > deadline:
                raise _Failed(f"the readers' processes do not stand ready within {READY_S:g} s; try again later")
            await self._pause(TICK_S)

    def _admit(self, clients: Mapping[str, int]) -> None:
        readers = self._own_readers()
        for name, count in clients.items():
            readers[name].admit(count)

    async def _drain_readers(self) -> None:
        """Wait until no reader waits for an answer any more: what a block of B has asked must not last into A."""
        await self._pause(DRAIN_S)
        while any(self._readers[name].asking for name in self._names()):
            self._check_readers()
            await self._pause(TICK_S)

    async def _settle(self) -> None:
        """Wait until the backlog does not become less any more: what waited before the first block is not of it."""
        least, since_s = waiting(self._pipelines), time.monotonic()
        deadline = since_s + self._patience_s
        while time.monotonic() - since_s < SETTLED_S:
            if time.monotonic() > deadline:
                self._note(f"{least:,} triggers of before still waited when block 1 began, and became fewer.")
                return
            await self._pause(TICK_S)
            if (now := waiting(self._pipelines)) < least:
                least, since_s = now, time.monotonic()

    @property
    def _patience_s(self) -> float:
        return max(DRAIN_LEAST_S, DRAIN_BLOCKS * self.settings.block_s)

    async def _drain_backlog(self, number: int) -> None:
        """Wait until no more waits than without readers: what a block leaves behind is not of the next one.

        Of a backlog that does not go away in `DRAIN_BLOCKS` blocks the next block says nothing, and is left out.
        """
        deadline = time.monotonic() + self._patience_s
        while waiting(self._pipelines) > self._quiet + 1:
            if time.monotonic() > deadline:
                self._is_drained = False
                self._note(
                    f"{waiting(self._pipelines):,} triggers still waited when block {number + 1} began, and"
                    f" {self._quiet:.3g} without readers: block {number + 1} is left out."
                )
                return
            await self._pause(TICK_S)
        self._is_drained = True

    def _check_readers(self) -> None:
        for name, status in self._statuses().items():
            self._note_problem(name, status.problem)

    def _statuses(self) -> dict[str, ReaderStatus]:
        """Of its own workloads, which all run."""
        statuses = {name: reader.status() for name, reader in self._own_readers().items()}
        for name, status in statuses.items():
            if status.state is ReaderState.FAILED:
                raise _Failed(f"workload {name} failed: {status.problem}")
        return statuses

    def _see_readers_run(self) -> None:
        """End what is under way where a process died: it is started again before the block is over."""
        try:
            self._statuses()
        except _Failed as error:
            self._failure = str(error)
            self._stop.set()

    def _note_problem(self, name: str, problem: str | None) -> None:
        if problem is not None and name not in self._noted:
            self._noted.add(name)
            self.notes.append(f"Some questions of {name} had no answer; the first time: {problem}.")

    def _own_readers(self) -> dict[str, Reader]:
        try:
            return {name: self._readers[name] for name in self._names()}
        except KeyError as gone:
            raise _gone(gone.args[0]) from None

    def _totals(self) -> dict[str, Totals]:
        return {name: reader.totals for name, reader in self._own_readers().items()}

    def _with_last_answers(self, block: Block) -> Block:
        """The whole of a block: with the answers that came after its end."""
        due = {name: reader.stretch_figures() for name, reader in self._own_readers().items()}
        workloads = {name: with_answers(found, due[name]) for name, found in block.workloads.items()}
        return block.model_copy(update={"workloads": workloads, "whole": True})

    # --- during the blocks --------------------------------------------------------------------------------------------

    async def _sample(self) -> None:
        """Put a sample into the timeline twice a second; of a very long experiment less often."""
        every_s = max(SAMPLE_S, seconds_of(self.settings) / MOST_SAMPLES)
        before, most = read_counters(self._pipelines), 0
        while True:
            await asyncio.sleep(TICK_S)
            now = waiting(self._pipelines)
            self._check_commits()
            self._see_readers_run()
            most, self._backlog = max(most, now), max(self._backlog, now)
            self._waited.append(now)
            if time.monotonic() - before.at_s < every_s - TICK_S / 2:
                continue
            after = read_counters(self._pipelines)
            self.timeline.append(self._sample_of(before, after, most))
            self._check_beside()
            before, most = after, 0

    def _check_commits(self) -> None:
        for pipeline in self._pipelines:
            problem = pipeline.figures().store_problem
            if problem is not None and not self._is_away_noted:
                self._is_away_noted = True
                block = f"the first time in block {self._number}"
                self._note(f"Commits of group {pipeline.group.name} failed and were tried again, {block}: {problem}.")

    def _check_beside(self) -> None:
        """Note what goes on beside the blocks, and when that changes: it is in some of them, and not in others."""
        before, self._beside = self._beside, self._ask_beside()
        ceilings, others = self._beside
        if before is None:
            if others:
                self._note(f"Other workloads ran at the start, in A and in B alike: {', '.join(sorted(others))}.")
            return
        if ceilings != before[0]:
            self._note(f"The governor was changed in block {self._number}: {ceilings or 'it is off'}.")
        for names, what in ((others - before[1], "began"), (before[1] - others, "ended")):
            if names:
                self._note(f"Other workloads {what} in block {self._number}: {', '.join(sorted(names))}.")

    def _sample_of(self, before: Counters, after: Counters, backlog: int) -> Sample:
        statuses = self._readers.statuses()
        return Sample(
            t_s=after.at_s - self._began_s,
            p99_ms=percentile_within(after.fine - before.fine, 99),
            rate=(after.triggers - before.triggers) / max(after.at_s - before.at_s, 1e-9),
            backlog=backlog,
            readers=sum(statuses[name].admitted for name in self._names() if name in statuses),
        )

    def _now(self) -> float:
        return time.monotonic() - self._began_s

    def _note(self, sentence: str) -> None:
        self.notes.append(sentence)


def _gone(name: str) -> _Failed:
    return _Failed(f"workload {name} was stopped; start the experiment again")
