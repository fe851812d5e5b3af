"""All processes of the server, as the one who runs them sees them: a daemon, or the command that serves by itself."""

import asyncio
import os
import signal
import socket
import time
from collections import Counter, defaultdict
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from backends.ending import end_tasks
from daemon.conditions.clients import RecentUses, Use, Uses
from daemon.conditions.messages import Report, ServerSpec, Told
from daemon.core.configuration import LoadedConfig, identity_of
from daemon.core.configuration.api_token import api_token
from daemon.core.monitoring.events import Events
from daemon.core.monitoring.metrics import Latencies, Rates
from daemon.core.outcome import CommandFailed, cannot_listen
from daemon.web.http import bound
from daemon.web.rates import Backoff
from daemon.workloads.frame.messages import Message
from daemon.workloads.frame.runner import PAUSE_MOST_S, PAUSE_S, WorkloadProcess
from schemas.api.conditions import ConditionsStatus
from schemas.checking.addresses import in_url
from schemas.checking.dsn import Feature, require
from schemas.states import ConditionsState

SILENT_S = 30.0
"""A process that reports nothing for so long hangs; one that takes a large tag into memory is silent for moments."""

STOP_S = 10.0
"""How long the processes may take to stop: answers that are under way go out first."""

NOT_MODIFIED = 304
VALID_ROUTE = "payloadiovs"


