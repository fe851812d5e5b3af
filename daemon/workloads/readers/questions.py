"""Questions that a client of each kind of workload asks in one cycle."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sized
from typing import Generic, TypeVar

import numpy as np

from backends.base import Store
from daemon.calibration.current import Calibrations
from schemas.config.workloads import Workload, WorkloadKind
from schemas.ledger import ledger_dtype
from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    LedgerRow,
    LedgerTail,
    Means,
    NewestTrigger,
    Query,
    Snapshot,
    TriggersReadings,
    WindowReadings,
)
from schemas.readings import Array, InstrumentGroup

T = TypeVar("T", bound=Sized)


class BackgroundRefresh(Generic[T]):
    """A value as it was found `old_s` ago or less; `nothing` before the first time, and while nothing is stored.

    To find it is no part of a client's question, so a task does it once for all clients. A client waits for it only
    while there is no value.
    """

    def __init__(self, find: Callable[[], Awaitable[T]], nothing: T, old_s: float) -> None:
        self._find = find
        self._value = nothing
        self._old_s = old_s
        self._at_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def now(self) -> T:
        """The value, of length 0 where nothing is stored.

        Raises:
            StoreError: as `find`.
        """
        is_old = time.monotonic() - self._at_s > self._old_s
        if self._task is None and (is_old or not len(self._value)):
            self._task = asyncio.create_task(self._refresh())
            self._task.add_done_callback(self._refreshed)
        if self._task is not None and not len(self._value):
            await asyncio.shield(self._task)
        return self._value

    async def _refresh(self) -> None:
        self._value, self._at_s = await self._find(), time.monotonic()

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            # A client that waited got the error; the others meet it with their own question.
            task.exception()


VALID_S = 300.0
"""How far a snapshot looks back for an instrument's value: 300 s is the interval of validity in the paper (COOL)."""

OLD_S = 1.0
"""When the ends are asked for again: what was written within the last second need not be hit."""


class Questions:
    """The questions of one workload about a group: each client's next one, asked of a store.

    Args:
        seed: of what is drawn at random; the same clients with the same seed draw the same numbers.
        calibrations: of the group; None for kinds that calibrate nothing.
    """

    def __init__(
        self,
        workload: Workload,
        group: InstrumentGroup,
        store: Store,
        seed: int,
        calibrations: Calibrations | None = None,
    ) -> None:
        self._workload = workload
        self._group = group
        self._store = store
        self._calibrations = calibrations
        self._random = [np.random.default_rng([seed, client]) for client in range(workload.clients)]
        self._instrument = [client % group.size for client in range(workload.clients)]
        # The first and the newest ledger row of the newest run: between which triggers is drawn.
        nothing: Array = np.empty(0, ledger_dtype(group.size))
        self._ends = BackgroundRefresh(lambda: store.ask(LedgerEnds(group=group)), nothing, OLD_S)
        kinds: Mapping[WorkloadKind, Callable[[int], Awaitable[int]]] = {
            WorkloadKind.NEWEST: self._newest,
            WorkloadKind.ORBIT: self._orbit,
            WorkloadKind.TREND: self._trend,
            WorkloadKind.HISTORY: self._history,
            WorkloadKind.SNAPSHOT: self._snapshot,
            WorkloadKind.WINDOW: self._window,
            WorkloadKind.SCAN: self._scan,
            WorkloadKind.RANDOM: self._triggers,
        }
        self._ask = kinds[workload.kind]

    async def ask(self, client: int) -> int:
        """Ask the next question of a client (a number from 0); return the rows of its answer, 0 when nothing is stored.

        Raises:
            StoreError: as `Store.ask`.
            NotCalibrated: there is no calibration, or it cannot be used.
        """
        return await self._ask(client)

    async def _newest(self, _: int) -> int:
        return await self._rows(NewestTrigger(group=self._group))

    async def _orbit(self, _client: int) -> int:
        assert self._calibrations is not None
        readings = await self._store.ask(NewestTrigger(group=self._group))
        _, calibrated = await self._calibrations.calibrate(self._group.name, readings)
        return len(calibrated)

    async def _trend(self, client: int) -> int:
        tail = await self._store.ask(LedgerTail(group=self._group, most=1))
        if not len(tail):
            return 0
        instrument = self._instrument[client]
        self._instrument[client] = (instrument + 1) % self._group.size
        return await self._rows(
            InstrumentReadings(
                group=self._group,
                instrument=instrument,
                start_ns=await self._since(tail[0]),
                end_ns=int(tail[0]["last_ns"]) + 1,
                most=self._workload.readings,
            )
        )

    async def _since(self, newest: Array) -> int:
        """When the readings begin that `trend` asks for: no store could look for them from the start of time."""
        run, trigger = int(newest["run"]), int(newest["trigger"])
        wanted = trigger - self._workload.readings + 1
        found = await self._store.ask(LedgerRow(group=self._group, run=run, trigger=wanted))
        if not len(found):  # the run is shorter, or this number was never sent
            found = await self._store.ask(LedgerEnds(group=self._group))
        newest_ns = int(newest["first_ns"])
        return min(newest_ns, int(found[0]["first_ns"])) if len(found) else newest_ns

    async def _history(self, _: int) -> int:
        tail = await self._store.ask(LedgerTail(group=self._group, most=1))
        if not len(tail):
            return 0
        end_ns, step_ns = int(tail[0]["last_ns"]) + 1, _ns(self._workload.step_s)
        start_ns = end_ns - _ns(self._workload.span_s)
        return await self._rows(Means(group=self._group, start_ns=start_ns, end_ns=end_ns, step_ns=step_ns))

    async def _snapshot(self, client: int) -> int:
        ends = await self._ends.now()
        if not len(ends):
            return 0
        newest_ns = int(ends[-1]["time_ns"])
        # The first trigger of the run may have the later time, of instruments whose clocks were wrong.
        first_ns = min(newest_ns, max(int(ends[0]["time_ns"]), newest_ns - _ns(self._workload.span_s)))
        at_ns = int(self._random[client].integers(first_ns, newest_ns, endpoint=True))
        return await self._rows(Snapshot(group=self._group, at_ns=at_ns, within_ns=_ns(VALID_S)))

    async def _window(self, client: int) -> int:
        ends = await self._ends.now()
        if not len(ends):
            return 0
        stretch_ns, first_ns = _ns(self._workload.span_s), int(ends[0]["first_ns"])
        last_start_ns = max(first_ns, int(ends[-1]["last_ns"]) + 1 - stretch_ns)
        start_ns = int(self._random[client].integers(first_ns, last_start_ns, endpoint=True))
        return await self._rows(WindowReadings(group=self._group, start_ns=start_ns, end_ns=start_ns + stretch_ns))

    async def _scan(self, _: int) -> int:
        return await self._rows(Aggregate(group=self._group))

    async def _triggers(self, client: int) -> int:
        ends = await self._ends.now()
        if not len(ends):
            return 0
        first, count = int(ends[0]["trigger"]), int(ends[-1]["trigger"]) - int(ends[0]["trigger"]) + 1
        drawn = self._random[client].choice(count, min(count, self._workload.triggers), replace=False, shuffle=False)
        triggers = tuple((np.sort(drawn) + first).tolist())
        return await self._rows(TriggersReadings(group=self._group, run=int(ends[0]["run"]), triggers=triggers))

    async def _rows(self, query: Query) -> int:
        return len(await self._store.ask(query))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
