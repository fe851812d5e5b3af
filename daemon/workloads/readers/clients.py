"""The clients of one workload: tasks that ask, each at its own pace, as long as they are admitted."""

import asyncio
import contextlib
import logging
import math
from dataclasses import dataclass
from typing import Protocol

from backends.base import StoreError
from daemon.calibration.payloads import NotCalibrated
from daemon.workloads.readers.measuring import Measured, Totals
from daemon.workloads.readers.messages import Admission, Report, StretchReport
from schemas.config import Workload

FAILED_PAUSE_S = 0.5
"""A client whose question failed waits at least this long: a database that is away is not asked in a busy loop."""


class Pace:
    """The pace of one client, in seconds of one clock.

    A client that has no answer yet when its next question is due asks again as soon as it has, and all its later
    questions move by that lateness, as in the paper on snapshot readers (COOL for Atlas): never does it catch up by
    asking more often than once in a period.

    While it is held back to a share of its time, the time from one question to the next is so much longer.

    Args:
        first_s: when it asks first.
        period_s: time between the starts of two questions; 0 asks again as soon as the answer is there, and knows no
            lateness.
    """

    def __init__(self, first_s: float, period_s: float) -> None:
        self.due_s = first_s
        self._asked_s = self._free_s = first_s
        self._period_s = period_s

    def answered(self, now_s: float, share: float = 1.0) -> float:
        """Settle when it is due next after an answer; return by how much its questions slip, in seconds."""
        due_s = self.due_s + self._period_s
        self._settle(max(due_s, now_s), share)
        return self._free_s - due_s if self._period_s else 0.0

    def failed(self, now_s: float, share: float = 1.0) -> None:
        """Settle when it is due next after a question without an answer."""
        self._settle(now_s + max(self._period_s, FAILED_PAUSE_S), share)

    def shared(self, share: float) -> None:
        """Settle again when it is due next, for another share of its time (above 0, up to 1)."""
        self.due_s = self._asked_s + (self._free_s - self._asked_s) / share

    def _settle(self, free_s: float, share: float) -> None:
        """free_s: when it would be due if nobody held it back."""
        self._asked_s, self._free_s = self.due_s, free_s
        self.shared(share)

    def admitted(self, now_s: float) -> None:
        """Settle when it is due next after it was held back: in step with the others, and without what it missed."""
        missed_s = now_s - self.due_s
        if missed_s <= 0:
            return
        periods = math.ceil(missed_s / self._period_s) if self._period_s else 0
        self.due_s = self._asked_s = self._free_s = max(now_s, self.due_s + periods * self._period_s)


log = logging.getLogger(__name__)


class QuestionsOfClients(Protocol):
    """What clients ask: `daemon.workloads.readers.questions`, `daemon.workloads.readers.visit_questions`."""

    async def ask(self, client: int) -> int:
        """Ask the next question of a client; return the rows of its answer.

        Raises:
            StoreError, NotCalibrated: there is no answer.
        """


@dataclass(kw_only=True)
class Stretch:
    """The questions that were due in a stretch of time, whenever their answers came.

    number: as in `Admission`. since_s: when it began. asking: questions of it that have no answer yet.
    """

    number: int
    since_s: float
    measured: Measured
    asking: int = 0


class Clients:
    """Asks until it is cancelled.

    Args:
        admission: what may ask from the start; the first clients do.
    """

    def __init__(self, workload: Workload, questions: QuestionsOfClients, admission: Admission) -> None:
        self._workload = workload
        self._questions = questions
        self._may_ask = [asyncio.Event() for _ in range(workload.clients)]
        self.measured = self._new_measured()
        self.stretch = Stretch(number=0, since_s=0.0, measured=self._new_measured())
        self._is_measured = False
        self.asking = 0
        self._changed = asyncio.Event()
        self.admit(admission)

    def admit(self, admission: Admission) -> None:
        """Let these ask from now on; a question that is asked is finished."""
        self._share = admission.share
        self._is_measured = admission.stretch != 0
        if self._is_measured and admission.stretch != self.stretch.number:
            now_s = asyncio.get_running_loop().time()
            self.stretch = Stretch(number=admission.stretch, since_s=now_s, measured=self._new_measured())
        # Whoever waits for its turn computes again when that is.
        self._changed.set()
        self._changed = asyncio.Event()
        for client, may_ask in enumerate(self._may_ask):
            if client < admission.clients:
                may_ask.set()
            else:
                may_ask.clear()

    async def run(self) -> None:
        """Ask until cancelled."""
        began_s = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            for client in range(self._workload.clients):
                pace = Pace(began_s + client * self._workload.offset_s, self._workload.period_s)
                tasks.create_task(self._client(client, pace), name=f"client {client}")

    async def _client(self, client: int, pace: Pace) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            if not self._may_ask[client].is_set():
                await self._may_ask[client].wait()
                pace.shared(self._share)
                pace.admitted(clock())
            await self._turn(client, pace)
            if self._may_ask[client].is_set():
                await self._cycle(client, pace)

    async def _turn(self, client: int, pace: Pace) -> None:
        """Wait until it is due, or must not ask any more."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(0)
        while self._may_ask[client].is_set() and (left_s := pace.due_s - clock()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
                pace.shared(self._share)

    async def _cycle(self, client: int, pace: Pace) -> None:
        """Ask once; what it takes counts from when the client was due, not from when it came to ask."""
        clock, due_s = asyncio.get_running_loop().time, pace.due_s
        stretch = self.stretch if self._is_measured and due_s >= self.stretch.since_s else None
        counted = [self.measured] if stretch is None else [self.measured, stretch.measured]
        self._note_asking(stretch, 1)
        try:
            rows = await self._questions.ask(client)
        except (StoreError, NotCalibrated) as error:
            news = [each.unanswered(str(error), clock()) for each in counted]
            if news[0]:
                log.warning("%s", error)
            pace.failed(clock(), self._share)
        else:
            now_s = clock()
            slipped_s = pace.answered(now_s, self._share)
            for each in counted:
                each.answered(now_s - due_s, rows, slipped_s)
        finally:
            self._note_asking(stretch, -1)

    def _note_asking(self, stretch: Stretch | None, more: int) -> None:
        self.asking += more
        if stretch is not None:
            stretch.asking += more

    def _new_measured(self) -> Measured:
        workload, now_s = self._workload, asyncio.get_running_loop().time()
        return Measured(deadline_s=workload.deadline_s, period_s=workload.period_s, now_s=now_s)


def report_of(clients: Clients, now_s: float) -> Report:
    """Put a report together."""
    measured, stretch = clients.measured, clients.stretch
    return Report(
        totals=Totals() + measured,
        asking=clients.asking,
        problem=measured.problem(now_s),
        lately=measured.lately(now_s),
        stretch=StretchReport(
            number=stretch.number,
            totals=Totals() + stretch.measured,
            asking=stretch.asking,
            histogram=stretch.measured.latency.encode().decode("ascii"),
        )
        if stretch.number
        else None,
    )
