"""What the tab Instruments asks of a group: who was missing when, and its newest trigger as an orbit."""

from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Query, Response

from daemon.web.errors import ApiError
from dashboard.feed.cache import TtlCache
from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.tabs.instruments.orbit import Plot, choices, plots, spread
from schemas.api.readings import Missing, Newest

MISSING_FRESH_S = 4.0
NEWEST_FRESH_S = 0.9
OLD_S = 3.0
"""A complete trigger older than this is not what the machine does now: the newest is shown, with some missing. Its age
is taken from the triggers since: an instrument's clock may be off."""

FEW = 10
"""Triggers behind the newest that are no age at all: they may not be committed yet."""

LASTS = (200, 1000, 10_000)
"""How many triggers somebody may look back at."""
LAST = 1000
"""Of these the default."""


def group_routes(hub: Hub, api: DaemonApi) -> APIRouter:
    """`GET /answers/groups/...`: once for all browsers that ask."""
    routes = APIRouter(prefix="/answers/groups")
    histories = TtlCache[Missing]()
    triggers = TtlCache[Newest]()

    @routes.get("/{group}/missing")
    async def missing(group: str, last: int = LAST) -> Response:
        _check(hub, group)
        if last not in LASTS:
            fix = f"use one of {', '.join(map(str, LASTS))}"
            raise ApiError(422, f"{last} triggers are not offered", fix, field="last")
        found = await histories.get((group, last), MISSING_FRESH_S, lambda: api.missing(group, last=last))
        return _json(found.model_dump())

    @routes.get("/{group}/orbit")
    async def orbit(group: str, choice: Annotated[str | None, Query(max_length=100)] = None) -> Response:
        _check(hub, group)
        found = await triggers.get(group, NEWEST_FRESH_S, lambda: _newest(hub, api, group))
        return _json(orbit_answer(found, hub.names[group], choice))

    return routes


def orbit_answer(newest: Newest, names: list[str], choice: str | None) -> dict[str, Any]:
    """A trigger as what is plotted of it, a value an instrument of `names`; the first choice if there is none such."""
    offered = choices(list(newest.channels))
    chosen = choice if choice in offered else offered[0]
    places = {name: number for number, name in enumerate(names)}
    numbers = [places[name] for name in newest.instruments]
    channels = {name: spread(numbers, values, len(names)) for name, values in newest.channels.items()}
    there = set(numbers)
    return {
        "run": newest.run,
        "trigger": newest.trigger,
        "time_ms": round(float(np.median(newest.time_ns)) / 1e6) if newest.time_ns else None,
        "missing": [number for number in range(len(names)) if number not in there] if newest.instruments else [],
        "choices": offered,
        "choice": chosen,
        "plots": [_plot(plot) for plot in plots(channels, newest.units, chosen)],
    }


async def _newest(hub: Hub, api: DaemonApi, group: str) -> Newest:
    complete = await api.newest(group, complete=True)
    if _is_of_now(hub, group, complete):
        return complete
    newest = await api.newest(group, complete=False)
    return newest if newest.time_ns else complete


def _is_of_now(hub: Hub, group: str, found: Newest) -> bool:
    now = None if hub.status is None else hub.status.groups.get(group)
    if now is None or now.triggers.newest is None or found.trigger is None or found.run != now.run:
        return False
    return now.triggers.newest - found.trigger <= max(FEW, OLD_S * now.triggers.rate)


def _plot(plot: Plot) -> dict[str, Any]:
    known = plot.values[np.isfinite(plot.values)]
    rms = float(np.sqrt(np.mean(np.square(known)))) if len(known) else None
    return {"name": plot.name, "unit": plot.unit, "values": [_rounded(value) for value in plot.values], "rms": rms}


def _rounded(value: float) -> float | None:
    """Six digits: a screen shows fewer."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _check(hub: Hub, group: str) -> None:
    if hub.problem is not None:
        raise DaemonUnavailable(hub.problem)
    if group not in hub.names:
        raise ApiError(404, f"the daemon has no group {group!r}, or its names are not known yet", "try again")


def _json(content: Any) -> Response:
    return Response(orjson.dumps(content), headers={"Cache-Control": "no-store"}, media_type="application/json")
