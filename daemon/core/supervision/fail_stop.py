"""Fail-stop: an exception in the data path ends the process at once.

State is never used after half a step: not by the next callback, not by an orderly end, and not for an acknowledgement.
The next start recovers, as after a kill. Each function by which the event loop, a thread, or another part of the daemon
enters the data path is marked with `fail_stop`, and names the errors that are no defect: those reach its caller.

Telemetry, API and alarms are another failure domain, and are not marked: what they raise ends nothing here, unless they
call a function that is.
"""

import faulthandler
import functools
import inspect
import logging
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from daemon.core.monitoring.event_log import EventLog
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reasons_of

P = ParamSpec("P")
T = TypeVar("T")

End = Callable[[str, Exception], NoReturn]
"""Ends the process: called with the function that failed, and its exception."""

END_WITHIN_S = 5.0
"""The process ends within this time, whether its log and its disk take why or not."""

log = logging.getLogger("triggerlog")

_ends: list[End] = []
_failed: list[str] = []  # the function by which the process ends
_forever = threading.Event()


def fail_stop(*errors: type[Exception]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Mark a function, or a coroutine function: any exception of it but these ends the process.

    Outside of `process_ends`, as in a test of one part, it is raised.
    """

    def mark(function: Callable[P, T]) -> Callable[P, T]:
        where = function.__qualname__
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waits(*args: P.args, **kwargs: P.kwargs) -> Any:
                if _failed:
                    _forever.wait()
                try:
                    return await function(*args, **kwargs)
                except Exception as error:
                    _end_unless(errors, where, error)
                    raise

            return cast("Callable[P, T]", waits)

        @functools.wraps(function)
        def calls(*args: P.args, **kwargs: P.kwargs) -> T:
            if _failed:
                _forever.wait()
            try:
                return function(*args, **kwargs)
            except Exception as error:
                _end_unless(errors, where, error)
                raise

        return calls

    return mark


@contextmanager
def process_ends(end: End) -> Iterator[None]:
    """Let the exceptions of the data path end the process this way."""
    _ends.append(end)
    try:
        yield
    finally:
        _ends.remove(end)


def end_at_once(events: Events, kept: EventLog, where: str, error: Exception) -> NoReturn:
    """Say why, once, and end: no other thread begins a step of the data path meanwhile."""
    if _failed:
        _forever.wait()
    _failed.append(where)
    faulthandler.dump_traceback_later(END_WITHIN_S, exit=True)
    try:
        text = f"the daemon ends at once: {', '.join(reasons_of(error))}, in {where}{_line_of(error)}"
        log.critical("%s; the next start recovers what is acknowledged", text, exc_info=error)
        # A service manager that starts it every second must not push all other events out of those that are kept.
        if text not in {event.text for event in events.newest()}:
            events.keep_error(text)
        kept.end()
    finally:
        os._exit(1)


def _end_unless(errors: tuple[type[Exception], ...], where: str, error: Exception) -> None:
    if _ends and not _is_of(error, errors):
        _ends[-1](where, error)


def _is_of(error: BaseException, errors: tuple[type[Exception], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_of(each, errors) for each in error.exceptions)
    return isinstance(error, errors)


def _line_of(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
