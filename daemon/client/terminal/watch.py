"""The daemon's status, shown again and again: `triggerlog status`."""

import asyncio
import time

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from daemon.client.api.asking import DaemonGone
from daemon.client.api.reach import Reach
from daemon.client.api.status import PATIENCE_S, ask_status
from daemon.client.terminal.layout import lines_of
from daemon.client.terminal.overview import overview
from schemas.api.status import Status


async def watch(daemon: Reach, every_s: float, console: Console) -> None:
    """Show the status again and again until cancelled; while the daemon is gone, show that, and since when."""
    last: Status | None = None
    answered = time.monotonic()
    async with daemon.client(PATIENCE_S) as client:
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                try:
                    last, answered = await ask_status(client), time.monotonic()
                    view: RenderableType = overview(last, daemon.url, is_live=True)
                except DaemonGone as gone:
                    view = absence(last, str(gone), time.monotonic() - answered)
                live.update(view, refresh=True)
                await asyncio.sleep(every_s)  # the rhythm of the view that the operator asked for


class Absence:
    """The daemon is gone; its last status is grey, so that no stale number looks live."""

    def __init__(self, last: Status | None, reason: str, since_s: float) -> None:
        lines = [
            Text(f"✗ NO DATA for {since_s:.0f} s", "bold red"),
            Text(reason),
            Text("Trying again; Ctrl-C ends.", "dim"),
        ]
        self._notice = Panel(Group(*lines), border_style="red", box=box.ROUNDED)
        self._stale = None if last is None else overview(last, "last known", is_live=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out, in as many lines as there are."""
        notice = lines_of(console, options, self._notice)
        for line in notice:
            yield from line
            yield Segment.line()
        if self._stale is not None:
            height = console.height if options.height is None else options.height
            stale = console.render(self._stale, options.update(height=max(0, height - len(notice))))
            yield from Segment.apply_style(Segment.strip_styles(stale), Style(dim=True))


def absence(last: Status | None, reason: str, since_s: float) -> Absence:
    """Show that the daemon is gone, for so many seconds and for this reason."""
    return Absence(last, reason, since_s)
