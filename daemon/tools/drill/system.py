"""The system of a drill: a configuration, a daemon, its load, and afterwards the count of every reading."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from backends import drop_schema, open_store
from backends.base import Store, StoreError
from backends.throwaway.base import ThrowawayServer, free_port
from daemon.core.configuration import load_config
from daemon.core.configuration.database import layout_of
from daemon.tools.drill.load import HOST, Load, Stream
from daemon.tools.drill.machine import DaemonProcess, Machine, until
from schemas.ledger import unpack_missing
from schemas.queries import LedgerRows, LedgerTail, WindowReadings
from schemas.readings import Array

T = TypeVar("T")

LOGGER = "drill"
SETTLED_S = 120.0
"""How long no reading may be acknowledged while some are awaited; no measurement."""
COUNT_TIMEOUT_S = 600.0
LAST_LINES = 40
"""So much of a log is shown when a drill fails."""

SETTINGS: dict[str, dict[str, Any]] = {
    "database": {},
    "dashboard": {"port": 0},
}


WINDOW = 20_000
"""Events asked for at once."""
ROWS = 1000
"""Ledger rows asked for at once."""
BEGIN_NS, END_NS = -(2**63) + 1, 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Count:
    """What was found.

    found: distinct readings that were sent. lost: acknowledged, and not found. doubled: found more than once.
    altered: found with another time or value than was sent. strange: found, and never sent.
    misplaced: found in another run than most readings of their run, or in one with those of another.
    unledgered: events whose ledger row is not there once, or tells of other readings than there are; and rows of none.
    """

    found: int
    lost: int
    doubled: int
    altered: int
    strange: int
    misplaced: int
    unledgered: int

    @property
    def faults(self) -> dict[str, int]:
        """The counts that should be 0 and are not, by name."""
        return {name: count for name, count in asdict(self).items() if name != "found" and count}


class Tally:
    """Compares readings found with those sent and acknowledged; both bool, shape (events, instruments)."""

    def __init__(self, machine: Machine, sent: Array, acknowledged: Array) -> None:
        self._machine = machine
        self._sent = sent
        self._acknowledged = acknowledged
        self._seen = np.zeros(sent.shape, np.int32)
        self._altered = 0
        self._strange = 0
        self._in_run: dict[tuple[int, int], int] = {}
        """Readings by the store's number of their run, and the machine's."""

    def add(self, found: Array) -> None:
        """Count readings: answer dtype of the group, shape (readings,)."""
        events = self._events(found)
        known = (events >= 1) & (events <= len(self._seen))
        known &= (found["instrument"] >= 0) & (found["instrument"] < self._machine.instruments)
        self._strange += int(len(found) - known.sum())
        found, events = found[known], events[known]
        self._altered += int(len(found) - self._machine.matches(events, found).sum())
        np.add.at(self._seen, (events - 1, found["instrument"]), 1)
        pairs = np.stack([found["run"], self._machine.runs.of(events)], axis=1)
        for (run, real), count in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
            self._in_run[int(run), int(real)] = self._in_run.get((int(run), int(real)), 0) + int(count)

    @property
    def runs(self) -> list[int]:
        """The store's numbers of the runs that readings were found of, ascending."""
        return sorted({run for run, _ in self._in_run})

    def count(self, ledger: Array) -> Count:
        """Give the result. ledger: ledger dtype, shape (rows,)."""
        seen = self._seen > 0
        return Count(
            found=int((seen & self._sent).sum()),
            lost=int((self._acknowledged & ~seen).sum()),
            doubled=int((self._seen > 1).sum()),
            altered=self._altered,
            strange=self._strange + int((seen & ~self._sent).sum()),
            misplaced=self._misplaced(),
            unledgered=self._unledgered(ledger),
        )

    def _events(self, found: Array) -> Array:
        """The event of each reading: that of its value, or, where its trigger is another, that of its run."""
        runs = self._machine.runs
        events = self._machine.events(found)
        told = np.where(events > 0, events, 1)
        right = (events > 0) & (runs.trigger(told) == found["trigger"])
        for run in np.unique(found["run"][~right]).tolist():
            of_run = right & (found["run"] == run)
            real = int(np.bincount(runs.of(events[of_run])).argmax()) if of_run.any() else 0
            wrong = ~right & (found["run"] == run)
            events[wrong] = runs.firsts[real] + found["trigger"][wrong] - 1
        return events

    def _real(self) -> dict[int, int]:
        """The machine's run that most readings of each of the store's runs are of."""
        ordered = sorted(self._in_run.items(), key=lambda item: item[1])
        return {run: real for (run, real), _ in ordered}

    def _misplaced(self) -> int:
        """Readings beyond one run of the store for each of the machine's, and the other way around."""
        real, most = self._real(), dict[int, int]()
        for (run, of), count in self._in_run.items():
            if real[run] == of:
                most[of] = max(most.get(of, 0), count)
        return sum(self._in_run.values()) - sum(most.values())

    def _unledgered(self, ledger: Array) -> int:
        real = self._real()
        # Where a store has no readings of a run, its rows are of none; without any restart there is but one.
        runs = self._machine.runs
        alone = 0 if len(runs.firsts) == 1 else -1
        of = np.array([real.get(run, alone) for run in ledger["run"].tolist()], np.int64)
        events = np.where(of >= 0, runs.firsts[of] + ledger["trigger"] - 1, 0)
        known = (events >= 1) & (events <= len(self._seen)) & (runs.of(events) == of)
        ledger, events = ledger[known], events[known]
        here = self._seen > 0
        rows = np.bincount(events - 1, minlength=len(here))
        wrong = rows != here.any(axis=1)
        told = ~unpack_missing(ledger["missing"], self._machine.instruments)
        differs = (told != here[events - 1]).any(axis=1) | (ledger["arrived"] != here[events - 1].sum(axis=1))
        wrong[events[differs] - 1] = True
        return int(wrong.sum() + (~known).sum())


