"""The reader workloads of a daemon, each in a process of its own."""

import asyncio
import os
import zlib
from collections.abc import Mapping

from backends.counting import HourReads
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import layout_of, reading_from
from daemon.core.monitoring.events import Events
from daemon.core.outcome import VISITS_NEED, CommandFailed, require_extra
from daemon.workloads.frame.runner import WorkloadBusy, WorkloadRefused
from daemon.workloads.frame.supervised import PAUSE_S
from daemon.workloads.readers.admission import Admission
from daemon.workloads.readers.messages import GroupSpec, Spec, VisitsSpec
from daemon.workloads.readers.reader import Reader
from schemas.api.status import ReaderStatus
from schemas.checking.problems import listed, suggestion
from schemas.conditions.calibration import BUTTONS
from schemas.config import ConditionsConfig, GroupConfig, Workload, WorkloadKind
from schemas.config.workloads import MOST_IN_ALL, MOST_WORKLOADS, described


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
