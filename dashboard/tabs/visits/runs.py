"""Runs of visits as the page knows them: asked for once for all browsers, while one looks, no finer than is seen."""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.feed.cache import TtlCache
from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.relay import answer_of
from schemas.api.visits import Visits, VisitsFigures, VisitsStatus, VisitsSummary

EVERY_S = 3.0
PAST_EVERY_S = 10.0
FINENESS = 400
"""Figures are asked for again when there are so many-th more visits: less would not move a line by a pixel."""

POINTS = 900
"""Visits that are drawn at most; beyond it a chart has no more pixels for points of their size."""

MOST = 8
"""Runs whose figures are held."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Figures of a run.

    of: the state of the run, and how many visits it had done when they were asked for. stamp: another one for other
    figures, also after a restart. same: so many of the points stand as they did at the stamp before.
    """

    figures: VisitsFigures
    of: tuple[str, int]
    stamp: int
    same: int = 0


@dataclass(frozen=True, kw_only=True)
class Visit:
    """What is told of a single visit; ra and decl in degrees."""

    visit: float
    ra: float
    decl: float
    select_s: float
    store_s: float


OF_VISIT = tuple(Visit.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The run that is shown.

    id: empty is none. live: its status, where it is the one that the daemon tells of. kept: its line among the past
    runs. is_listed: whether these are known at all. is_dead: whether nothing comes from the daemon. is_busy: whether a
    run is under way, this one or another.
    """

    id: str
    live: VisitsStatus | None = None
    kept: VisitsSummary | None = None
    figures: VisitsFigures | None = None
    is_listed: bool = True
    is_dead: bool = False
    is_busy: bool = False

    @property
    def is_there(self) -> bool:
        """Whether there is anything to draw."""
        return self.live is not None or self.figures is not None

    @property
    def last(self) -> Visit | None:
        """The newest visit."""
        if self.live is not None and self.live.last is not None:
            return Visit(**{name: getattr(self.live.last, name) for name in OF_VISIT})
        if self.figures is None or not self.figures.columns["visit"]:
            return None
        return Visit(**{name: self.figures.columns[name][-1] for name in OF_VISIT})


class VisitRuns:
    """What is known of the run under way, which the status stream tells of, and of those that were.

    listed: the past runs. version: of that list, another one whenever it changes.
    """

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        self._hub = hub
        self._api = api
        self._lists = TtlCache[Visits]()
        self._due = TtlCache[Known]()
        self._known: OrderedDict[str, Known] = OrderedDict()
        self.listed: Visits | None = None
        self.version = 0

    @property
    def status(self) -> VisitsStatus | None:
        """Of the run under way, or of the last one since the daemon started."""
        return None if self._hub.status is None else self._hub.status.visits

    async def ask_list(self) -> None:
        """Have `listed` be no older than is seen.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer, or does not know visits.
        """
        now = None if self.status is None else (self.status.id, self.status.state)
        before = self.listed
        self.listed = await self._lists.get(now, PAST_EVERY_S, lambda: answer_of(self._api, Visits, "/visits"))
        if before is None or (before.past, before.settings) != (self.listed.past, self.listed.settings):
            self.version += 1

    async def ask(self, run: str) -> Known:
        """The figures of a run.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer, or knows no such run.
        """
        state, done = self._at(run)
        return await self._due.get((run, state), EVERY_S, lambda: self._ask_if_grown(run, (state, done)))

    def known(self, run: str) -> Known | None:
        """The figures of a run that were asked for last."""
        return self._known.get(run)

    def chosen(self, view: Mapping[str, Any]) -> str:
        """The run that the address names; without one what runs now or ran last; empty where there is none."""
        newest = self.listed.past[0].id if self.listed is not None and self.listed.past else ""
        return str(view.get("visits") or (newest if self.status is None else self.status.id))

    def shown(self, tick: Mapping[str, Any] | None) -> Shown:
        """The run that is chosen, as far as it is known; tick: see parts.tick."""
        given = tick or {"view": {}, "dead": True}
        run = self.chosen(given["view"])
        known = self._known.get(run)
        past = [] if self.listed is None else self.listed.past
        return Shown(
            id=run,
            live=self.status if self.status is not None and self.status.id == run else None,
            kept=next((one for one in past if one.id == run), None),
            figures=None if known is None else known.figures,
            is_listed=self.listed is not None,
            is_dead=bool(given["dead"]),
            is_busy=self.status is not None and self.status.is_active,
        )

    def _at(self, run: str) -> tuple[str, int]:
        status = self.status
        return (status.state, status.here) if status is not None and status.id == run else ("kept", 0)

    async def _ask_if_grown(self, run: str, at: tuple[str, int]) -> Known:
        known = self._known.get(run)
        if known is None or has_grown(known.of, at):
            found = await answer_of(self._api, VisitsFigures, "/visits/figures", id=run, points=POINTS)
            known = self._known[run] = following(known, found, at)
        self._known.move_to_end(run)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return known


def has_grown(was: tuple[str, int], at: tuple[str, int]) -> bool:
    """Whether a chart would show the change between two (state, visits done) of a run."""
    grown = at[1] - was[1]
    return at[0] != was[0] or (grown > 0 and grown * FINENESS >= was[1])


def following(before: Known | None, found: VisitsFigures, at: tuple[str, int]) -> Known:
    """Figures in place of those before."""
    if before is None:
        return Known(figures=found, of=at, stamp=time.time_ns() // 1_000_000)
    was, now = before.figures.columns["visit"], found.columns["visit"]
    # Points that were all there are followed by those that came since; once they are thinned all of them change.
    return Known(figures=found, of=at, stamp=before.stamp + 1, same=len(was) if was == now[: len(was)] else 0)
