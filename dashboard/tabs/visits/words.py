"""A run of visits in words: what it is, how far it is, and its tiles."""

from collections.abc import Mapping
from typing import Any

from dash import html

from dashboard import zone
from dashboard.tabs import runs
from dashboard.tabs.parts import ASKING
from dashboard.tabs.runs import Props, Tile, tile_props, without_data
from dashboard.tabs.visits.runs import Shown, Visit
from dashboard.words import NONE, about, count, moment, number, plain, seconds
from schemas.api.visits import VisitsFigures, VisitsStatus
from schemas.config.visits import Workers
from schemas.states import RunState

STATES = runs.STATES | {
    "visiting": "● running",
    "waiting": "◐ waiting for the next visit’s time",
    "compacting": "◒ compacting a period that ended",
    "stopping": "◑ stopping after this visit",
}

EMPTY: list[Any] = [
    "A run of visits stores and reads what a telescope’s exposures produce, one after another, ",
    "and shows how the seconds per visit grow with the history: start one below, with ",
    html.Code("triggerlog visits run"),
    ", or with ",
    html.Code("start = true"),
    " in ",
    html.Code("[visits]"),
    " of the configuration.",
]

FORM_NOTES = {True: "a run is active; stop it first", False: "continues with the visits already in the schema"}
"""What a start would do, by whether a run is under way."""


def told(shown: Shown) -> Props:
    """What stands above the charts, by id of an element the properties of it."""
    live = shown.live if shown.live is not None and shown.live.is_active and not shown.is_dead else None
    head = f"Run {shown.id}" if shown.id else "No run of visits yet" if shown.is_listed else "Visits"
    props: Props = {
        "visits-title": {"children": head},
        "visits-summary": {
            "children": summary(shown) if shown.id else ASKING,
            "hidden": not shown.id and shown.is_listed,
            "title": None if shown.live is None else shown.live.target,
        },
        "visits-empty": {"hidden": bool(shown.id) or not shown.is_listed},
        "visits-progress": {"hidden": live is None}
        | ({} if live is None else {"max": live.visits, "value": str(live.done)}),
        "visits-order": {"hidden": live is None},
        "visits-phase": {"children": "" if live is None else progress(live)},
        "visits-shown": {"hidden": not shown.is_there},
        "visits-form-note": {"children": FORM_NOTES[shown.is_busy]},
    }
    return props | tile_props("visits", tiles(shown))


def progress(live: VisitsStatus) -> str:
    """How far a run is."""
    left = "" if live.remaining_s is None else f" · about {about(live.remaining_s)} left"
    problem = f" · {live.problem}" if live.problem else ""
    return f"{count(live.done)} of {count(live.visits)} visits{left}{problem}"


def summary(shown: Shown) -> str:
    """When it was, what it was asked to do, and why it ended early."""
    live, kept, figures = shown.live, shown.kept, shown.figures
    parts = []
    if kept is not None:
        parts.append(f"{moment(kept.began_ns / 1e6)} {zone.label()}")
    elif live is not None:
        parts.append(f"since {moment(live.since_ns / 1e6)} {zone.label()}")
    mode = next((one.index_mode for one in (live, kept, figures) if one is not None), None)
    parts += [f"index mode {mode}"] if mode else []
    parts += [] if figures is None else _settings(figures)
    why = None
    if live is None:
        why = None if kept is None else kept.problem
    elif live.state in (RunState.FAILED, RunState.STOPPED):
        why = live.problem
    return " · ".join(parts) + (f". It ended early: {why}." if why else "")


def _settings(figures: VisitsFigures) -> list[str]:
    asked = figures.settings
    workers = {
        Workers.ONE: "one process",
        Workers.FORK: "one process per tile",
        Workers.PERSISTENT: f"{count(asked.processes)} processes",
    }
    return [
        f"schema {asked.schema_name}",
        f"scale {plain(asked.survey.scale)}",
        f"{asked.tiles} × {asked.tiles} tiles" if asked.tiles > 1 else "no tiles",
        workers[asked.workers],
        "all of the history" if asked.all_history else f"{plain(asked.history_days)} days of history",
    ]


