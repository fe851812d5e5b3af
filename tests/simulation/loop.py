"""An asyncio event loop in virtual time, and the lives that run on it.

Nothing waits: where nothing is ready, time jumps to the next timer. A life is what dies together, a daemon: all
callbacks and tasks that begin in its context belong to it, and none of them runs after its death.
"""

import asyncio
import contextvars
import heapq
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

START_UTC_NS = 1_700_000_000_000_000_000
START_NS = 1_000_000_000_000
"""Where the two clocks begin: UTC, and the monotonic one."""

MOST_AT_ONCE = 20_000
"""Turns of the loop in one moment; more is a program that goes round without waiting for anything."""


class Killed(BaseException):
    """The life that runs this has ended; no `except Exception` may catch it."""


class Stuck(Exception):
    """The program cannot go on: nothing is left to do, or it goes round in one moment."""


class Life:
    """What dies together.

    disk_calls, steps: how often it used its disk, and how many callbacks of it ran. has_ended: it ended by itself, in
    order.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.has_ended = False
        self.disk_calls = 0
        self.steps = 0
        self.failures: list[BaseException] = []
        self._countdown: tuple[str, int] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._on_death: list[Callable[[], None]] = []

    def on_death(self, callback: Callable[[], None]) -> None:
        """Call this once it has died, outside of its context."""
        self._on_death.append(callback)

    def kill_after(self, what: str, count: int) -> None:
        """Let it die at its so manieth `disk` call, or `step`, from now on; 0 is the next one."""
        self._countdown = (what, count)

    def note(self, what: str) -> None:
        """Count a disk call or a step; raises Killed where the life ends with it."""
        if self.is_dead:
            raise Killed
        if what == "disk":
            self.disk_calls += 1
        else:
            self.steps += 1
        if self._countdown is not None and self._countdown[0] == what:
            if self._countdown[1] <= 0:
                self.kill()
                raise Killed
            self._countdown = (what, self._countdown[1] - 1)

    def kill(self) -> None:
        """End it now."""
        if self.is_dead:
            return
        self.is_dead = True
        for callback in self._on_death:
            # Outside of the dead life's context, in which nothing would run any more.
            contextvars.Context().run(callback)

    def add(self, task: "asyncio.Task[Any]") -> None:
        """Take note of a task of this life."""
        self._tasks.append(task)
        if len(self._tasks) > 256:
            self._tasks = [task for task in self._tasks if not task.done()]

    def close_tasks(self) -> None:
        """Close the tasks of a dead life, in the order in which they began, so that no collector does it at random."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if task.done():
                continue
            task._log_destroy_pending = False
            coroutine = task.get_coro()
            try:
                coroutine.close()
            except (RuntimeError, Killed):
                # It awaits something in its `finally`, or still runs: it stays where it is.
                continue


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


def run_in(life: Life, what: Callable[[], T]) -> T:
    """Call something in the context of a life, where all that it begins belongs to it."""
    context = contextvars.copy_context()
    context.run(LIFE.set, life)
    return context.run(what)


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is virtual, without sockets and threads.

    connect: makes the connections of `create_connection`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = START_NS
        self.node_off_ns = 0
        self.callbacks = 0
        self.connect: Callable[[Callable[[], asyncio.BaseProtocol], int], Coroutine[Any, Any, Any]] | None = None
        self.failures: list[str] = []
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._numbers = 0
        self._in_this_moment = 0
        self.set_task_factory(_make_task)
        self.set_exception_handler(self._failed)

    # --- the clocks ---------------------------------------------------------------------------------------------

    def time(self) -> float:
        """The monotonic clock, in s."""
        return self.now_ns / 1e9

    @property
    def utc_ns(self) -> int:
        """The other clock."""
        return START_UTC_NS + self.now_ns - START_NS

    @property
    def node_utc_ns(self) -> int:
        """What that of the daemon's node shows."""
        return self.utc_ns + self.node_off_ns

    # --- what asyncio asks for ----------------------------------------------------------------------------------

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        """As asyncio's; of two timers for one moment the older one comes first."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._timers, (-int(-when * 1e9 // 1), self._numbers, handle))
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        """There are no threads."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":
        """Call it in the next turn of the loop."""
        future = self.create_future()
        self.call_soon(_fulfil, future, func, args)
        return future

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> tuple[Any, Any]:
        """Connect over the simulated network."""
        assert self.connect is not None, "no network is there"
        return await self.connect(protocol_factory, port)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""

    # --- running ------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        if not self._ready:
            self._jump()
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle._cancelled:
                self._run(handle)
        self._in_this_moment += 1
        if self._in_this_moment > MOST_AT_ONCE:
            raise Stuck("it goes round in one moment, without waiting for anything")

    def _jump(self) -> None:
        """Go to the moment of the next timer."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            if self._stopping:
                return
            raise Stuck("nothing is left to do, and it is not at its end")
        when = self._timers[0][0]
        if when > self.now_ns:
            self.now_ns, self._in_this_moment = when, 0
        while self._timers and self._timers[0][0] <= self.now_ns:
            handle = heapq.heappop(self._timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)

    def _run(self, handle: asyncio.Handle) -> None:
        life = handle._context.get(LIFE)
        self.callbacks += 1
        try:
            if life is not None:
                if life.is_dead:
                    return
                life.note("step")
            handle._context.run(handle._callback, *handle._args)
        except (SystemExit, KeyboardInterrupt, Stuck):
            raise
        except Killed:
            if life is None or not life.is_dead:
                raise
        except BaseException as error:
            self._failed(self, {"message": f"{handle!r} failed", "exception": error, "life": life})

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep a failure that nobody waits for; of what is dead nobody wants to know."""
        error = context.get("exception")
        life = context.get("life") or LIFE.get()
        if isinstance(error, Killed) or (life is not None and life.is_dead):
            return
        where = "" if error is None else "".join(traceback.format_tb(error.__traceback__)[-3:])
        self.failures.append(f"{context.get('message')}: {error!r}\n{where}")


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **settings: Any) -> "asyncio.Task[Any]":
    task = asyncio.Task(coroutine, loop=loop, **settings)
    context = settings.get("context")
    life = LIFE.get() if context is None else context.get(LIFE)
    if life is not None:
        life.add(task)
    return task


def _fulfil(future: "asyncio.Future[Any]", func: Any, args: Any) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(func(*args))
    except Exception as error:
        future.set_exception(error)


@contextmanager
def virtual_loop() -> Iterator[VirtualLoop]:
    """A loop of one's own, closed at the end."""
    loop = VirtualLoop()
    try:
        yield loop
    finally:
        loop.close()
