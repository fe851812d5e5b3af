"""Takes orders about marks, and writes them into the database: at once, or when it answers again.

The invariant: an order that was answered is in a file of the state folder, or the database has acknowledged it, or
both. An order is answered after its file is on the disk, and the file is removed after the database has acknowledged
all that the file says. To write a file into the database again changes nothing: it keeps one mark of an id, and one
that is withdrawn stays withdrawn. So a crash between any two steps is made good by writing every file at the next
start; an order that was not answered may be given again, since it has the same id. The disk does one thing at a time:
what it was asked for and did not do in time is waited for before it is asked for more, or the older file could come
last.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError

from backends.base import Store, StoreError, StoreUnavailable
from daemon.core.monitoring.events import Events
from daemon.core.outcome import fix_of, reason_of
from daemon.core.outside import Disk, Outside
from daemon.web.rates import Backoff
from schemas.api.marks import MarksStatus
from schemas.marks import Mark, MarksWithin

# --- orders that wait on the disk ------------------------------------------------------------------------------------

FOLDER = "marks"
ENDING = ".json"
LARGEST_BYTES = 64 * 1024


class MarkOrder(BaseModel):
    """All that was ordered of one mark, and that the database may not have.

    mark: to be kept; None where only its withdrawal was ordered. withdrawn_ns: when that was (ns since 1970-01-01 UTC).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    id: UUID
    mark: Mark | None = None
    withdrawn_ns: int | None = None


class OrderFolder:
    """The files. Its methods block, and raise OSError as the system does: `read` only for the folder."""

    def __init__(self, state_dir: Path, disk: Disk) -> None:
        self.path = state_dir / FOLDER
        self._disk = disk

    def write(self, order: MarkOrder) -> None:
        """Write an order in place of the one of this id before; it is durable when this returns."""
        self._disk.make_folder(self.path)
        self._disk.replace(self._file(order.id), order.model_dump_json().encode())

    def remove(self, mark: UUID) -> None:
        """Remove the order of an id. After a crash it may be there again."""
        self._disk.remove(self._file(mark))

    def read(self) -> tuple[list[MarkOrder], dict[Path, str]]:
        """All orders, and by the files that hold none that can be read, why."""
        orders, damaged = [], {}
        for path in (self.path / name for name in self._disk.names(self.path) if name.endswith(ENDING)):
            try:
                orders.append(MarkOrder.model_validate_json(self._disk.read(path, 0, LARGEST_BYTES)))
            except ValidationError:
                damaged[path] = "it is damaged"
            except OSError as error:
                damaged[path] = reason_of(error)
        return orders, damaged

    def _file(self, mark: UUID) -> Path:
        return self.path / f"{mark}{ENDING}"


A = TypeVar("A")

ANSWER_WITHIN_S = 2.0
"""How long an order waits for the database, before it is answered that it is kept and not in the database yet."""
DISK_WITHIN_S = 10.0
RETRY_FIRST_S = 0.25
RETRY_MOST_S = 5.0
WAITING_MOST = 1000
"""Orders that may wait for the database."""
LISTED_MOST = 20
"""Waiting marks that the status lists; it counts all of them."""


class MarkRefused(Exception):
    """An order cannot be obeyed: what is wrong.

    is_unknown: there is no such mark. is_unstorable: the database will never take what it says.
    """

    def __init__(self, problem: str, *, is_unknown: bool = False, is_unstorable: bool = False) -> None:
        super().__init__(problem)
        self.is_unknown = is_unknown
        self.is_unstorable = is_unstorable


