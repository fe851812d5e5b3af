"""One reader workload as the daemon sees it: its process, started again when it dies, and what it has reported."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from hdrh.histogram import HdrHistogram

from daemon.core.outcome import reason_of
from daemon.core.process.children import Child
from daemon.workloads.readers.governor.governor import Admission
from daemon.workloads.readers.measuring import Lately, new_histogram
from daemon.workloads.readers.messages import LONGEST_LINE, Report, Spec, read_report
from schemas.api.status import Latency, ReaderStatus

STOP_S = 3.0
"""How long a process that was told to stop may take."""

SILENT_S = 30.0
"""A process that reports nothing for so long hangs; one that decodes a large answer is silent for seconds."""

STALE_S = 5.0
"""Rates and percentiles that are older are not told as those of now."""

PAUSE_MOST_S = 60.0
"""The pause before a process is started again doubles up to this; one that has run for so long begins anew."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a workload has measured since it was started; all of it only grows.

    slipped_s: by how much late answers moved the questions after them, seconds in all.
    latency: of answers, from when they were due, in microseconds, corrected for coordinated omission; a copy.
    """

    cycles: int = 0
    in_time: int = 0
    failed: int = 0
    rows: int = 0
    slipped_s: float = 0.0
    latency: HdrHistogram = field(default_factory=new_histogram)

    def and_then(self, report: Report) -> "Figures":
        """These, and what a process reports that began after them."""
        latency = new_histogram()
        latency.add(self.latency)
        latency.add(report.latency())
        return Figures(
            cycles=self.cycles + report.cycles,
            in_time=self.in_time + report.in_time,
            failed=self.failed + report.failed,
            rows=self.rows + report.rows,
            slipped_s=self.slipped_s + report.slipped_s,
            latency=latency,
        )


class Reader:
    """Runs a workload's process until it is stopped.

    Args:
        log: where the process says what goes wrong.
        report: records what an operator has to act on.
        pause_s: before a process that died is started again the first time.
    """

    def __init__(self, spec: Spec, log: Path, report: Callable[[str], None], pause_s: float) -> None:
        self.workload = spec.workload
        self.wanted = spec.admitted
        self._held: Admission | None = None
        self._spec = spec
        self._log = log
        self._record_error = report
        self._pause_s = pause_s
        self._since_ns = time.time_ns()
        self._state = "starting"
        self._problem: str | None = None
        self._before = Figures()
        self._report = Report()
        self._reported_s = 0.0
        self._child: Child | None = None
        self._running = asyncio.create_task(self._run(), name=f"reader {spec.workload.name}")

    def admit(self, clients: int) -> None:
        """Let so many clients ask from now on, or fewer where the governor holds them back."""
        self._change(min(max(clients, 0), self.workload.clients), self._held)

    def hold(self, admission: Admission | None) -> None:
        """Let no more than this ask, whatever `admit` allows; None is no limit."""
        self._change(self.wanted, admission)

    def _change(self, wanted: int, held: Admission | None) -> None:
        before = self.admission
        self.wanted, self._held = wanted, held
        if self.admission != before:
            self._order({"admit": self.admission.clients, "share": self.admission.share})

    @property
    def admission(self) -> Admission:
        """What may ask now."""
        held = self._held or Admission(self.wanted, 1.0)
        return Admission(min(self.wanted, held.clients), held.share)

    async def stop(self) -> None:
        """End the process for good, and wait until it is gone."""
        self._state = "stopping"
        self._order({"stop": True})
        if self._child is not None:
            await asyncio.wait([self._running], timeout=STOP_S)
        self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.result()

    def figures(self) -> Figures:
        """What it has measured since it was started."""
        return self._before.and_then(self._report)

    @property
    def asking(self) -> int:
        """Clients that waited for an answer when it reported last."""
        return self._report.asking

    def status(self) -> ReaderStatus:
        """How it is."""
        workload, report, before = self.workload, self._report, self._before
        lately = report.lately if time.monotonic() - self._reported_s < STALE_S else Lately()
        cycles, failed = before.cycles + report.cycles, before.failed + report.failed
        in_time = before.in_time + report.in_time
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
            cycles=cycles,
            in_time=in_time,
            failed=failed,
            slipped_s=before.slipped_s + report.slipped_s,
            rows=before.rows + report.rows,
            rate=lately.rate,
            row_rate=lately.row_rate,
            efficiency=in_time / (cycles + failed) if cycles + failed else None,
            latency_ms=Latency(p50=lately.p50_ms, p99=lately.p99_ms, max=lately.max_ms),
            deadline_ms=workload.deadline_s * 1e3,
        )

    async def _run(self) -> None:
        pause_s = self._pause_s
        while True:
            began_s = time.monotonic()
            problem = await self._process()
            self._before, self._report = self.figures(), Report()
            if self._state == "stopping":
                return
            if time.monotonic() - began_s >= PAUSE_MOST_S:
                pause_s = self._pause_s
            self._state, self._problem = "failed", problem
            name = self.workload.name
            self._record_error(f"reader workload {name} failed: {problem}; it starts again in {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MOST_S)

    async def _process(self) -> str:
        """Run the process to its end; return how it ended, in one line."""
        command = [sys.executable, "-m", "daemon.workloads.readers"]
        try:
            if self._log.exists():  # of a process that died: why is in there
                self._log.replace(self._log.with_suffix(".log.1"))
            child = await Child.start("process", command, self._log, piped=LONGEST_LINE)
        except OSError as error:
            return f"its process cannot be started ({reason_of(error)})"
        self._child = child
        try:
            now = {"admitted": self.admission.clients, "share": self.admission.share}
            child.write_line(self._spec.model_copy(update=now).line())
            return await self._listen(child) or child.ending()
        finally:
            self._child = None
            await child.kill()

    async def _listen(self, child: Child) -> str | None:
        """Take its reports until it ends; return what was wrong when it has to be ended."""
        while True:
            try:
                async with asyncio.timeout(SILENT_S):
                    line = await child.read_line()
                    if not line:
                        await child.ended()
                        return None
                self._report = read_report(line)
            except TimeoutError:
                return f"its process has said nothing for {SILENT_S:g} s"
            except ValueError as error:
                return f"its process is not understood: {error}"
            self._reported_s = time.monotonic()
            if self._state != "stopping":
                self._state, self._problem = "running", None

    def _order(self, order: Mapping[str, float]) -> None:
        if self._child is not None:
            self._child.write_line(orjson.dumps(order) + b"\n")
