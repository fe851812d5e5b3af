"""Runs of visits as browsers see them: asked for once for all, only while somebody looks, and no finer than is seen."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.relay import RUN, NotThere, answer_of, file_of, json_answer
from schemas.api.visits import Visits, VisitsFigures, VisitsStatus

EVERY_S = 3.0
PAST_EVERY_S = 10.0
FINENESS = 400
"""Figures are asked for again when there are so many-th more visits: less would not move a line by a pixel."""

POINTS = 900
"""Visits that are drawn at most; beyond it a chart has no more pixels for points of their size."""

MOST = 8
"""Runs whose figures are held."""

DRAWN = ("visit", "visit_s", "select_s", "store_s", "ra", "decl")


@dataclass(slots=True)
class Shown:
    """Figures of a run.

    stamp: of the figures that are held, another one also after a restart. same: so many of the points stand as they
    did at the stamp before.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked_s: float = 0.0
    asked_at: tuple[str, int] | None = None
    stamp: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    same: int = 0
    columns: dict[str, list[float]] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)

    def take(self, found: VisitsFigures) -> None:
        """Take figures in place of those that are held."""
        columns = {name: _short(name, found.columns.get(name, [])) for name in DRAWN}
        before, now = self.columns.get("visit", []), columns["visit"]
        # Points that were all there are followed by those that came since; once they are thinned all of them change.
        self.same = len(before) if before and now[: len(before)] == before else 0
        self.columns, self.rest = columns, found.model_dump(mode="json", by_alias=True, exclude={"columns"})
        self.stamp += 1

    def since(self, stamp: int) -> dict[str, Any]:
        """What a browser lacks that has the figures of a stamp; points `from` that place on are new."""
        if stamp == self.stamp:
            return {"stamp": stamp}
        from_ = self.same if stamp == self.stamp - 1 else 0
        tails = {name: column[from_:] for name, column in self.columns.items()}
        return {"stamp": self.stamp, "from": from_, "columns": tails} | self.rest


class VisitRuns:
    """What is known of the run under way and of those that were.

    status: of the run under way, as the status stream had it last.
    """

    def __init__(self, api: DaemonApi, status: Callable[[], VisitsStatus | None]) -> None:
        self._api = api
        self._status = status
        self._asking = asyncio.Lock()
        self._past_until_s = 0.0
        self._past_of: tuple[str, str] | None = None
        self._past: list[dict[str, Any]] = []
        self._settings: dict[str, Any] = {}
        self._version = 0
        self._shown: OrderedDict[str, Shown] = OrderedDict()

    async def since(self, run: str, stamp: int, version: int) -> dict[str, Any]:
        """What a browser lacks that has the figures of a run up to a stamp, and this version of the list of runs.

        run: empty is the one under way, or else the newest.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer.
        """
        async with self._asking:
            await self._ask_runs()
        status = self._status()
        newest = self._past[0]["id"] if self._past else ""
        asked = run or (status.id if status is not None else newest)
        figures, problem = None, ""
        if asked:
            try:
                figures = (await self._figures(asked, status)).since(stamp if asked == run else 0)
            except NotThere as unknown:
                problem = str(unknown)
        return {
            "version": self._version,
            "past": None if version == self._version else self._past,
            "settings": None if version == self._version else self._settings,
            "run": asked or None,
            "figures": figures,
            "problem": problem,
        }

    async def _ask_runs(self) -> None:
        status = self._status()
        now = None if status is None else (status.id, status.state)
        if time.monotonic() < self._past_until_s and now == self._past_of:
            return
        found = await answer_of(self._api, Visits, "/visits")
        known = found.model_dump(mode="json", by_alias=True)
        if (known["past"], known["settings"]) != (self._past, self._settings):
            self._past, self._settings, self._version = known["past"], known["settings"], self._version + 1
        self._past_until_s, self._past_of = time.monotonic() + PAST_EVERY_S, now

    async def _figures(self, run: str, status: VisitsStatus | None) -> Shown:
        shown = self._shown.setdefault(run, Shown())
        self._shown.move_to_end(run)
        while len(self._shown) > MOST:
            self._shown.popitem(last=False)
        at = (status.state, status.here) if status is not None and status.id == run else ("kept", 0)
        async with shown.lock:
            if _is_due(shown, at):
                shown.take(await answer_of(self._api, VisitsFigures, "/visits/figures", id=run, points=POINTS))
                shown.asked_s, shown.asked_at = time.monotonic(), at
        return shown


def _is_due(shown: Shown, at: tuple[str, int]) -> bool:
    if shown.asked_at is None:
        return True
    (state, here), (was, known) = at, shown.asked_at
    if state != was:
        return True
    grown = here - known
    return grown > 0 and grown * FINENESS >= known and time.monotonic() - shown.asked_s >= EVERY_S


def _short(name: str, column: list[float]) -> list[float]:
    """To what a chart can show: it travels to every browser."""
    if name == "visit":
        return column
    return [float(f"{value:.4g}") for value in column]


def visit_routes(api: DaemonApi, status: Callable[[], VisitsStatus | None]) -> APIRouter:
    """`GET /answers/visits`, and what there is of a run."""
    routes = APIRouter(prefix="/answers/visits")
    runs = VisitRuns(api, status)

    @routes.get("")
    async def overview(run: str = "", stamp: Annotated[int, Query(ge=0)] = 0, version: int = 0) -> Response:
        if run and not RUN.fullmatch(run):
            return json_answer(404, {"detail": f"there is no run {run!r}"})
        try:
            return json_answer(200, await runs.since(run, stamp, version))
        except DaemonUnavailable as problem:
            return json_answer(502, {"detail": str(problem)})
        except NotThere:
            return json_answer(404, {"detail": "the daemon knows nothing of visits: it is of an earlier version"})

    @routes.get("/{run}/{kind}")
    async def file(run: str, kind: str) -> Response:
        return await file_of(api, "visits", run, kind)

    return routes
