"""The experiments as the daemon tells them: asked for once for all browsers, and only while somebody looks."""

import time
from dataclasses import dataclass

from dashboard.feed.cache import TtlCache
from dashboard.feed.client import DaemonApi
from dashboard.feed.relay import RUN, NotThere, answer_of
from dashboard.tabs.interference.measured import Shown, of_live, of_record
from schemas.api import interference
from schemas.api.interference import Live, Record, Summary

AGAIN_S = 0.9
"""While one runs; otherwise nothing changes but by orders and other people's doing."""
IDLE_S = 2.0
PAST_EVERY_S = 10.0
RECORD_S = 20.0
RECORDS = 6
"""Records that are kept at least while they are new; each is some 100 kB."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """live: the one that runs, as far as it is. past: those that were; `version` grows when that list changes."""

    live: Live | None
    past: list[Summary]
    version: int

    def wanted(self, chosen: str | None, running: str | None) -> str | None:
        """The one to show: what the address names; without a name what runs now, or else what ran last."""
        live = None if self.live is None else self.live.id
        return chosen or live or running or (self.past[0].id if self.past else None)


class Experiments:
    """What is known of the experiment that runs and of those that were."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api
        self._answers = TtlCache[Known]()
        self._records = TtlCache[Record | str](RECORDS)
        self._known = Known(live=None, past=[], version=0)
        self._past_until_s = 0.0

    async def known(self, *, is_running: bool) -> Known:
        """What is known now. Raises DaemonUnavailable or NotThere: the daemon does not answer."""
        return await self._answers.get("", AGAIN_S if is_running else IDLE_S, self._ask)

    async def shown(self, known: Known, chosen: str | None, running: str | None) -> tuple[Shown | None, str]:
        """The experiment to show, and why it cannot be: "" without a reason. Raises DaemonUnavailable."""
        wanted = known.wanted(chosen, running)
        if known.live is not None and known.live.id == wanted:
            return of_live(known.live), ""
        if wanted is None or wanted == running:
            return None, ""
        found = await self._records.get(wanted, RECORD_S, lambda: self._record(wanted))
        return (None, found) if isinstance(found, str) else (of_record(found), "")

    async def _record(self, name: str) -> Record | str:
        try:
            if RUN.fullmatch(name):
                return await answer_of(self._api, Record, f"/interference/{name}")
            problem = "it is no id of an experiment"
        except NotThere as nothing:
            problem = str(nothing)
        return f"The experiment {name} cannot be shown: {problem}."

    async def _ask(self) -> Known:
        before, now_s = self._known, time.monotonic()
        wants_past = now_s >= self._past_until_s
        found = await self._since(before.live, past=wants_past)
        live = found.live
        if live is not None and before.live is not None:
            if live.id == before.live.id:
                samples, blocks = [*before.live.samples, *live.samples], [*before.live.blocks, *live.blocks]
                live = live.model_copy(update={"samples": samples, "blocks": blocks})
            else:  # the counts were those of another experiment
                live = (await self._since(None, past=False)).live
        if wants_past:
            self._past_until_s = now_s + PAST_EVERY_S
        if (live and live.id) != (before.live and before.live.id):
            self._past_until_s = 0.0  # one has joined those that were, or will soon
        past = found.past if wants_past else before.past
        self._known = Known(live=live, past=past, version=before.version + (past != before.past))
        return self._known

    async def _since(self, live: Live | None, *, past: bool) -> interference.Experiments:
        known = {"after": len(live.samples) if live else 0, "blocks": len(live.blocks) if live else 0}
        return await answer_of(self._api, interference.Experiments, "/interference", **known, past=int(past))
