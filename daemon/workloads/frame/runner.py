"""Runs of a workload, one at a time, and the daemon's end of a workload's process."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Generic, TypeVar

from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.process.children import Child
from daemon.web.rates import Backoff
from daemon.workloads.frame.messages import LONGEST_LINE, Failed, M, Message, ProcessSpec, Stop, Taken, decoder
from schemas.states import RunState


class WorkloadRefused(Exception):
    """A workload cannot be started.

    field: of its settings, by its path; empty where it is about none of them. problem, fix: what is wrong, and what to
    do about it.
    """

    def __init__(self, problem: str, fix: str = "", field: str = "") -> None:
        self.problem, self.fix, self.field = problem, fix, field
        super().__init__(f"{field}: " * bool(field) + problem + f"; {fix}" * bool(fix))


class WorkloadBusy(WorkloadRefused):
    """What is in its way goes away by itself, or can be stopped: another run, or the daemon is starting."""


class Run:
    """A run of a workload.

    name: its id. state: how far it is. problem: why it ended early, or what it waits for, in words for people alone.
    """

    def __init__(self, name: str, began_ns: int | None = None) -> None:
        self.name = name
        self.state = RunState.STARTING
        self.problem: str | None = None
        self.began_ns = began_ns or time.time_ns()


R = TypeVar("R", bound=Run)


class Runner(Generic[R]):
    """Holds the task of one run, and says it when that ends in a defect.

    run: the one under way, or the last since the daemon started.
    """

    def __init__(self, events: Events) -> None:
        self.run: R | None = None
        self._events = events
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._is_open = self._is_ending = False

    @property
    def running(self) -> R | None:
        """The run that is under way."""
        return self.run if self._task is not None and not self._task.done() else None

    async def _others_end(self) -> R | None:
        """The run that is in the way of another one; one that is over is being archived, and is waited for.

        Raises:
            WorkloadBusy: the daemon ends by now.
        """
        while self.running is not None and self.running.state.is_over and self._task is not None:
            await asyncio.wait([self._task])
        if self._is_ending:
            self._require_open()
        return self.running

    async def end(self) -> None:
        """The daemon ends: the run ends at once, and its task keeps what there is of it."""
        self._is_ending = True
        await self._cancel()
        async with self._starting:  # the order that had its turn has begun a run, or is refused
            await self._cancel()

    async def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _require_open(self) -> None:
        if not self._is_open or self._is_ending:
            raise WorkloadBusy("the daemon is starting or stopping", "try again later")

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        self._task = asyncio.create_task(work, name=name)
        self._task.add_done_callback(self._note_defect)

    def _note_defect(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        reason = f"{type(error).__name__}: {error}"
        self._events.error(f"{task.get_name()} ended in a defect of triggerlog: {reason}")
        if self.run is not None:
            self.run.state, self.run.problem = RunState.FAILED, reason


# --- the daemon's end of a process -----------------------------------------------------------------------------------

PAUSE_S = 5.0
"""Before a process that died is started again; it doubles."""
PAUSE_MOST_S = 60.0
"""The pause doubles up to this; after a process that has run for so long it begins again."""
LEAST_LINE = 2**16


class ProcessFailed(Exception):
    """The process ended early; the message is one line that says why."""


class ProcessRefused(ProcessFailed):
    """The process said itself that it cannot go on: to start it again would not help."""


class WorkloadProcess(Generic[M]):
    """The process of a workload.

    Args:
        name: in messages, e.g. "process of visits".
        module: run as `python -m module`.
        spec: makes the first line that a process gets, when it has started.
        log: file that gets what the process prints; that of the process before stays as `.log.1`.
        kinds: messages that it sends.
        silent_s: a process that sends nothing for so long hangs, and is killed; None waits for ever.
    """

    def __init__(
        self,
        name: str,
        module: str,
        spec: Callable[[], ProcessSpec],
        log: Path,
        kinds: Sequence[type[M]],
        *,
        silent_s: float | None = None,
    ) -> None:
        self.stopping = asyncio.Event()
        self._name = name
        self._module = module
        self._spec = spec
        self._log = log
        self._decode = decoder(Failed, *kinds)
        self._silent_s = silent_s
        self._child: Child | None = None

    @property
    def running(self) -> bool:
        """Whether there is a process now."""
        return self._child is not None

    def send(self, order: Message) -> None:
        """Send an order; nothing where no process runs."""
        if self._child is not None:
            self._child.write_line(order.line())

    def stop(self) -> None:
        """Ask the process to end, and start none any more; `messages` ends when it has."""
        self.stopping.set()
        self.send(Stop())

    async def messages(self) -> AsyncGenerator[M, None]:
        """Run one process to its end, and yield what it sends; a message is taken when the next one is asked for.

        Close the generator (`contextlib.aclosing`) to kill the process.

        Raises:
            ProcessFailed: it ended early, hangs, or is not understood; ProcessRefused where it would again.
        """
        child = await self._start()
        try:
            child.write_line(self._spec().line())
            self._child = child
            if self.stopping.is_set():
                self.send(Stop())
            while (message := await self._next(child)) is not None:
                yield message
                child.write_line(Taken().line())
            await child.ended()
            if child.exit_code:
                raise ProcessFailed(child.ending())
        finally:
            self._child = None
            await child.kill()

    async def supervised(
        self, failed: Callable[[str, float], None], pause_s: float = PAUSE_S, *, retries_refusals: bool = False
    ) -> AsyncGenerator[M, None]:
        """Yield the messages of one process after another, until one has ended by itself or by `stop`.

        Args:
            failed: called with why a process ended early, and after how many seconds another one is started.
            pause_s: before the first start after a failure.
            retries_refusals: whether a process that refused is started again, too.

        Raises:
            ProcessRefused: a process refused.
        """
        backoff = Backoff(pause_s, PAUSE_MOST_S)
        while True:
            began_s = time.monotonic()
            try:
                async with aclosing(self.messages()) as messages:
                    async for message in messages:
                        yield message
            except ProcessFailed as error:
                if self.stopping.is_set():
                    return
                if isinstance(error, ProcessRefused) and not retries_refusals:
                    raise
                if time.monotonic() - began_s >= PAUSE_MOST_S:
                    backoff.reset()
                next_s = backoff.next_s()
                failed(str(error), next_s)
            else:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), next_s)
                return

    async def _start(self) -> Child:
        try:
            await asyncio.to_thread(_rotate, self._log)
            return await Child.start(self._name, [sys.executable, "-m", self._module], self._log, piped=LONGEST_LINE)
        except OSError as error:
            raise ProcessFailed(f"the {self._name} cannot be started ({reason_of(error)})") from None

    async def _next(self, child: Child) -> M | None:
        """The next message; None after the last one."""
        try:
            async with asyncio.timeout(self._silent_s):
                line = await child.read_line()
            message = self._decode(line) if line else None
        except TimeoutError:
            raise ProcessFailed(f"the {self._name} has sent nothing for {self._silent_s:g} s") from None
        except ValueError as error:
            raise ProcessFailed(f"the {self._name} is not understood: {str(error).splitlines()[0]}") from None
        if isinstance(message, Failed):
            raise ProcessRefused(message.problem)
        return message


def _rotate(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():  # of a process that died: the reason is in there
        log.replace(log.with_suffix(".log.1"))


class CommandEnded(Exception):
    """A command that makes a file ended with an error; the message is one line."""


async def run_command(name: str, command: Sequence[str], log: Path) -> None:
    """Run `python command` to its end: a report, whose libraries and work stay out of the logger.

    Raises:
        CommandEnded: it failed, or cannot be started.
    """
    try:
        # Piped, so that nothing of this process has to run between fork and exec.
        child = await Child.start(name, [sys.executable, *command], log, piped=LEAST_LINE)
    except OSError as error:
        raise CommandEnded(f"the {name} cannot be started ({reason_of(error)})") from None
    try:
        await child.ended()
    finally:
        await child.kill()
    if child.exit_code:
        raise CommandEnded(child.ending())
