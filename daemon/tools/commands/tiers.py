"""`triggerlog tiers`: says what would be moved and why, lists what lies where, and moves one partition by hand."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer

from backends.base import Partition, PeriodTouched, Store, Tiered
from backends.counting import Counting
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.moments import rfc3339
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, examples
from daemon.core.outside import Outside
from daemon.retention.limits import newest_of
from daemon.retention.planner import GIB
from daemon.tiers.heat import Heat, HeatFile, heat_of
from daemon.tiers.keeper import moved_patiently, words_of
from daemon.tiers.limits import MoveRefused, aging, half_life_s, mib_per_s_of, move_by_hand, named, planned, tiers_of
from daemon.tiers.pace import Paced
from daemon.tiers.planner import Plan, Tier, name_of
from daemon.tools.answers import print_answer
from daemon.tools.commands.retention import asked, period_row
from daemon.tools.options import App, AsJson, File
from schemas.checking.dsn import Feature, require
from schemas.checking.problems import Problem, wrong
from schemas.config.retention import NEWEST

app = App(
    name="tiers",
    help="Show which old readings are moved to cheaper disks, and why; move some by hand.",
    no_args_is_help=True,
)


@app.command("plan", epilog=examples("triggerlog tiers plan beam.toml", "triggerlog tiers plan beam.toml --json"))
def plan(file: File, as_json: AsJson = False) -> None:
    """Say what the daemon would move now and why, and what time moves next; nothing is changed.

    What something waits for in a running daemon is not known here: it stays longer. What is read is known where the
    state folder is.
    """
    loaded = _with_tiers(file)
    made, heat = asyncio.run(asked(loaded, lambda store: _planned(loaded, store)))
    print_answer(as_json, _as_json(made, heat), lambda: _lines(made, heat))


def _lines(made: Plan, heat: Heat) -> Iterator[str]:
    for move in made.moves:
        where = f"{move.period.group} {move.period.name} from {move.source} to {move.target.name}"
        yield f"{where}, {move.nbytes / GIB:,.3g} GiB, {_hot(heat.of(move.period.label))}: {move.reason}"
    if not made.moves:
        yield "There is nothing to move now."
    for short in made.short:
        yield f"Not met with all that may move: {words_of(short)}."
    if made.next is not None:
        what = f"{made.next.period.group} {made.next.period.name} to {made.next.tier}"
        yield f"Next: {what}, at {rfc3339(made.next.at_ns)}."


@app.command("list", epilog=examples("triggerlog tiers list beam.toml", "triggerlog tiers list beam.toml --json"))
def list_(file: File, as_json: AsJson = False) -> None:
    """List the partitions of every group, the oldest first: what time they hold, their size, tier and heat."""
    loaded = _with_tiers(file)
    tiers = tiers_of(loaded.config)
    found, heat = asyncio.run(asked(loaded, lambda store: _seen(loaded, store)))
    rows = [(group, each) for group, of in found.items() for each in of if each.readings_bytes is not None]

    def line(group: str, each: Partition) -> str:
        what = f"{named(each.place, tiers)}, {each.size_bytes / GIB:,.3g} GiB, about {each.rows:,} rows"
        return f"{group} {each.name}: {what}, {_hot(heat.of((group, each.name)))}"

    document = [_row(group, each, tiers, heat) for group, each in rows]
    print_answer(as_json, document, lambda: [line(group, each) for group, each in rows])


@app.command("move", epilog=examples("triggerlog tiers move beam.toml bpm 20260101 slow"))
def move(
    file: File,
    group: Annotated[str, typer.Argument(help="The group.", show_default=False)],
    partition: Annotated[str, typer.Argument(help="The partition, as `list` names it.", show_default=False)],
    tier: Annotated[str, typer.Argument(help="The tier to move it to.", show_default=False)],
) -> None:
    """Move one partition to a tier, also while the daemon runs.

    A partition that is moved back to an earlier tier stays there until a limit of that tier asks for it.
    """
    loaded = _with_tiers(file)
    said = asyncio.run(asked(loaded, lambda store: _moved(loaded, store, group, partition, tier)))
    typer.echo(said)


async def _moved(loaded: LoadedConfig, store: Store, group: str, partition: str, tier: str) -> str:
    try:
        found = await store.partitions()
        wanted = move_by_hand(loaded.config, found, group, partition, tier, now_ns=time.time_ns())
    except MoveRefused as refused:
        see = "; `list` names them" if refused.part == "partition" and not refused.is_there else ""
        raise CommandFailed(f"{refused.part.upper()}: {refused}{see}") from None
    if wanted is None:
        return f"{partition} of {group} lies in {tier} already."
    assert isinstance(store, Tiered)
    began_s = time.monotonic()
    try:
        await moved_patiently(store, wanted, Paced(wanted.nbytes, mib_per_s_of(loaded.config, tier)))
    except PeriodTouched as error:
        raise CommandFailed(f"{error}; it stays where it is, try it again") from None
    size = f"{wanted.nbytes / GIB:,.3g} GiB in {time.monotonic() - began_s:,.1f} s"
    return f"{partition} of {group} was moved from {wanted.source} to {tier}: {size}."


def _with_tiers(file: File) -> LoadedConfig:
    loaded = load_config(file)
    require(loaded.config.database.backend, Feature.TIERS)
    if not loaded.config.tiers:
        raise CommandFailed(f"tiers: {loaded.path} has none; add `[[tiers]]` for each place that readings may lie in")
    return loaded


async def _planned(loaded: LoadedConfig, store: Store) -> tuple[Plan, Heat]:
    newest = await newest_of(store, aging(loaded.config))
    found, heat = await _seen(loaded, store)
    now_ns = time.time_ns()
    return planned(loaded.config, found, await store.dropped(), {}, newest=newest, now_ns=now_ns, heat=heat), heat


async def _seen(loaded: LoadedConfig, store: Store) -> tuple[Mapping[str, Sequence[Partition]], Heat]:
    """The partitions, and their heat as the daemon has kept it, with what was read since."""
    outside = Outside.real()
    now = outside.clock.now()
    kept = await HeatFile(loaded.state_dir, outside, Events()).load()
    heat = heat_of(kept, half_life_s(loaded.config), now.utc_ns)
    found = await store.partitions()
    # Where our own readers count, the daemon knows what they have read, and has kept it with the rest.
    is_told = isinstance(store, Counting) and store.take_read() is not None
    heat.look(found, now, asked={} if is_told else None)
    return found, heat


async def look_at_tiers(loaded: LoadedConfig) -> tuple[Problem, ...]:
    """Ask a database that is written to whether the tiers have room for what always stays in them."""
    if not loaded.config.tiers or loaded.config.database.dsn is None:
        return ()
    made, _ = await asked(loaded, lambda store: _planned(loaded, store))
    number = {tier.name: i for i, tier in enumerate(loaded.config.tiers)}
    fix = f"raise it, or set a shorter `database.partition`: the {NEWEST} newest of a group never move"
    return tuple(wrong(words_of(each), fix, f"tiers[{number[each.tier]}].max_gib") for each in made.short)


def _hot(s_a_day: float | None) -> str:
    return "heat unknown" if s_a_day is None else f"heat {s_a_day:,.3g} s a day"


def _row(group: str, each: Partition, tiers: Sequence[Tier], heat: Heat) -> Mapping[str, object]:
    return {
        "group": group,
        "name": each.name,
        "start_ns": each.start_ns,
        "end_ns": each.end_ns,
        "rows": each.rows,
        "bytes": each.size_bytes,
        "tier": name_of(each.place, tiers),
        "heat_s_a_day": heat.of((group, each.name)),
    }


def _as_json(made: Plan, heat: Heat) -> Mapping[str, object]:
    return {
        "moves": [
            {
                **period_row(move.period),
                "from": move.source,
                "to": move.target.name,
                "reason": move.reason,
                "bytes": move.nbytes,
                "heat_s_a_day": heat.of(move.period.label),
            }
            for move in made.moves
        ],
        "short": [{"tier": each.tier, "bytes": each.nbytes} for each in made.short],
        "next": None
        if made.next is None
        else {
            "group": made.next.period.group,
            "name": made.next.period.name,
            "tier": made.next.tier,
            "at_ns": made.next.at_ns,
        },
    }
