"""What the runs of workloads that a tab shows have in common: which there are, states in words, tiles, what is told."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from dash import Dash, Input, Output, html, no_update, set_props

from dashboard.feed.client import DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.feed.relay import NotThere, TtlCache
from dashboard.tabs.parts import aria, choose
from dashboard.tabs.tables import Row, pressed
from dashboard.words import NONE

PAST_EVERY_S = 10.0
STATES = {
    "starting": "◔ starting",
    "running": "● running",
    "stopping": "◑ stopping",
    "finished": "✓ finished",
    "stopped": "◼ stopped",
    "interrupted": "✕ interrupted",
    "failed": "✕ failed",
}
"""By `RunState`."""

Tick = dict[str, Any] | None
Props = dict[str, dict[str, Any]]
"""By id of an element the properties of it."""


class Named(Protocol):
    """A line of the list of past runs."""

    @property
    def id(self) -> str:
        """By which it is asked for."""


class RunStatus(Named, Protocol):
    """The status of a run."""

    @property
    def state(self) -> str:
        """A `RunState`."""

    @property
    def is_active(self) -> bool:
        """Whether it has not ended yet."""


class Listing(Protocol):
    """What the daemon tells of the runs that were."""

    @property
    def past(self) -> Sequence[Named]:
        """The newest first."""

    @property
    def settings(self) -> object:
        """Of a run that is started without any."""


class Stamped(Protocol):
    """What is known of a run."""

    @property
    def stamp(self) -> int:
        """Another one whenever there is more."""


S = TypeVar("S", bound=RunStatus)
L = TypeVar("L", bound=Listing)
K = TypeVar("K", bound=Stamped)


class KnownRuns(ABC, Generic[S, L, K]):
    """The run under way, which the status stream tells of, and those that were, each with what is known of it.

    Args:
        kind: the field of the status that has it, the choice in the address that names one, and the first word of the
            ids of elements.
        words: the runs in a sentence.
        ask: lists those that were.
        most: so many runs are held with what is known of them.

    listed: the past runs. version: of that list, another one whenever it changes.
    """

    def __init__(self, kind: str, words: str, hub: Hub, ask: Callable[[], Awaitable[L]], most: int) -> None:
        self.kind = kind
        self._words = words
        self._hub = hub
        self._ask_past = ask
        self._most = most
        self._lists = TtlCache[L]()
        self._known: OrderedDict[str, K] = OrderedDict()
        self.listed: L | None = None
        self.version = 0

    @property
    def status(self) -> S | None:
        """Of the run under way, or of the last one since the daemon started."""
        found: S | None = None if self._hub.status is None else getattr(self._hub.status, self.kind)
        return found

    @abstractmethod
    async def ask(self, run: str) -> K:
        """Have what is known of a run be no older than is seen.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer, or knows no such run.
        """

    async def asked(self, view: Mapping[str, Any]) -> str:
        """Have the runs, and what is known of the one that is chosen; why not, in one line, else empty."""
        try:
            await self.ask_list()
            if run := self.chosen(view):
                await self.ask(run)
        except DaemonUnavailable as problem:
            return f"{self._words} are unknown: {problem}."
        except NotThere as problem:
            if self.listed is None:
                return f"{self._words} are unknown: the daemon knows nothing of them, it is of an earlier version."
            # Of one that has only begun there is nothing yet.
            return f"The run {view[self.kind]} cannot be shown: {problem}." if view.get(self.kind) else ""
        return ""

    def marks(self, view: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What changes with what is known of the chosen run, and what with the list."""
        run = self.chosen(view)
        known = self.known(run)
        return {"run": run, "stamp": known.stamp if known else 0}, {"run": run, "version": self.version}

    async def ask_list(self) -> None:
        """Have `listed` be no older than is seen.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer, or does not know such runs.
        """
        now = None if self.status is None else (self.status.id, self.status.state)
        before = self.listed
        self.listed = await self._lists.get(now, PAST_EVERY_S, self._ask_past)
        if before is None or (before.past, before.settings) != (self.listed.past, self.listed.settings):
            self.version += 1

    def known(self, run: str) -> K | None:
        """What was asked for last of a run."""
        return self._known.get(run)

    def hold(self, run: str, known: K) -> K:
        """Keep what is known of a run in place of what was."""
        self._known[run] = known
        self._known.move_to_end(run)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return known

    def chosen(self, view: Mapping[str, Any]) -> str:
        """The run that the address names; without one what runs now or ran last; empty where there is none."""
        newest = self.listed.past[0].id if self.listed is not None and self.listed.past else ""
        return str(view.get(self.kind) or (newest if self.status is None else self.status.id))

    def chosen_run(self, tick: Tick) -> dict[str, Any]:
        """The run that is chosen: the fields of a `ShownRun`; tick: see parts.tick."""
        given = tick or {"view": {}, "dead": True}
        run = self.chosen(given["view"])
        past = [] if self.listed is None else self.listed.past
        return {
            "id": run,
            "live": self.status if self.status is not None and self.status.id == run else None,
            "kept": next((one for one in past if one.id == run), None),
            "is_listed": self.listed is not None,
            "is_dead": bool(given["dead"]),
            "is_busy": self.status is not None and self.status.is_active,
        }