@dataclass
class _Process:
    """One process.

    report: its last one, None before the first and after it has died. failure: why it does not run.
    """

    of: WorkloadProcess[Message]
    report: Report | None = None
    failure: str | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class ConditionsServers:
    """Runs the processes of the server, and counts what they report.

    Args:
        loaded: the configuration.
        events: get what an operator should know.
        pause_s: before a process that died is started again the first time.

    Raises:
        ConfigError: the database has no conditions; or the certificate, its key or the token is not where it says, or
            cannot be used.
    """

    def __init__(self, loaded: LoadedConfig, events: Events, *, pause_s: float = PAUSE_S) -> None:
        require(loaded.config.database.backend, Feature.CONDITIONS)
        self._loaded = loaded
        self._config = loaded.config.conditions
        self._events = events
        self._pause_s = pause_s
        identity_of(loaded, self._config, "conditions")
        self._token = api_token(loaded)
        self._port = self._config.port
        self._reserved: socket.socket | None = None
        self._writes: int | None = None
        self._starting: asyncio.Task[None] | None = None
        self._processes: list[_Process] = []
        self._answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self._latencies, self._rates = Latencies(), Rates()
        self._uses = RecentUses()
        self._memory_hits = self._database_reads = 0
        self._state, self._since_ns = ConditionsState.STARTING, time.time_ns()
        self._problem: str | None = None

    @property
    def address(self) -> str:
        """Where they listen."""
        return f"{self._config.scheme}://{in_url(self._config.host)}:{self._port}"

    def start_when_free(self) -> None:
        """Start them all as soon as their address is free: those of a daemon that was killed may still have it."""
        self._starting = asyncio.create_task(self._start_when_free(), name="start conditions")

    def start(self) -> None:
        """Start them all.

        Raises:
            CommandFailed: the address is taken, or is none.
        """
        self._reserve()
        self._writes = os.memfd_create("conditions")
        os.truncate(self._writes, 8 * self._config.processes)
        for number in range(self._config.processes):
            log = self._loaded.state_dir / "conditions" / f"server-{number}.log"
            process = WorkloadProcess[Message](
                "server of conditions",
                "daemon.conditions",
                partial(self._spec, number),
                log,
                [Report, Told],
                silent_s=SILENT_S,
            )
            made = _Process(process)
            made.task = asyncio.create_task(self._run(made), name=f"conditions {number}")
            self._processes.append(made)

    async def end(self) -> None:
        """End them all, and wait until they are gone."""
        if self._starting is not None:
            await end_tasks(self._starting)
        for each in self._processes:
            each.of.stop()
        tasks = [each.task for each in self._processes if each.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._reserved is not None:
            self._reserved.close()
        if self._writes is not None:
            os.close(self._writes)

    def status(self) -> ConditionsStatus:
        """How they are."""
        now_ns = time.monotonic_ns()
        reports = [each.report for each in self._processes if each.report is not None]
        latency = self._latencies.latency(now_ns)
        (rate,) = self._rates.sample(now_ns, self._memory_hits + self._database_reads)
        return ConditionsStatus(
            state=self._state,
            address=self.address,
            problem=self._problem,
            since_ns=self._since_ns,
            processes=self._config.processes,
            running=len(reports),
            requests={route: {str(code): n for code, n in sorted(by.items())} for route, by in self._answers.items()},
            rate=rate,
            p50_ms=latency.p50,
            p99_ms=latency.p99,
            memory_hits=self._memory_hits,
            database_reads=self._database_reads,
            not_modified=self._answers[VALID_ROUTE][NOT_MODIFIED] if VALID_ROUTE in self._answers else 0,
            tags_in_memory=max((each.tags for each in reports), default=0),
            intervals_in_memory=max((each.intervals for each in reports), default=0),
            memory_mib=max((each.memory_bytes for each in reports), default=0) / 2**20,
            memory_limit_mib=self._config.memory_mib,
            clients=self._uses.told(),
        )

    def _reserve(self) -> None:
        """Take the port for as long as this runs, for its processes alone."""
        host = self._config.host
        try:
            # Another daemon of the same user would share the port, and half of its clients would ask this one.
            bound(host, self._port).close()
            self._reserved = bound(host, self._port, is_shared=True)
        except OSError as error:
            raise cannot_listen("conditions", host, self._port, error) from None
        self._port = self._reserved.getsockname()[1]

    async def _start_when_free(self) -> None:
        backoff = Backoff(self._pause_s, PAUSE_MOST_S)
        while True:
            try:
                self.start()
            except CommandFailed as error:
                if self._problem is None:
                    self._events.error(str(error))
                self._set(ConditionsState.FAILED, str(error))
                await backoff.pause()
            else:
                self._judge()
                return

    def _spec(self, number: int) -> ServerSpec:
        config, loaded = self._config, self._loaded
        return ServerSpec(
            parent=os.getpid(),
            database=loaded.config.database,
            password=loaded.password,
            state_dir=loaded.state_dir,
            conditions=config,
            port=self._port,
            writes=Path(f"/proc/{os.getpid()}/fd/{self._writes}"),
            number=number,
            token=self._token,
            tls_certificate=None if config.tls_certificate is None else loaded.resolve(config.tls_certificate),
            tls_key=None if config.tls_key is None else loaded.resolve(config.tls_key),
        )

    async def _run(self, process: _Process) -> None:
        def failed(problem: str, pause_s: float) -> None:
            process.report, process.failure = None, problem
            self._events.error(f"{problem}; it starts again in {pause_s:.2g} s")
            self._judge()

        # A schema that does not fit may be replaced while this runs.
        messages = process.of.supervised(failed, self._pause_s, retries_refusals=True)
        async with aclosing(messages):
            async for message in messages:
                if isinstance(message, Told):
                    self._note(message)
                elif isinstance(message, Report):
                    if not any(each.report for each in self._processes):  # none before listens
                        self._events.info(f"conditions are served at {self.address}")
                    process.report, process.failure = message, None
                    self._count(message)
                    self._judge()

    def _note(self, told: Told) -> None:
        (self._events.warning if told.is_warning else self._events.info)(f"conditions: {told.text}")

    def _count(self, report: Report) -> None:
        for route, by_status in report.answers.items():
            self._answers[route].update(by_status)
        self._memory_hits += report.memory_hits
        self._database_reads += report.database_reads
        named = {(address, agent): Use(*use) for address, agent, *use in report.clients}
        self._uses.add(Uses(by_client=named, others=Use(*report.others)))
        now_ns = time.monotonic_ns()
        for took_ms, count in report.latencies_ms.items():
            self._latencies.add(took_ms, count, now_ns)

    def _judge(self) -> None:
        failures = [each.failure for each in self._processes if each.failure]
        problems = [each.report.problem for each in self._processes if each.report and each.report.problem]
        state, problem = ConditionsState.STARTING, None
        if failures:
            state, problem = ConditionsState.FAILED, failures[0]
        elif problems:
            state, problem = ConditionsState.DATABASE_AWAY, problems[0]
        elif all(each.report for each in self._processes):
            state = ConditionsState.RUNNING
        self._set(state, problem)

    def _set(self, state: ConditionsState, problem: str | None) -> None:
        if state is not self._state:
            self._state, self._since_ns = state, time.time_ns()
        self._problem = problem


def conditions_servers(loaded: LoadedConfig, events: Events) -> ConditionsServers | None:
    """The server of a daemon; None where it runs none. Raises as `ConditionsServers`."""
    return ConditionsServers(loaded, events) if loaded.config.conditions.serve else None


# --- the server without a daemon -------------------------------------------------------------------------------------


async def serve_conditions(loaded: LoadedConfig) -> None:
    """Serve until SIGTERM or SIGINT; the log tells what an operator should know.

    Raises:
        ConfigError: as of `ConditionsServers`.
        CommandFailed: the address is taken, or is none.
    """
    events = Events()
    servers = ConditionsServers(loaded, events)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    servers.start()
    try:
        await stop.wait()
    finally:
        await servers.end()
