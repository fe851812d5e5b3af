"""Retrying, by the daemon or without one, with a bar that tells how far it is."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import typer

from daemon.client.api.asking import DaemonBusy, ask
from daemon.client.api.reach import Reach
from daemon.core.configuration import LoadedConfig
from daemon.pipeline.dead_letters import Outcome
from daemon.tools.console import ProgressBar, make_console
from daemon.tools.dead_letters import offline
from schemas.api.control import RetriedByGroup
from schemas.readings import InstrumentGroup

LOOK_S = 0.25
"""How often the bar is drawn anew, and the daemon asked."""

PATIENCE_S = 10.0
"""How long the daemon may take for an answer before it is asked again."""

INTERRUPTED = 130


class Retry:
    """One `dead-letters retry`. outcomes: what became of the letters of each group, up to now."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}

    def here(self, loaded: LoadedConfig, groups: Sequence[InstrumentGroup]) -> None:
        """Retry where no daemon runs. Raises what `offline.retry` raises."""
        self._run(offline.retry(loaded, groups, self._follow, _tell_lost), "what was not tried lies where it was")

    def by_daemon(self, daemon: Reach, path: str) -> None:
        """Let the daemon retry, and wait until it has; it goes on when nobody waits. path: of the API.

        Raises:
            DaemonGone: it is not there any more, or refuses.
        """
        self._run(self._ask(daemon, path), "the daemon goes on; the same command shows how far it is")

    def _follow(self, outcomes: dict[str, Outcome]) -> None:
        self.outcomes = outcomes

    def _run(self, what: Awaitable[None], otherwise: str) -> None:
        try:
            asyncio.run(self._shown(what))
        except KeyboardInterrupt:
            typer.echo(f"interrupted: {otherwise}", err=True)
            raise typer.Exit(INTERRUPTED) from None

    async def _shown(self, what: Awaitable[None]) -> None:
        task = asyncio.ensure_future(what)
        with ProgressBar(make_console(stderr=True), "retrying") as bar:
            try:
                while not task.done():
                    self._show(bar)
                    await asyncio.wait([task], timeout=LOOK_S)
            finally:
                task.cancel()
                await asyncio.wait([task])
        await task

    def _show(self, bar: ProgressBar) -> None:
        found = self.outcomes.values()
        letters, committed, rejected = (sum(getattr(each, name) for each in found) for name in SHOWN)
        detail = f"{committed:,} stored again, {rejected:,} still refused, of {letters:,}"
        bar.show("retrying", detail, done=sum(each.done for each in found), total=letters or None)

    async def _ask(self, daemon: Reach, path: str) -> None:
        async with daemon.client(PATIENCE_S) as client:
            method = "POST"
            while True:
                try:
                    answer = await ask(client, method, path)
                except DaemonBusy:
                    continue
                self.outcomes = _parsed(answer.content)
                if not any(outcome.running for outcome in self.outcomes.values()):
                    return
                method = "GET"
                await asyncio.sleep(LOOK_S)


def _tell_lost(group: str, readings: int) -> None:
    what = f"{readings:,} readings of dead letters that it had taken in earlier retries"
    typer.echo(f"{group}: the database was put back to an older state, and has lost {what}", err=True)


SHOWN = ("letters", "committed", "rejected")


def _parsed(content: Any) -> dict[str, Outcome]:
    answer = RetriedByGroup.model_validate_json(content)
    return {name: Outcome(**retried.model_dump()) for name, retried in answer.root.items()}