def problem_props(problem: str, said: str) -> tuple[Any, Any]:
    """What shows a problem, or that there is none: text, and whether it is hidden; said: what is there."""
    return (no_update, no_update) if problem == said else (problem, not problem)


def differing(now: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """What differs from before, and nothing to set in place of the rest."""
    return [no_update if found == had else found for found, had in zip(now, before, strict=True)]


def past_callbacks(
    app: Dash,
    runs: KnownRuns[Any, Any, Any],
    rows: Callable[[Sequence[Any], str], list[Row]],
    note: Callable[[Sequence[Any]], str],
) -> None:
    """Register what fills the table of past runs, and shows the one that is pressed.

    rows: lines of the table, of past runs and the id of the one that is shown. note: stands beside it.
    """
    table = f"{runs.kind}-past-table"

    @app.callback(
        Output(table, "rowData"),
        Output(f"{runs.kind}-past-note", "children"),
        Input(f"{runs.kind}-listed", "data"),
        prevent_initial_call=True,
    )
    async def listed(named: dict[str, Any]) -> Any:
        past = [] if runs.listed is None else runs.listed.past
        return rows(past, named["run"]), note(past)

    @app.callback(Input(table, "cellRendererData"), prevent_initial_call=True)
    async def show(given: dict[str, Any]) -> None:
        choose(**{runs.kind: pressed(given)})


P = TypeVar("P")


@dataclass(frozen=True, kw_only=True)
class ShownRun(Generic[S, P]):
    """The run that is shown.

    id: empty is none. live: its status, where it is the one that the daemon tells of. kept: its line among the past
    runs. is_listed: whether these are known at all. is_dead: whether nothing comes from the daemon. is_busy: whether a
    run is under way, this one or another.
    """

    id: str
    live: S | None = None
    kept: P | None = None
    is_listed: bool = True
    is_dead: bool = False
    is_busy: bool = False


@dataclass(frozen=True, kw_only=True)
class Tile:
    """What a tile shows. is_over: whether it stands out."""

    value: str = NONE
    unit: str = ""
    note: str = ""
    is_over: bool = False


def tiles_section(run: str, tiles: Sequence[tuple[str, str]]) -> Any:
    """Tiles of a run from (name, label), the first one being its state; `tile_props` fills them."""
    shown = [_tile(f"{run}-tile-{name}", label) for name, label in tiles]
    return html.Section(shown, id=f"{run}-tiles", className="tiles run-tiles", **aria("Figures of the run"))


def _tile(at: str, label: str) -> Any:
    value = html.Span(NONE, id=f"{at}-value", className="value")
    unit = html.Span("", id=f"{at}-unit", className="unit")
    note = html.P("", id=f"{at}-note", className="aside")
    return html.Div([html.H2(label), html.P([value, unit], className="number"), note], id=at, className="tile")


def without_data(tiles: Mapping[str, Tile]) -> Mapping[str, Tile]:
    """Tiles while nothing comes from the daemon: no figure looks as if it were of now."""
    return {name: Tile(unit=tile.unit, note=tile.note) for name, tile in tiles.items()}


def tile_props(run: str, tiles: Mapping[str, Tile]) -> Props:
    """What sets the tiles of a run."""
    props: Props = {}
    for name, tile in tiles.items():
        at = f"{run}-tile-{name}"
        props[at] = {"data-level": "over" if tile.is_over else None}
        props[f"{at}-value"] = {"children": tile.value}
        props[f"{at}-unit"] = {"children": tile.unit}
        props[f"{at}-note"] = {"children": tile.note}
    return props


def set_changed(now: Props, before: Mapping[str, Any]) -> Props:
    """Set what differs from before, from within a callback; returns that.

    Each change costs a browser more than all of the comparison.
    """
    changed = {name: props for name, props in now.items() if before.get(name) != props}
    for name, props in changed.items():
        set_props(name, props)
    return changed


def newer(one: Tick, other: Tick) -> Tick:
    """The later of two ticks: a choice is in both, but they do not come at the same time."""
    return max((tick for tick in (one, other) if tick), key=lambda tick: tick["at"] or 0, default=None)