def tiles(shown: Shown) -> Mapping[str, Tile]:
    """The tiles by name."""
    if shown.live is None:
        return _of_archive(shown)
    found = _of_live(shown.live, shown.last)
    return without_data(found) if shown.is_dead else found


def _of_live(live: VisitsStatus, last: Visit | None) -> Mapping[str, Tile]:
    is_slow = live.mean_s is not None and live.mean_s > live.limit_s
    state = STATES[live.phase if live.state is RunState.RUNNING else live.state]
    left, unit = about(live.remaining_s).split(" ") if live.remaining_s else (NONE, "")
    pace = "as fast as possible" if live.interval_s is None else f"one visit per {plain(live.interval_s)} s"
    return {
        "state": Tile(value=state, note=_state_note(live), is_over=live.state is RunState.FAILED),
        "done": Tile(
            value=count(live.done), unit=f"of {count(live.visits)}", note=f"{count(live.here)} of them by this run"
        ),
        "mean": _mean(live.mean_s, "mean of recent visits", live.limit_s, is_over=is_slow),
        "split": _split(last),
        "over": _over(live.over_limit, live.limit_s),
        "left": Tile(value=left, unit=unit, note="" if live.remaining_s is None else pace),
    }


def _of_archive(shown: Shown) -> Mapping[str, Tile]:
    figures = shown.figures
    if figures is None:
        return dict.fromkeys(("state", "done", "mean", "split", "over", "left"), Tile())
    ended = RunState.FINISHED if shown.kept is None else shown.kept.state
    visit = figures.columns["visit"]
    mean = figures.boxes[-1].mean if figures.boxes else None
    is_slow = mean is not None and mean > figures.limit_s
    return {
        "state": Tile(value=STATES.get(ended, STATES["visiting"]), note="from the archive"),
        "done": Tile(value=count(visit[-1] + 1 if visit else 0), unit=f"of {count(figures.settings.visits)}"),
        "mean": _mean(mean, "mean of the last bin", figures.limit_s, is_over=is_slow),
        "split": _split(shown.last),
        "over": _over(fraction_over(figures), figures.limit_s),
        "left": Tile(),
    }


def _mean(mean: float | None, of: str, limit_s: float, *, is_over: bool) -> Tile:
    return Tile(value=seconds(mean), unit="s", note=f"{of} · limit {plain(limit_s)} s", is_over=is_over)


def _split(last: Visit | None) -> Tile:
    if last is None:
        return Tile(unit="s")
    both = last.select_s + last.store_s
    share = f"of the last visit · {round(100 * last.select_s / both)} % select" if both else ""
    return Tile(value=f"{seconds(last.select_s)} / {seconds(last.store_s)}", unit="s", note=share)


def _over(fraction: float | None, limit_s: float) -> Tile:
    value = NONE if fraction is None else percent(fraction)
    return Tile(value=value, unit="%", note=f"took longer than {plain(limit_s)} s", is_over=bool(fraction))


def _state_note(live: VisitsStatus) -> str:
    if live.problem:
        return live.problem
    if live.waits_until_ns is not None:
        return f"next visit {moment(live.waits_until_ns / 1e6)} UTC"
    if live.visiting_s is not None and live.visiting_s > live.limit_s:
        return f"visit {count(live.done)} for {number(live.visiting_s, 0)} s so far"
    if not live.compactions:
        return f"index mode {live.index_mode}"
    # As long as the tile is wide; how many tables of ended periods were written anew, and how long that took.
    return f"{live.index_mode} · {count(live.compactions)} compacted, {number(live.compact_s, 1)} s"


def percent(fraction: float) -> str:
    """A fraction in %, with more digits where it is small."""
    return number(100 * fraction, 2 if 0 < fraction < 0.1 else 1 if 0 < fraction < 1 else 0)


def fraction_over(figures: VisitsFigures) -> float | None:
    """The fraction of all visits that took longer than the limit."""
    every = [(one.fraction, one.last - one.first + 1) for one in figures.over]
    visits = sum(size for _, size in every)
    return sum(fraction * size for fraction, size in every) / visits if visits else None
