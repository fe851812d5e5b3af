"""The reader workloads of a daemon, each in a process of its own."""

import asyncio
import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hdrh.histogram import HdrHistogram

from backends.counting import HourRead, HourReads
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import layout_of, reading_from
from daemon.core.monitoring.events import Events
from daemon.core.outcome import VISITS_NEED, CommandFailed, require_extra
from daemon.workloads.frame.runner import PAUSE_S, WorkloadBusy, WorkloadProcess, WorkloadRefused
from daemon.workloads.readers.measuring import Lately, Totals, new_histogram
from daemon.workloads.readers.messages import Admission, GroupSpec, ReadReport, Report, Spec, StretchReport, VisitsSpec
from schemas.api.status import Latency, ReaderStatus
from schemas.checking.problems import listed, suggestion
from schemas.conditions.calibration import BUTTONS
from schemas.config import ConditionsConfig, GroupConfig, Workload, WorkloadKind
from schemas.config.workloads import MOST_IN_ALL, MOST_WORKLOADS, described
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


class Readers:
    """Starts reader workloads, and ends them.

    first: what of a new workload may ask before the governor has counted it; None while nobody governs. read: what all
    of them have read, where the server does not count it.
    """

    def __init__(self, loaded: LoadedConfig, events: Events, *, pause_s: float = PAUSE_S) -> None:
        self._loaded = loaded
        self._events = events
        self._pause_s = pause_s
        self._readers: dict[str, Reader] = {}
        self._ended = False
        self._conditions = loaded.config.conditions
        self.first: Admission | None = None
        self.read = HourReads()

    def change(self, conditions: ConditionsConfig) -> None:
        """Workloads that are started from now on calibrate by this."""
        self._conditions = conditions

    @property
    def workloads(self) -> Mapping[str, Workload]:
        """What runs, by name."""
        return {name: reader.workload for name, reader in self._readers.items()}

    async def start(self, workload: Workload, admitted: int | None = None) -> None:
        """Start a workload; it is `starting` until its process reports.

        admitted: clients that may ask from the start, all for None; with 0 the process stands ready and asks nothing.

        Raises:
            WorkloadRefused: it cannot be started.
        """
        of = self._read_by(workload)
        self._check_room(workload)
        clients = workload.clients if admitted is None else min(max(admitted, 0), workload.clients)
        spec = self._spec(workload, of, clients)
        log = self._loaded.state_dir / "readers" / f"{workload.name}.log"
        reader = self._readers[workload.name] = Reader(spec, log, self._events.error, self.read.add, self._pause_s)
        if self.first is not None:
            reader.limit(self.first)
        self._events.info(f"reader workload {workload.name} starts: {described(workload)}")

    async def stop(self, name: str) -> ReaderStatus:
        """End a workload, and return how it was at the end.

        Raises:
            KeyError: none of that name runs.
        """
        reader = self._readers[name]
        await reader.stop()
        if self._readers.pop(name, None) is not None:
            self._events.info(f"reader workload {name} was stopped")
        return reader.status()

    def __getitem__(self, name: str) -> Reader:
        """A workload that runs.

        Raises:
            KeyError: none of that name runs.
        """
        return self._readers[name]

    def wanting(self) -> dict[str, int]:
        """Clients that may ask as far as `admit` goes, by workload; those of which none may are left out."""
        return {name: reader.wanted for name, reader in self._readers.items() if reader.wanted}

    def statuses(self) -> dict[str, ReaderStatus]:
        """How they are, by name."""
        return {name: reader.status() for name, reader in self._readers.items()}

    async def end(self) -> None:
        """End them all, for good."""
        self._ended = True
        await asyncio.gather(*(reader.stop() for reader in self._readers.values()))
        self._readers.clear()

    def _read_by(self, workload: Workload) -> GroupSpec | VisitsSpec:
        """What a workload reads."""
        config = self._loaded.config
        if workload.kind.is_of_visits:
            try:
                require_extra("visits", "a workload of visits", VISITS_NEED)
            except CommandFailed as error:
                raise WorkloadRefused(str(error), field="kind") from None
            return VisitsSpec(visits=config.visits)
        group = self._group_of(workload)
        if workload.kind is WorkloadKind.ORBIT:
            self._check_calibrated(group)
        return GroupSpec(
            group=group,
            layout=layout_of(group, config),
            conditions=self._conditions,
            folder=self._loaded.path.parent,
        )

    def _check_calibrated(self, group: GroupConfig) -> None:
        if group.calibrated_as is None:
            fix = f"name a group with the channels {listed(BUTTONS)}"
            raise WorkloadRefused(f"group {group.name} gives no four buttons", fix, "group")
        if self._conditions.tag is None:
            fix = "set `tag` in [conditions] of the configuration"
            raise WorkloadRefused("there is no global tag to calibrate by", fix, "kind")

    def _group_of(self, workload: Workload) -> GroupConfig:
        sections = {section.name: section for section in self._loaded.config.trigger_groups}
        if not sections:
            raise WorkloadRefused("no group has triggers to read", "add a group without `folder`", "group")
        if workload.group is None:
            return next(iter(sections.values()))
        if workload.group not in sections:
            fix = suggestion(workload.group, sections)
            raise WorkloadRefused(f"there is no group {workload.group!r}", fix, "group")
        return sections[workload.group]

    def _check_room(self, workload: Workload) -> None:
        if self._ended:
            raise WorkloadRefused("the daemon is stopping", "start it again first")
        if workload.name in self._readers:
            raise WorkloadBusy(
                f"workload {workload.name!r} runs already", "stop it first, or give another name", "name"
            )
        if len(self._readers) >= MOST_WORKLOADS:
            raise WorkloadRefused(f"{MOST_WORKLOADS} workloads run, and no more may", "stop one first")
        others = sum(reader.workload.clients for reader in self._readers.values())
        if others + workload.clients > MOST_IN_ALL:
            raise WorkloadRefused(
                f"{workload.clients} and the {others} of other workloads are more than {MOST_IN_ALL} in all",
                f"give at most {MOST_IN_ALL - others}, or stop another workload first",
                "clients",
            )

    def _spec(self, workload: Workload, of: GroupSpec | VisitsSpec, admitted: int) -> Spec:
        config = self._loaded.config
        database, password = reading_from(self._loaded)
        return Spec(
            parent=os.getpid(),
            workload=workload,
            of=of,
            logger=config.logger,
            database=database,
            password=password,
            state_dir=self._loaded.state_dir,
            give_up_s=config.readers.give_up_s,
            admission=Admission(clients=admitted),
            seed=zlib.crc32(workload.name.encode()),
        )
