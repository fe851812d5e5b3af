"""What the runs of workloads that a tab shows have in common: their states in words, their tiles, and what is told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html, set_props

from dashboard.tabs.parts import aria
from dashboard.words import NONE

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
