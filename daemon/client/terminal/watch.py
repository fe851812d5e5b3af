"""The daemon's status, shown again and again: `triggerlog status`."""

import asyncio
import time

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from daemon.client.api.asking import DaemonGone
from daemon.client.api.reach import Reach
from daemon.client.api.status import PATIENCE_S, ask_status
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
                    view = overview(last, daemon.url)
                except DaemonGone as gone:
                    view = absence(last, str(gone), time.monotonic() - answered)
                live.update(view, refresh=True)
                await asyncio.sleep(every_s)  # the rhythm of the view that the operator asked for


def absence(last: Status | None, reason: str, since_s: float) -> RenderableType:
    """Show that the daemon is gone; its last status is grey, so that no stale number looks live."""
    lines = [
        Text(f"✗ NO DATA for {since_s:.0f} s", "bold red"),
        Text(reason),
        Text("Trying again; Ctrl-C ends.", "dim"),
    ]
    notice = Panel(Group(*lines), border_style="red", box=box.ROUNDED)
    if last is None:
        return notice
    stale = overview(last, "last known")
    return Group(notice, _grey(stale))


def _grey(view: RenderableType) -> Text:
    console = Console(width=110, record=False, no_color=True, markup=False)
    with console.capture() as captured:
        console.print(view)
    return Text(captured.get(), "dim")
