"""The sentences about an experiment: what was asked of it, how far it is, and what follows from it."""

from dataclasses import dataclass

from dashboard import zone
from dashboard.tabs.interference.measured import Shown
from dashboard.tabs.runs import STATES
from dashboard.words import about, count, counted, lasted, moment, plain
from schemas.api.interference import Experiment, Record
from schemas.api.status import ExperimentStatus

EXPLAINED = (
    "An experiment alternates blocks with readers and blocks without, and shows how the reading affects the writing."
)


@dataclass(frozen=True, kw_only=True)
class Head:
    """What stands above the charts. verdict: "" while there is none; is_wrong: whether it warns."""

    title: str
    summary: str
    verdict: str
    is_wrong: bool


def head(shown: Shown | None, running: ExperimentStatus | None) -> Head:
    """Of the experiment that is shown, or why there is none."""
    if shown is None:
        title, summary = ("No experiment yet", EXPLAINED) if running is None else ("An experiment is starting", "")
        return Head(title=title, summary=summary, verdict="", is_wrong=False)
    record = shown.record
    is_steady = shown.result is None or shown.result.steady is not False
    return Head(
        title=f"Experiment {shown.id}",
        summary=_summary(shown),
        verdict="" if record is None else verdict(record),
        is_wrong=record is not None and (bool(record.problem) or not is_steady),
    )


def progress(running: ExperimentStatus) -> str:
    """How far the one that runs is."""
    readers = f", {counted(running.readers, 'reader')}" if running.readers else ""
    where = f"{running.phase} · block {running.block} of {running.blocks}{readers}"
    return f"{where} · about {about(running.left_s)} left"


def verdict(record: Record) -> str:
    """How it ended, and what follows from it."""
    parts = [] if record.state == "finished" else [f"{ended(record.state, record.problem)}."]
    if result := record.result:
        parts += [result.headline, result.steadiness, result.crossing_words]
    return " ".join(filter(None, parts))


def ended(state: str, problem: str | None) -> str:
    """How an experiment ended, and why."""
    return STATES.get(state, state) + (f": {problem}" if problem else "")


def remarks(record: Record | None) -> list[str]:
    """What else a reader has to know, and the command that repeats it: the last one."""
    return [] if record is None else [" ".join([*record.notes, "To repeat it: "]), record.command]


def lasts(pairs: float | str | None, block_s: float | str | None, doses: int) -> str:
    """How many blocks an experiment with so many doses has, and how long they take; "" while that is being typed."""
    try:
        blocks, each_s = 1 + 2 * int(float(pairs or 0)) * max(1, doses), float(block_s or 0)
        return f"{count(blocks)} blocks, {lasted(blocks * each_s)}" if blocks > 1 and each_s else ""
    except (ValueError, OverflowError):
        return ""


def _summary(shown: Shown) -> str:
    settings, record = shown.settings, shown.record
    parts = [] if record is None else [f"{moment(record.began_ns / 1e6)} {zone.label()}"]
    parts += [_who(settings), f"{_what(settings)} of {plain(settings.block_s)} s, {_warm_up(settings)}"]
    if record is not None:
        parts.append(f"{record.conditions.server}, {record.conditions.durability}")
    return " · ".join(parts)


def _who(settings: Experiment) -> str:
    return ", ".join(one.name if settings.doses else f"{one.name} ×{one.clients}" for one in settings.workloads)


def _what(settings: Experiment) -> str:
    if not settings.doses:
        return f"{settings.pairs} pairs of blocks"
    return f"doses of {', '.join(map(str, settings.doses))} clients, {settings.pairs} blocks of each"


def _warm_up(settings: Experiment) -> str:
    return f"of which the first {plain(settings.warm_up_s)} s are warm-up"
