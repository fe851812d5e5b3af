"""One reader workload as the daemon sees it: its process, and what it has reported."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hdrh.histogram import HdrHistogram

from backends.counting import HourRead
from daemon.workloads.frame.supervised import WorkloadProcess
from daemon.workloads.readers.admission import Admission
from daemon.workloads.readers.measuring import Lately, Totals, new_histogram
from daemon.workloads.readers.messages import ReadReport, Report, Spec, StretchReport
from schemas.api.status import Latency, ReaderStatus
from schemas.states import ReaderState

STOP_S = 3.0
"""How long a process may take to stop."""

SILENT_S = 30.0
"""A process that reports nothing for so long hangs; one that decodes a large answer is silent for seconds."""

STALE_S = 5.0
"""Rates and percentiles that are older are not shown as those of now."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a workload has measured of a stretch of time; all of it only grows.

    latency: of answers, from when they were due, in microseconds, corrected for coordinated omission; a copy.
    """

    totals: Totals = field(default_factory=Totals)
    latency: HdrHistogram = field(default_factory=new_histogram)

    def and_then(self, report: StretchReport) -> "Figures":
        """These, and what a process reports that began after them."""
        latency = new_histogram()  # a decoded one may have no room for more
        latency.add(self.latency)
        latency.add(HdrHistogram.decode(report.histogram.encode()))
        return Figures(totals=self.totals + report.totals, latency=latency)


class Reader:
    """Runs a workload's process until it is stopped.

    Args:
        log: where the process says what goes wrong.
        report: records what an operator has to act on.
        read: gets what answers have read, where the server does not count it.
        pause_s: before a process that died is started again the first time.
    """

    def __init__(
        self,
        spec: Spec,
        log: Path,
        report: Callable[[str], None],
        read: Callable[[Iterable[HourRead]], None],
        pause_s: float,
    ) -> None:
        self.workload = spec.workload
        self.wanted = spec.admission.clients
        self._limit: Admission | None = None
        self._spec = spec
        self._report_failure = report
        self._note_read = read
        self._pause_s = pause_s
        self._since_ns = time.time_ns()
        self._state = ReaderState.STARTING
        self._problem: str | None = None
        self._before = Totals()  # of processes that died
        self._stretch = 0  # the number of the last one
        self._is_measured = False
        self._stretch_before = Figures()  # of processes that died since it began
        self._report = Report()
        self._reported_s = 0.0
        kinds: list[type[Report | ReadReport]] = [Report, ReadReport]
        self._process = WorkloadProcess(
            "process", "daemon.workloads.readers", self._spec_now, log, kinds, silent_s=SILENT_S
        )
        self._running = asyncio.create_task(self._run(), name=f"reader {spec.workload.name}")

    def admit(self, clients: int) -> None:
        """Let so many clients ask from now on, at most all that there are; fewer where the governor holds them back."""
        self._change(min(max(clients, 0), self.workload.clients), self._limit)

    def limit(self, admission: Admission | None) -> None:
        """Let no more than this ask, whatever `admit` allows; None is no limit."""
        self._change(self.wanted, admission)

    def measure(self) -> None:
        """Measure the questions that are due from now on by themselves, until `end_measuring`."""
        before = self.admission
        self._stretch, self._is_measured, self._stretch_before = self._stretch + 1, True, Figures()
        self._say(before)

    def end_measuring(self) -> None:
        """Questions that are due from now on are not among those; the answers to them still are."""
        before = self.admission
        self._is_measured = False
        self._say(before)

    def _change(self, wanted: int, limit: Admission | None) -> None:
        before = self.admission
        self.wanted, self._limit = wanted, limit
        self._say(before)

    def _say(self, before: Admission) -> None:
        if self.admission != before:
            self._process.send(self.admission)

    @property
    def admission(self) -> Admission:
        """What may ask now."""
        limit = self._limit or Admission(clients=self.wanted)
        stretch = self._stretch if self._is_measured else 0
        return Admission(clients=min(self.wanted, limit.clients), share=limit.share, stretch=stretch)

    async def stop(self) -> None:
        """End the process for good, and wait until it is gone."""
        self._state = ReaderState.STOPPING
        self._process.stop()
        await asyncio.wait([self._running], timeout=STOP_S)
        self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()

    @property
    def totals(self) -> Totals:
        """What it has counted since it was started, as reported four times a second."""
        return self._before + self._report.totals

    def stretch_figures(self) -> Figures:
        """What it has measured of the questions that were due since `measure`, and before `end_measuring`."""
        found = self._report.stretch
        if found is None or found.number != self._stretch:
            return self._stretch_before
        return self._stretch_before.and_then(found)

    @property
    def asking(self) -> int:
        """Clients that waited for an answer when it reported last."""
        return self._report.asking

    def status(self) -> ReaderStatus:
        """How it is."""
        workload, report, totals = self.workload, self._report, self.totals
        lately = report.lately if time.monotonic() - self._reported_s < STALE_S else Lately()
        asked = totals.cycles + totals.failed
        return ReaderStatus(
            kind=workload.kind,
            group=self._spec.of.name,
            clients=workload.clients,
            admitted=self.admission.clients,
            asking=report.asking,
            share=self.admission.share,
            since_ns=self._since_ns,
            state=self._state,
            problem=self._problem or report.problem,
            **asdict(totals),
            rate=lately.rate,
            row_rate=lately.row_rate,
            efficiency=totals.in_time / asked if asked else None,
            latency_ms=Latency(p50=lately.p50_ms, p99=lately.p99_ms, max=lately.max_ms),
            deadline_ms=workload.deadline_s * 1e3,
        )

    async def _run(self) -> None:
        messages = self._process.supervised(self._failed, self._pause_s, retries_refusals=True)
        async with aclosing(messages):
            async for message in messages:
                if isinstance(message, ReadReport):
                    self._note_read(message.hours)
                    continue
                self._report, self._reported_s = message, time.monotonic()
                if self._state is not ReaderState.STOPPING:
                    self._state, self._problem = ReaderState.RUNNING, None

    def _failed(self, problem: str, pause_s: float) -> None:
        self._before, self._stretch_before = self.totals, self.stretch_figures()
        self._report = Report()
        self._state, self._problem = ReaderState.FAILED, problem
        name = self.workload.name
        self._report_failure(f"reader workload {name} failed: {problem}; it starts again in {pause_s:.2g} s")

    def _spec_now(self) -> Spec:
        return self._spec.model_copy(update={"admission": self.admission})
