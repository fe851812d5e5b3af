"""Visits beside the instruments: what the daemon holds of a run."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import ExitStack, aclosing

from pydantic import ValidationError

from backends.base import StoreFacts
from daemon.core.configuration import LoadedConfig
from daemon.core.monitoring.events import Events
from daemon.core.outcome import VISITS_NEED, CommandFailed, reason_of, require_extra
from daemon.workloads.visits.course import Course
from daemon.workloads.visits.facts import facts_of
from daemon.workloads.visits.following import VisitsFailed, VisitsRefused, follow, spec_of
from daemon.workloads.visits.kept import BY_DAEMON, FOLDER, GOES_ON, STOPPED, Kept, VisitsInUse
from daemon.workloads.visits.messages import Begun, Message, Troubled, Visited
from daemon.workloads.visits.series import Series
from daemon.workloads.visits.settings import with_changes
from schemas.api.visits import VisitsRun, VisitsStatus, VisitsSummary
from schemas.config.visits import VisitsConfig

ENDS: dict[str | None, str] = {None: "done", STOPPED: "stopped"}
PAUSE_S = 5.0
"""Before a process that died is started again; it doubles, up to `PAUSE_MOST_S`."""
PAUSE_MOST_S = 60.0


class VisitsNotStarted(Exception):
    """A run cannot be started; the message is one line that says why and what mends it."""


class VisitsBusy(VisitsNotStarted):
    """Something is in its way that goes again: another run, or the daemon is starting."""


class Visiting:
    """Starts a run of visits, one at a time, and ends it.

    facts: what the database says of itself; None before it was asked.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        events: Events,
        facts: Callable[[], StoreFacts | None],
        *,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.kept = Kept(loaded.state_dir / FOLDER)
        self._loaded = loaded
        self._events = events
        self._facts = facts
        self._pause_s = pause_s
        self._course: Course | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._starting = asyncio.Lock()
        self._is_open = self._is_ending = False

    async def open(self) -> None:
        """The database is there: go on with what the last daemon did, or begin as the configuration says."""
        self._is_open = True
        before = await asyncio.to_thread(self._left_behind)
        wanted = self._loaded.config.visits
        try:
            if before is not None and (before.settings == wanted if wanted.start else not before.settings.start):
                await self._begin(before.settings, before)
            elif wanted.start:
                await self._begin(wanted, None)
        except VisitsNotStarted as error:
            self._events.error(f"visits do not start: {error}")

    async def start(self, changes: dict[str, object]) -> VisitsStatus:
        """Start a run; `changes` are the fields in which it differs from the configuration, checked already.

        Raises:
            VisitsNotStarted: one runs, or it cannot be started.
        """
        if not self._is_open or self._is_ending:
            raise VisitsBusy("the daemon is starting or stopping; try again later")
        return await self._begin(self.settings(changes), None)

    def settings(self, changes: dict[str, object]) -> VisitsConfig:
        """The configuration's settings with changes; those of a run that is not the configuration's own.

        Raises:
            pydantic.ValidationError: they do not fit together.
        """
        return with_changes(self._loaded.config.visits, changes).model_copy(update={"start": False})

    async def stop(self) -> VisitsStatus:
        """End the run after the visit that is under way, which ends within it; return how it is at the end.

        Raises:
            KeyError: none runs.
        """
        course, task = self._course, self._task
        if course is None or task is None or task.done():
            raise KeyError("no visits run")
        if not self._stop.is_set():
            course.state = "stopping"
            self._stop.set()
        return course.status()

    async def end(self) -> None:
        """The daemon ends: at once, as a visit that was cut short is done again; the run goes on at the next start."""
        self._is_ending = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # --- what is asked of it -------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._task is not None and not self._task.done()

    @property
    def running_id(self) -> str | None:
        """Id of the run that is under way."""
        return self._course.name if self._course is not None and self.running else None

    def status(self) -> VisitsStatus | None:
        """How the run is, or how the last one since the daemon started ended."""
        return None if self._course is None else self._course.status()

    @property
    def course(self) -> Course | None:
        """The run that is under way, or was last since the daemon started."""
        return self._course

    def past(self) -> list[VisitsSummary]:
        """Those that are kept, the newest first, without the one that is under way. Not for the event loop."""
        return [summary for summary in self.kept.summaries() if summary.id != self.running_id]

    # --- starting and ending -------------------------------------------------------------------------------------

    def _left_behind(self) -> VisitsRun | None:
        """The newest run, where it was cut off by the end of the process that ran it."""
        for name in self.kept.names()[:1]:
            with contextlib.suppress(OSError, ValueError):
                run = self.kept.head(name)
                return run if run.problem in GOES_ON else None
        return None

    async def _begin(self, settings: VisitsConfig, before: VisitsRun | None) -> VisitsStatus:
        async with self._starting:
            if self.running:
                raise VisitsBusy("visits run already; stop them first, or wait for their end")
            held = ExitStack()
            course = await asyncio.to_thread(self._prepared, held, settings, before)
            self._course, self._stop = course, asyncio.Event()
            self._task = asyncio.create_task(self._carry_out(course, held), name="visits")
            self._task.add_done_callback(self._tell_defect)
        how = "go on" if before is not None else "begin"
        self._events.info(
            f"visits {how}: {settings.visits:,} in all, {settings.index_mode}, {settings.cadence} cadence,"
            f" schema {settings.schema_name}",
        )
        return course.status()

    def _prepared(self, held: ExitStack, settings: VisitsConfig, before: VisitsRun | None) -> Course:
        try:
            require_extra("visits", "a run", VISITS_NEED)
            with ExitStack() as stack:
                stack.enter_context(self.kept.alone())
                course = self._course_of(settings, before)
                course.begin()
                held.enter_context(stack.pop_all())
                return course
        except VisitsInUse as error:
            raise VisitsBusy(str(error)) from None
        except (CommandFailed, ValueError) as error:
            raise VisitsNotStarted(str(error)) from None
        except OSError as error:
            mend = f"cannot be written ({reason_of(error)}); mend that"
            raise VisitsNotStarted(f"{self.kept.folder}: {mend}") from None

    def _course_of(self, settings: VisitsConfig, before: VisitsRun | None) -> Course:
        target = f"{self._loaded.target}, schema {settings.schema_name}"
        if before is None:
            return Course(self.kept, self.kept.new_id(), settings, target=target)
        series = Series()
        series.take(self.kept.rows(before.id))
        return Course(
            self.kept,
            before.id,
            settings,
            target=target,
            series=series,
            compactions=before.compactions,
            began_ns=before.began_ns,
        )

    async def _carry_out(self, course: Course, held: ExitStack) -> None:
        problem: str | None = BY_DAEMON
        try:
            problem = await self._to_the_end(course)
        finally:
            # In a thread, which ends also when the daemon does: the daemon waits for it.
            try:
                await asyncio.to_thread(self._keep, course, problem, held)
            except OSError as error:
                self._events.error(f"visits {course.name} are not kept: {reason_of(error)}")
            if problem != BY_DAEMON:
                course.state = ENDS.get(problem, "failed")
                course.problem = problem if course.state == "failed" else None
            self._say_end(course)

    def _keep(self, course: Course, problem: str | None, held: ExitStack) -> None:
        with held:
            course.end(course.run(problem, **facts_of(course.settings, course.done, self._facts())))

    async def _to_the_end(self, course: Course) -> str | None:
        """Run the process, again and again where it dies; return why the run ended early."""
        pause_s = self._pause_s
        while True:
            began_s = time.monotonic()
            try:
                await self._process(course)
            except VisitsRefused as error:
                return str(error)
            except VisitsFailed as error:
                if self._stop.is_set():
                    return STOPPED
                if time.monotonic() - began_s >= PAUSE_MOST_S:
                    pause_s = self._pause_s
                course.state, course.problem = "starting", str(error)
                self._events.error(f"visits failed: {error}; they go on in {pause_s:g} s")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), pause_s)
                    return STOPPED
                pause_s = min(2 * pause_s, PAUSE_MOST_S)
            else:
                return STOPPED if course.done < course.settings.visits else None

    async def _process(self, course: Course) -> None:
        loaded, log = self._loaded, self.kept.folder / "process.log"
        if log.exists():  # of a process that died: why is in there
            await asyncio.to_thread(log.replace, log.with_suffix(".log.1"))
        spec = spec_of(
            loaded.config.database,
            course.settings,
            state_dir=loaded.state_dir,
            password=loaded.password,
            gives_way=True,
        )
        try:
            async with aclosing(follow(spec, log, stop=self._stop)) as messages:
                async for message in messages:
                    await self._take(course, message)
        except OSError as error:
            raise VisitsFailed(f"the process of visits cannot be started ({reason_of(error)})") from None
        except (ValidationError, ValueError) as error:
            raise VisitsFailed(f"the process of visits is not understood: {str(error).splitlines()[0]}") from None

    async def _take(self, course: Course, message: Message) -> None:
        is_stopping = course.state == "stopping"
        try:
            await course.take(message)
        except OSError as error:
            raise VisitsRefused(f"{self.kept.folder} cannot be written ({reason_of(error)}); mend that") from None
        if is_stopping:
            course.state = "stopping"
        self._tell(course, message)

    # --- telling -------------------------------------------------------------------------------------------------

    def _tell(self, course: Course, message: Message) -> None:
        limit_s = course.settings.limit_s
        if isinstance(message, Begun) and course.done:
            self._events.info(f"visits: {course.done:,} are in the database already")
        elif isinstance(message, Visited) and message.visit.visit_s > limit_s:
            words = f"visit {message.visit.visit:,} took {message.visit.visit_s:.3g} s, more than {limit_s:g} s"
            self._events.warning_seldom("slow visit", words)
        elif isinstance(message, Troubled):
            self._events.warning_seldom("visits wait", f"visits wait: {message.problem}")

    def _say_end(self, course: Course) -> None:
        status = course.status()
        words = f"{status.done:,} of {status.visits:,} visits are done"
        if course.state == "failed":
            self._events.error(f"visits failed: {course.problem}; {words}")
        else:
            how = {"done": "ended", "stopped": "were stopped"}.get(course.state, "end with the daemon")
            self._events.info(f"visits {how}: {words}")

    def _tell_defect(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._events.error(f"visits ended in a defect of triggerlog: {type(error).__name__}: {error}")
            if self._course is not None:
                self._course.state, self._course.problem = "failed", f"{type(error).__name__}: {error}"
