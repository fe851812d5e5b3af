"""What the tab Instruments shows of a group, asked and drawn once for all browsers that look."""

import hashlib
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import orjson

from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.feed.relay import TtlCache
from dashboard.tabs.instruments.drawer import STATE_WORDS
from dashboard.tabs.instruments.orbit import (
    OLD_S,
    Orbit,
    Span,
    missing_words,
    orbit_figure,
    orbit_note,
    orbit_of,
    span_of,
)
from dashboard.tabs.instruments.worst import leading, worst, worst_note, worst_rows
from dashboard.tabs.tables import Row
from schemas.api.readings import Missing, OneTrigger
from schemas.states import STATE_LETTERS

MISSING_FRESH_S = 4.0
A_GROUP_FRESH_S = 0.5
"""Of many groups each is asked less often, so that the daemon is asked as often as for a few."""

HOUR_S, LAST_MOST = 3600, 20_000
"""The daemon looks back at so many triggers at most."""

LISTED_MOST = 100
"""Rows of the worst of all groups."""

FOUND_MOST = 20
"""Instruments that a search offers."""

NEWEST_FRESH_S = 0.9
DRAWN_FRESH_S = 0.5
OF_NOW_S = 3.0
"""A complete trigger older than this is not what the machine does now: the newest is shown, with some missing. Its age
is taken from the triggers since: an instrument's clock may be off."""

