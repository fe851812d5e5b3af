"""The terminal of the commands: consoles, which print text as it is, progress bars, and Ctrl-C.

Rich would take `[visits]` in a message, which names a table of the configuration, for markup, and print nothing of it.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

FILE_WIDTH = 120
"""Columns of a table in a file or a pipe, where there is no terminal."""


def make_console(*, stderr: bool = False, file_width: int | None = None, highlight: bool = True) -> Console:
    """Make a console; `file_width` is its width where it is not a terminal."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if is_terminal else file_width, markup=False, highlight=highlight)


def labelled(label: str, width: int, text: object) -> Text:
    """A line of a summary: its name in bold, and the rest in one column."""
    return Text.assemble((f"{label:<{width}}", "bold"), f" {text}")


class ProgressBar:
    """One line on a terminal while it is open, and nothing elsewhere.

    seconds_left: how long it still takes, None where that is not known, asked for at every repaint; by default the bar
        estimates it from its pace.
    """

    def __init__(
        self, console: Console, activity: str, *, seconds_left: Callable[[], float | None] | None = None
    ) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            _Detail(),
            _TimeLeft(seconds_left),
        )
        self._shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._shown.add_task(activity, total=None, detail="")

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.stop()

    def show(self, activity: str, detail: str = "", *, done: float = 0, total: float | None = None) -> None:
        """Show what runs now, and that `done` of `total` is done; without a total the bar only moves."""
        self._shown.update(self._task, description=activity, detail=detail, completed=done, total=total)


class _Detail(ProgressColumn):
    """The detail, cut where the terminal ends."""

    def render(self, task: Task) -> Text:
        """As text that gives way to the other columns."""
        return Text(str(task.fields["detail"]), overflow="ellipsis", no_wrap=True)


class _TimeLeft(ProgressColumn):
    """The time left; where it is not known, the time that passed."""

    max_refresh = 1.0

    def __init__(self, seconds_left: Callable[[], float | None] | None) -> None:
        super().__init__()
        self._seconds_left = seconds_left

    def render(self, task: Task) -> Text:
        """`about 3:20 left`, or `0:12`."""
        left = task.time_remaining if self._seconds_left is None else self._seconds_left()
        return Text(minutes(task.elapsed or 0) if left is None else f"about {minutes(left)} left", style="dim")


def minutes(seconds: float) -> str:
    """Minutes and seconds, e.g. `3:20`."""
    whole, rest = divmod(round(seconds), 60)
    return f"{whole}:{rest:02d}"


@contextmanager
def stopped_by_signal() -> Iterator[asyncio.Event]:
    """Set by Ctrl-C and SIGTERM meanwhile, which then end nothing by themselves."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