async def count_in(store: Store, machine: Machine, sent: Array, acknowledged: Array) -> Count:
    """Count what an open store holds of a machine's readings."""
    tally = Tally(machine, sent, acknowledged)
    for start_ns, end_ns in windows(machine, len(sent)):
        tally.add(await store.ask(WindowReadings(group=machine.group, start_ns=start_ns, end_ns=end_ns)))
    return tally.count(await _ledger(store, machine, tally.runs, len(sent)))


async def _ledger(store: Store, machine: Machine, runs: Sequence[int], events: int) -> Array:
    """The ledger rows of all triggers that may have been sent, and those of the newest run that none can be of."""
    tail = await store.ask(LedgerTail(group=machine.group, most=2 * events + 1))
    rows = [tail[(tail["trigger"] < 1) | (tail["trigger"] > events)]]
    for run in runs:
        for first in range(1, events + 1, ROWS):
            triggers = tuple(range(first, min(first + ROWS, events + 1)))
            rows.append(await store.ask(LedgerRows(group=machine.group, run=run, triggers=triggers)))
    return np.concatenate(rows)


def windows(machine: Machine, events: int) -> Iterator[tuple[int, int]]:
    """All of time in windows of about WINDOW events, as clocks may be anywhere."""
    bounds = [machine.start_ns + round(first * 1e9 / machine.rate) for first in range(WINDOW, events, WINDOW)]
    yield from zip([BEGIN_NS, *bounds], [*bounds, END_NS], strict=True)


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How long it took, in seconds, after the database or the daemon was back.

    first_s: until a reading was acknowledged as committed. drained_s: until all that was sent before was.
    """

    first_s: float
    drained_s: float


@dataclass(kw_only=True)
class Target:
    """Where a drill's daemon writes.

    settings: section [database] of its configuration, without the schema.
    server: None for a database that others may use.
    """

    settings: dict[str, Any]
    server: ThrowawayServer | None = None


class DrillSystem:
    """A daemon under load, and its database.

    recoveries: one for each recovery of the database or the daemon. notes: further remarks. random: chooses the times
    of failures.
    """

    def __init__(
        self,
        target: Target,
        machine: Machine,
        folder: Path,
        *,
        schema: str,
        settings: Mapping[str, Any],
        seed: int,
        daemon: type[DaemonProcess],
    ) -> None:
        self.target = target
        self.machine = machine
        self.load = Load(machine)
        self.port = free_port()
        self.api_port = free_port()
        self.recoveries: list[Recovery] = []
        self.notes: list[str] = []
        self.random = random.Random(seed)  # noqa: S311 - for moments, not for secrets
        self._events = folder / "state" / "events.jsonl"
        self._file = folder / "drill.toml"
        self._file.touch(0o600)  # there may be a password in the DSN
        self._file.write_text(_configuration(self, folder / "state", schema, settings), encoding="utf-8")
        self.daemon = daemon(self._file, folder, api_port=self.api_port)

    @property
    def server(self) -> ThrowawayServer:
        """The throw-away server; only for drills with `needs_server`."""
        assert self.target.server is not None
        return self.target.server

    async def until(
        self, condition: Callable[[], T | None], what: str, *, progress: Callable[[], object] = lambda: None
    ) -> T:
        """Wait until something holds, with the senders at work.

        Raises:
            DrillFailed: it did not hold for `SETTLED_S`, counted from the last change of `progress` on, or the daemon
                has ended.
            SenderError, ProtocolError: a sender gave up.
        """

        def looked() -> T | None:
            self.load.check()
            self.daemon.check()
            return condition()

        return await until(looked, what, SETTLED_S, progress=progress)

    async def under_load(self, least_s: float, most_s: float | None = None) -> None:
        """Let the load run for a while, for a random one between two limits."""
        await asyncio.sleep(self.random.uniform(least_s, most_s or least_s))
        self.load.check()

    async def recover(self) -> None:
        """Measure the recovery, from now on."""
        began = time.monotonic()
        marks = [(stream, stream.acknowledged, stream.sent) for stream in self.load.committing]

        def behind() -> list[tuple[Stream, int]]:
            return [(each, each.acknowledged) for each, _, sent in marks if each.acknowledged < sent]

        await self.until(lambda: any(each.acknowledged > done for each, done, _ in marks), "a reading is committed")
        first_s = time.monotonic() - began
        await self.until(lambda: not behind(), "all is committed", progress=behind)
        self.recoveries.append(Recovery(first_s=first_s, drained_s=time.monotonic() - began))

    async def kill_daemon(self) -> None:
        """Kill the daemon, start it again, and measure from when it takes readings."""
        await self.daemon.kill()
        await self.daemon.start()
        await self.recover()

    async def kill_server(self) -> None:
        """Kill the database server, start it again, and measure from when it takes connections."""
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.start)
        await self.recover()

    async def finish(self) -> Count:
        """Wait until everything is acknowledged, stop the daemon, and count in the database.

        Raises:
            DrillFailed: the daemon did not end well.
            SenderError, ProtocolError: a sender gave up, or not all was acknowledged.
            StoreError: the database does not answer.
        """
        await self.load.finish(SETTLED_S)
        await self.daemon.stop()
        return await self.count()

    async def count(self) -> Count:
        """Count in the database."""
        loaded = load_config(self._file)
        (section,) = loaded.config.groups
        store = open_store(
            loaded.config.database.model_copy(update={"command_timeout_s": COUNT_TIMEOUT_S}),
            logger=LOGGER,
            groups={section.name: section.group()},
            layouts={section.name: layout_of(section, loaded.config)},
            state_dir=loaded.state_dir,
            password=loaded.password,
        )
        try:
            await store.open()
            sent, acknowledged = self.load.marked(acknowledged=False), self.load.marked(acknowledged=True)
            return await count_in(store, self.machine, sent, acknowledged)
        finally:
            await store.close()

    def situation(self) -> str:
        """Return what the daemon logged last, its last events, and how far each sender is."""
        events = self._events.read_text(encoding="utf-8") if self._events.exists() else ""
        parts = {
            f"log of the daemon that was started as number {self.daemon.starts}": self.daemon.said.splitlines(),
            "events": events.splitlines(),
            "senders": [stream.situation for stream in self.load.streams],
        }
        return "\n".join("\n".join([f"--- {name}:", *lines[-LAST_LINES:]]) for name, lines in parts.items())

    async def remove(self) -> None:
        """Remove the schema of the drill from a database that others use; note it where that fails."""
        loaded = load_config(self._file)
        try:
            await drop_schema(loaded.config.database, loaded.password)
        except StoreError as error:
            self.notes.append(f"schema {loaded.config.database.schema_name} could not be removed: {error}")


@asynccontextmanager
async def running_system(
    target: Target,
    machine: Machine,
    folder: Path,
    *,
    schema: str,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    daemon: type[DaemonProcess] = DaemonProcess,
) -> AsyncIterator[DrillSystem]:
    """Set up a system: the daemon runs and the senders send. No process stays.

    What is raised meanwhile has a note of the situation.

    Args:
        target: its server, if it has one, runs.
        machine: what is sent.
        folder: for the configuration, the daemon's state, and its logs.
        schema: one of the drill's own.
        settings: of the configuration, by section and key, over those of SETTINGS.
        seed: of the system's random moments.
        daemon: how its daemon is started and killed.
    """
    system = DrillSystem(target, machine, folder, schema=schema, settings=settings or {}, seed=seed, daemon=daemon)
    try:
        await system.daemon.start()
        await system.load.start(system.port)
        yield system
    except Exception as error:
        error.add_note(system.situation())
        raise
    finally:
        await system.load.close()
        await system.daemon.close()


def _configuration(system: DrillSystem, state: Path, schema: str, settings: Mapping[str, Any]) -> str:
    names = [*SETTINGS, *(name for name in settings if name not in SETTINGS)]
    sections = {name: {**SETTINGS.get(name, {}), **settings.get(name, {})} for name in names}
    sections["database"] = {**sections["database"], **system.target.settings, "schema": schema}
    sections["api"] = {"port": system.api_port}
    group = system.machine.section
    lines = [
        f"logger = {_toml(LOGGER)}",
        f"state_dir = {_toml(str(state))}",
        "[[groups]]",
        *(f"{key} = {_toml(value)}" for key, value in group.items()),
        "[[sources]]",
        'kind = "tcp"',
        f"host = {_toml(HOST)}",
        f"port = {system.port}",
    ]
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # Texts, numbers and truth look in TOML as in JSON; of what JSON escapes TOML knows all.
    return json.dumps(value, ensure_ascii=False)