FEW = 10
"""Triggers behind the newest that are no age at all: they may not be committed yet."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class WorstList:
    """The list of the worst. stamp: another one where the rows differ."""

    rows: list[Row]
    note: str
    stamp: str


@dataclass(frozen=True, kw_only=True)
class DrawnOrbit:
    """An orbit with its figure as JSON, and in words.

    key: another one where more of the figure differs than its values. note: which trigger it is. is_old: whether it is
    not what the machine does now. missing: who is missing from it.
    """

    orbit: Orbit
    spans: list[Span]
    figure: dict[str, Any]
    key: str
    missing: str
    note: str = ""
    is_old: bool = False


class Shown:
    """Both views of each group; in place of one that cannot be had there is the problem, in one line."""

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        self._hub = hub
        self._api = api
        self._histories = TtlCache[Missing | str]()
        self._lists = TtlCache[WorstList | str]()
        self._triggers = TtlCache[OneTrigger | str]()
        self._orbits = TtlCache[DrawnOrbit | str]()
        self._last: dict[tuple[str, str | None, bool], DrawnOrbit] = {}

    async def worst(self, groups: tuple[str, ...], last: int | None) -> WorstList | str:
        """The worst of the last triggers of these groups; last: so many of each, None those of an hour."""
        return await self._lists.get((groups, last), DRAWN_FRESH_S, lambda: self._worst(groups, last))

    def groups(self) -> tuple[str, ...]:
        """All groups that have triggers."""
        known = {} if self._hub.status is None else self._hub.status.groups
        return tuple(name for name, group in known.items() if group.folder is None)

    def can_calibrate(self, group: str) -> bool:
        """Whether a calibration is configured for a group."""
        now = None if self._hub.status is None else self._hub.status.groups.get(group)
        return now is not None and now.calibrated_by is not None

    async def orbit(self, group: str, choice: str | None, *, calibrated: bool = False) -> DrawnOrbit | str:
        """The newest trigger, of which `choice` is plotted; its position calibrated or not."""
        asked = (group, choice, calibrated)
        return await self._orbits.get(asked, DRAWN_FRESH_S, lambda: self._orbit(*asked))

    async def _worst(self, groups: tuple[str, ...], last: int | None) -> WorstList | str:
        found: list[tuple[int, Row]] = []
        bad_all = looked = 0
        for group in groups:
            if self._hub.status is None or (problem := self._problem(group)):
                return problem or ""
            history = await self._history(group, last, max(MISSING_FRESH_S, len(groups) * A_GROUP_FRESH_S))
            if isinstance(history, str):
                return history
            bad = worst(history, self._hub.status.groups[group].states)
            shown = leading(bad)
            rows = worst_rows(shown, history, self._hub.names[group])
            found += zip((one.missing for one in shown), rows, strict=True)
            bad_all, looked = bad_all + len(bad), looked + history.triggers
        listed = [each for _, each in sorted(found, key=lambda one: -one[0])[:LISTED_MOST]]
        stamp = hashlib.sha256(orjson.dumps(listed)).hexdigest()[:16]
        return WorstList(rows=listed, note=worst_note(len(listed), bad_all, looked), stamp=stamp)

    async def _history(self, group: str, last: int | None, fresh_s: float) -> Missing | str:
        rate = 0.0 if self._hub.status is None else self._hub.status.groups[group].triggers.rate
        asked = last or min(LAST_MOST, max(1, round(HOUR_S * rate)))
        return await self._histories.get((group, last), fresh_s, lambda: _answer(self._api.missing(group, last=asked)))

    def find(self, typed: str) -> list[dict[str, str]]:
        """Return the first instruments whose name has what is typed, to choose from, each with its state."""
        wanted, found = typed.strip().lower(), []
        status = self._hub.status
        for group, names in self._hub.names.items():
            states = status.groups[group].states if status and group in status.groups else ""
            for number, name in enumerate(names):
                if wanted and wanted in name.lower():
                    state = STATE_WORDS[STATE_LETTERS[states[number]]] if number < len(states) else ("", "unknown")
                    words = f"{name} · {group} · {state[0]} {state[1].partition(':')[0]}"
                    found.append({"value": f"{group}:{number}", "label": words})
                if len(found) == FOUND_MOST:
                    return found
        return found

    async def _orbit(self, group: str, choice: str | None, calibrated: bool) -> DrawnOrbit | str:
        before = self._last.get((group, choice, calibrated)) or self._last.get((group, None, calibrated))
        newest = self._problem(group) or await self._triggers.get(
            (group, calibrated), NEWEST_FRESH_S, lambda: _answer(self._newest(group, calibrated=calibrated))
        )
        if isinstance(newest, str):
            return newest if before is None else self._told(group, before, newest)
        drawn = self._drawn(group, orbit_of(newest, self._hub.names[group], choice), before)
        # Of an address that names no channel of the group, the default.
        self._last[group, choice if choice in drawn.orbit.choices else None, calibrated] = drawn
        return self._told(group, drawn)

    def _drawn(self, group: str, orbit: Orbit, before: DrawnOrbit | None) -> DrawnOrbit:
        known: Sequence[Span | None] = [None] * len(orbit.plots)
        if before is not None and before.orbit.choice == orbit.choice:
            known = before.spans
        spans = [span_of(plot.values, span) for plot, span in zip(orbit.plots, known, strict=True)]
        names = self._hub.names[group]
        epoch = self._hub.status.epoch if self._hub.status else 0
        return DrawnOrbit(
            orbit=orbit,
            spans=spans,
            figure=orbit_figure(orbit, names, spans),
            key=f"{group} {orbit.choice} {len(names)} {epoch} {orbit.plots[0].made}",
            missing=missing_words(orbit, names),
        )

    def _told(self, group: str, drawn: DrawnOrbit, problem: str = "") -> DrawnOrbit:
        """With its age. Why the daemon is gone is said above; why a question failed is not."""
        age_s = self._age_s(group, drawn.orbit)
        is_old = bool(problem) or age_s > OLD_S
        of = group if self._hub.status is not None and len(self._hub.status.groups) > 1 else ""
        note = orbit_note(drawn.orbit, age_s, is_old=is_old)
        said = problem if self._hub.problem is None else ""
        return replace(drawn, note=" · ".join(filter(None, (of, note, said))), is_old=is_old)

    def _problem(self, group: str) -> str | None:
        if self._hub.problem is not None:
            return self._hub.problem
        status = self._hub.status
        if status is not None and not status.groups:
            return "no group is known before the database has answered once"
        if status is None or group not in status.groups or group not in self._hub.names:
            return f"the daemon has no group {group!r}, or its names are not known yet"
        return None

    async def _newest(self, group: str, *, calibrated: bool) -> OneTrigger:
        complete = await self._api.newest(group, complete=True, calibrated=calibrated)
        if self._is_of_now(group, complete):
            return complete
        newest = await self._api.newest(group, complete=False, calibrated=calibrated)
        return newest if newest.time_ns else complete

    def _is_of_now(self, group: str, found: OneTrigger) -> bool:
        now = None if self._hub.status is None else self._hub.status.groups.get(group)
        if now is None or now.triggers.newest is None or found.trigger is None or found.run != now.run:
            return False
        return now.triggers.newest - found.trigger <= max(FEW, OF_NOW_S * now.triggers.rate)

    def _age_s(self, group: str, orbit: Orbit) -> float:
        """How old a trigger is, in s: by the triggers since, while there are any."""
        now = None if self._hub.status is None else self._hub.status.groups.get(group)
        if self._hub.problem is None and now and now.triggers.rate > 0 and now.triggers.newest is not None:
            since = now.triggers.newest - (orbit.trigger or 0)
            if since >= 0:
                return since / now.triggers.rate
        return max(0.0, time.time() - (orbit.time_ms or 0) / 1e3)


async def _answer(asking: Awaitable[T]) -> T | str:
    """The answer, or why there is none: that is kept like an answer, else everybody who waits would ask again."""
    try:
        return await asking
    except DaemonUnavailable as problem:
        return str(problem)
