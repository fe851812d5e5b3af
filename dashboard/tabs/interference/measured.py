"""What an experiment has measured, wherever it comes from: the one that runs, or the record of one that was."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.feed.client import DaemonApi
from dashboard.feed.relay import RUN, NotThere, TtlCache, answer_of
from schemas.api import interference
from schemas.api.interference import Block, Experiment, Live, Record, Result, Sample, Summary


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An experiment as the tab shows it; `record` is None while it runs."""

    id: str
    settings: Experiment
    budget_ms: float
    samples: Sequence[Sample]
    blocks: Sequence[Block]
    record: Record | None = None

    @property
    def result(self) -> Result | None:
        """What follows from it, once it is over."""
        return None if self.record is None else self.record.result

    @property
    def doses(self) -> list[int]:
        """Each number of readers that was tried, but 0."""
        return sorted({block.readers for block in self.blocks if block.kind == "B"})


def of_live(live: Live) -> Shown:
    """The experiment that runs."""
    return Shown(id=live.id, settings=live.settings, budget_ms=live.budget_ms, samples=live.samples, blocks=live.blocks)


def of_record(record: Record) -> Shown:
    """One that was."""
    return Shown(
        id=record.id,
        settings=record.settings,
        budget_ms=record.conditions.budget_ms,
        samples=record.timeline,
        blocks=record.blocks,
        record=record,
    )


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive values, of which there must be some."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def figure_of(block: Block, figure: str) -> float | None:
    """A figure of a block that counts; None where it has none, or 0."""
    value: Any = getattr(block, figure) if block.counts else None
    return float(value) if value else None


def by_neighbours(blocks: Sequence[Block], block: Block, figure: str) -> float | None:
    """A block of B divided by the geometric mean of the blocks of A next to it, as in the report."""
    value = figure_of(block, figure)
    near = [figure_of(one, figure) for one in blocks if abs(one.number - block.number) == 1]
    known = [one for one in near if one is not None]
    return None if value is None or len(known) < 2 else value / geometric_mean(known)


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