class MarksNotKept(Exception):
    """An order cannot be kept now: what is wrong, and in `fix` what to do."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.fix = fix


@dataclass(eq=False)
class _Waiting:
    """An order, and whether somebody still waits for what the database says of it.

    outcome: True where it was as ordered, or why the database will never take it.
    """

    order: MarkOrder
    outcome: asyncio.Future[bool | StoreError] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    is_answered: bool = False


class MarkKeeper:
    """The marks of a logger; see the module for what it promises.

    store: is written to while `run` runs, and has to be open by then.
    """

    def __init__(self, store: Store, state_dir: Path, outside: Outside, events: Events) -> None:
        self._store = store
        self._workers = outside.workers
        self._folder = OrderFolder(state_dir, outside.disk)
        self._events = events
        self._waiting: dict[UUID, _Waiting] = {}
        self._one_at_a_time = asyncio.Lock()
        self._at_disk: asyncio.Future[None] | None = None
        self._wanted = asyncio.Event()
        self._changes = 0
        self._problem: str | None = None

    async def open(self) -> None:
        """Read the orders of the time before; files that cannot be read are named in an event, and stay."""
        try:
            orders, damaged = await self._workers.call(self._folder.read)
        except OSError as error:
            self._events.error(f"marks in {self._folder.path} wait, and cannot be read: {reason_of(error)}")
            return
        for path, why in damaged.items():
            self._events.error(
                f"{path} holds no mark that can be read ({why}); mend it and restart the daemon, or remove it"
            )
        for order in orders:
            self._waiting[order.id] = _Waiting(order, is_answered=True)
        if orders:
            self._wanted.set()
            self._events.info(f"{len(orders)} orders about marks wait for the database since before the start")

    async def keep(self, mark: Mark) -> bool:
        """Keep a mark; whether it is in the database already.

        Raises:
            MarkRefused: another mark has its id, or it was withdrawn, or the database will never take it.
            MarksNotKept: the state folder does not take it, or too many wait.
        """
        async with self._one_at_a_time:
            waiting = self._waiting.get(mark.id)
            is_new = waiting is None
            if waiting is None:
                waiting = await self._place(MarkOrder(id=mark.id, mark=mark))
            elif waiting.order.mark != mark or waiting.order.withdrawn_ns is not None:
                raise MarkRefused(_taken(mark.id))
        outcome = await self._outcome(waiting)
        if isinstance(outcome, StoreError):
            raise MarkRefused(str(outcome), is_unstorable=True)
        if outcome is False:
            raise MarkRefused(_taken(mark.id))
        if is_new:
            self._events.info(f"mark made: {mark.text}{f' ({mark.author})' if mark.author else ''}")
        return outcome is not None

    async def keep_once(self, mark: Mark) -> bool:
        """Keep a mark that a program makes, and may make again; False where it cannot be kept now."""
        try:
            await self.keep(mark)
        except MarksNotKept:
            return False
        except MarkRefused:
            pass  # it was made before, and withdrawn
        return True

    async def withdraw(self, mark: UUID) -> bool:
        """Withdraw a mark for good; whether the database knows already.

        Raises:
            MarkRefused: there is none.
            MarksNotKept: the state folder does not take it, or too many wait.
        """
        async with self._one_at_a_time:
            waiting = self._waiting.get(mark)
            if waiting is None or waiting.order.withdrawn_ns is None:
                kept = None if waiting is None else waiting.order.mark
                waiting = await self._place(MarkOrder(id=mark, mark=kept, withdrawn_ns=time.time_ns()))
        outcome = await self._outcome(waiting)
        if outcome is False:
            raise MarkRefused(f"there is no mark {mark}", is_unknown=True)
        self._events.info(f"mark withdrawn: {waiting.order.mark.text if waiting.order.mark else mark}")
        return outcome is not None

    async def marks(self, query: MarksWithin) -> list[Mark]:
        """The marks of a span of time, also those that wait.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        waiting = {id_: each.order for id_, each in self._waiting.items()}
        # Those that wait may be in the database as well, and withdrawals of some of what it gives.
        most = query.most + sum(map(_is_withdrawn, waiting.values()))
        stored = await self._store.marks(MarksWithin(start_ns=query.start_ns, end_ns=query.end_ns, most=most))
        found = {mark.id: mark for mark in stored}
        found |= {id_: order.mark for id_, order in waiting.items() if order.mark is not None}
        return query.of([mark for id_, mark in found.items() if not _is_withdrawn(waiting.get(id_))])

    def status(self) -> MarksStatus:
        """How many wait, and a number that changes whenever marks do."""
        orders = [each.order for each in self._waiting.values()]
        marks = [order.mark for order in orders if order.mark is not None and order.withdrawn_ns is None]
        return MarksStatus(
            changes=self._changes, waiting=len(orders), waiting_marks=marks[-LISTED_MOST:], problem=self._problem
        )

    async def run(self) -> None:
        """Write what waits into the database, until cancelled."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if await self._write_all():
                backoff = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
                continue
            with suppress(TimeoutError):  # a new order is written at once, though others are refused
                async with asyncio.timeout(backoff.next_s()):
                    await self._wanted.wait()
            self._wanted.set()

    async def _write_all(self) -> bool:
        """Write what waits, in the order in which it came; whether nothing is left."""
        problem = None
        for waiting in list(self._waiting.values()):
            try:
                await self._write(waiting)
            except (StoreError, OSError) as error:
                problem = str(error)
                if isinstance(error, StoreUnavailable):
                    break
        if problem is not None and self._problem is None:
            self._events.warning(f"marks wait in {self._folder.path}: {problem}")
        elif problem is None and self._problem is not None:
            self._events.info("the marks that waited are in the database")
        self._problem = problem
        return problem is None

    async def _write(self, waiting: _Waiting) -> None:
        order = waiting.order
        is_obeyed: bool | StoreError = True
        if order.mark is not None:
            try:
                is_obeyed = await self._kept(order.mark, is_needed=order.withdrawn_ns is None)
            except StoreUnavailable:
                raise
            except StoreError as error:
                if waiting.is_answered:
                    raise  # it was promised: the operator decides
                is_obeyed = error
                waiting.outcome.set_result(error)  # before its file goes: from here on nobody is promised anything
        if order.withdrawn_ns is not None:
            is_obeyed = await self._store.withdraw_mark(order.id, order.withdrawn_ns) or order.mark is not None
        async with self._one_at_a_time:
            # Meanwhile more may have been ordered of this mark.
            if self._waiting.get(order.id) is waiting:
                await self._on_disk(self._folder.remove, order.id)
                del self._waiting[order.id]
                self._changes += 1
        if not waiting.outcome.done():
            waiting.outcome.set_result(is_obeyed)
        if not is_obeyed and waiting.is_answered:
            what = f"there is no mark {order.id} to withdraw" if order.mark is None else _taken(order.id)
            self._events.warning(f"an order that waited is not obeyed: {what}")

    async def _kept(self, mark: Mark, *, is_needed: bool) -> bool:
        """Keep a mark. One that is withdrawn is kept too, so that it does not come back, but may be refused."""
        try:
            return await self._store.keep_mark(mark)
        except StoreUnavailable:
            raise
        except StoreError:
            if is_needed:
                raise
            return False

    async def _place(self, order: MarkOrder) -> _Waiting:
        """Put an order on the disk, and let it be written.

        Raises:
            MarksNotKept: it could not be.
        """
        if len(self._waiting) >= WAITING_MOST and order.id not in self._waiting:
            problem = self._problem or "the database does not answer"
            raise MarksNotKept(f"{WAITING_MOST} marks wait for the database ({problem})", "bring the database back")
        try:
            await self._on_disk(self._folder.write, order)
        except OSError as error:
            reason = reason_of(error)
            fix = fix_of(error, "see that the daemon may write its state folder, and that its disk answers")
            raise MarksNotKept(f"{self._folder.path} cannot be written ({reason})", fix) from None
        waiting = self._waiting[order.id] = _Waiting(order)
        self._changes += 1
        self._wanted.set()
        return waiting

    async def _on_disk(self, work: Callable[[A], None], given: A) -> None:
        """Do something in the folder, after what it was asked for before. To be called under the lock.

        Raises:
            OSError: it was not done; TimeoutError: it was not done in time, and may be done later.
        """
        try:
            async with asyncio.timeout(DISK_WITHIN_S):
                if self._at_disk is not None:
                    await asyncio.wait([self._at_disk])
                self._at_disk = asyncio.ensure_future(self._workers.call(work, given))
                await asyncio.shield(self._at_disk)
        except TimeoutError:
            raise TimeoutError("its disk does not answer, and may still do it later") from None

    async def _outcome(self, waiting: _Waiting) -> bool | StoreError | None:
        """What the database says of an order; None where it has not said so in time."""
        done, _ = await asyncio.wait([waiting.outcome], timeout=ANSWER_WITHIN_S)
        waiting.is_answered = waiting.is_answered or not done
        return waiting.outcome.result() if done else None


def _taken(mark: UUID) -> str:
    return f"the id {mark} belongs to a mark that says something else, or was withdrawn"


def _is_withdrawn(order: MarkOrder | None) -> bool:
    return order is not None and order.withdrawn_ns is not None
