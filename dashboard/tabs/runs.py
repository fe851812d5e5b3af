"""What the runs of workloads that a tab shows have in common: which there are, states in words, tiles, what is told."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from dash import html, set_props

from dashboard.feed.cache import TtlCache
from dashboard.feed.hub import Hub
from dashboard.tabs.parts import aria
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


S = TypeVar("S", bound=RunStatus)
L = TypeVar("L", bound=Listing)
K = TypeVar("K")


class KnownRuns(Generic[S, L, K]):
    """The run under way, which the status stream tells of, and those that were, each with what is known of it.

    Args:
        kind: the field of the status that has it, and the choice in the address that names one.
        ask: lists those that were.
        most: so many runs are held with what is known of them.

    listed: the past runs. version: of that list, another one whenever it changes.
    """

    def __init__(self, kind: str, hub: Hub, ask: Callable[[], Awaitable[L]], most: int) -> None:
        self._kind = kind
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
        found: S | None = None if self._hub.status is None else getattr(self._hub.status, self._kind)
        return found

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
        return str(view.get(self._kind) or (newest if self.status is None else self.status.id))

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
