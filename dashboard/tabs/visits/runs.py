"""Runs of visits as the page knows them: asked for once for all browsers, while one looks, no finer than is seen."""

import time
from dataclasses import dataclass

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.relay import TtlCache, answer_of
from dashboard.tabs.runs import KnownRuns, ShownRun, Tick
from schemas.api.visits import Visits, VisitsFigures, VisitsStatus, VisitsSummary

EVERY_S = 3.0
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
class Shown(ShownRun[VisitsStatus, VisitsSummary]):
    """The run that is shown, and its figures."""

    figures: VisitsFigures | None = None

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


class VisitRuns(KnownRuns[VisitsStatus, Visits, Known]):
    """Runs of visits."""

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        super().__init__("visits", "Visits", hub, lambda: answer_of(api, Visits, "/visits"), MOST)
        self._api = api
        self._due = TtlCache[Known]()

    async def ask(self, run: str) -> Known:
        """The figures of a run.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer, or knows no such run.
        """
        state, done = self._at(run)
        return await self._due.get((run, state), EVERY_S, lambda: self._ask_if_grown(run, (state, done)))

    def shown(self, tick: Tick) -> Shown:
        """The run that is chosen, as far as it is known."""
        run = self.chosen_run(tick)
        known = self.known(run["id"])
        return Shown(**run, figures=None if known is None else known.figures)

    def _at(self, run: str) -> tuple[str, int]:
        status = self.status
        return (status.state, status.here) if status is not None and status.id == run else ("kept", 0)

    async def _ask_if_grown(self, run: str, at: tuple[str, int]) -> Known:
        known = self.known(run)
        if known is None or has_grown(known.of, at):
            found = await answer_of(self._api, VisitsFigures, "/visits/figures", id=run, points=POINTS)
            known = following(known, found, at)
        return self.hold(run, known)


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
