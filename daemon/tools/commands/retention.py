"""`triggerlog retention`: says what would be dropped and why, and lists what was."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from backends.base import Store
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.moments import rfc3339
from daemon.core.outcome import CommandFailed, examples, reason_of
from daemon.retention.keeper import words_of
from daemon.retention.limits import aging, are_limited, decimated_of, disk_of, folder_of, newest_of, states_of, usage_of
from daemon.retention.planner import GIB, Plan
from daemon.retention.planner import plan as make_plan
from daemon.tools.in_store import asked
from daemon.tools.options import AsJson, File, groups_of
from schemas.api.retention import DroppedPeriod
from schemas.retention import Dropped

app = typer.Typer(
    name="retention",
    help="Show which old readings are dropped, and why.",
    no_args_is_help=True,
    add_completion=False,
)

Group = Annotated[str | None, typer.Option(help="Only this group.", show_default="all")]


@app.command(
    "plan", epilog=examples("triggerlog retention plan beam.toml", "triggerlog retention plan beam.toml --json")
)
def plan(file: File, as_json: AsJson = False) -> None:
    """Say what the daemon would drop now and why, and what age drops next; nothing is changed.

    What something waits for in a running daemon is not known here: it stays longer.
    """
    loaded = load_config(file)
    made = asyncio.run(asked(loaded, lambda store: _planned(loaded, store)))
    if as_json:
        typer.echo(json.dumps(_as_json(made), indent=2))
        return
    if not are_limited(loaded.config):
        typer.echo("Nothing is ever dropped: [retention] sets no limit.")
        return
    for drop in made.drops:
        span = f"{rfc3339(drop.period.start_ns)} to {rfc3339(drop.period.end_ns)}"
        typer.echo(f"{drop.period.group} {drop.period.name} ({span}), {drop.nbytes / GIB:,.3g} GiB: {drop.reason}")
    if not made.drops:
        typer.echo("There is nothing to drop now.")
    for short in made.short:
        typer.echo(f"Not met with all that may be dropped: {words_of(short)}.")
    if made.next is not None:
        following = made.next
        typer.echo(
            f"Next by age: {following.period.group} {following.period.name}, once there are readings of"
            f" {rfc3339(following.at_ns)}."
        )


@app.command(
    "list", epilog=examples("triggerlog retention list beam.toml", "triggerlog retention list beam.toml --json")
)
def list_(file: File, group: Group = None, as_json: AsJson = False) -> None:
    """List what was dropped: which period, how much, when, and for which limit."""
    loaded = load_config(file)
    groups_of(loaded, group)  # refuses a name that is none
    account = asyncio.run(asked(loaded, lambda store: store.dropped()))
    wanted = _wanted(account, group)
    if as_json:
        typer.echo(json.dumps([DroppedPeriod.of(each).model_dump(mode="json") for each in wanted], indent=2))
        return
    for each in wanted:
        typer.echo(_line(each))
    if not wanted:
        typer.echo("Nothing was dropped.")


def _wanted(account: Mapping[str, Sequence[Dropped]], group: str | None) -> list[Dropped]:
    every = [each for name, of in account.items() if group in (None, name) for each in of]
    return sorted(every, key=lambda each: each.begun_ns)


def _line(each: Dropped) -> str:
    period = each.period
    ended = "is being dropped" if each.dropped_ns is None else f"dropped {rfc3339(each.dropped_ns)}"
    return (
        f"{period.group} {period.name} ({rfc3339(period.start_ns)} to {rfc3339(period.end_ns)}): {ended} by"
        f" {each.rule}; {each.triggers:,} triggers, {each.readings:,} readings, {each.missing:,} missing,"
        f" {each.skipped:,} never came, {each.size_bytes / GIB:,.3g} GiB"
    )


async def _planned(loaded: LoadedConfig, store: Store) -> Plan:
    try:
        disk = disk_of(loaded.config, loaded.state_dir, usage_of)
    except OSError as error:
        folder = folder_of(loaded.config, loaded.state_dir)
        raise CommandFailed(
            f"retention.disk: {folder} cannot be looked at ({reason_of(error)}); name a folder of the database's disk"
        ) from None
    newest = await newest_of(store, aging(loaded.config))
    states = states_of(
        loaded.config,
        await store.partitions(),
        await store.dropped(),
        {},
        newest=newest,
        decimated=await decimated_of(store),
    )
    return make_plan(states, disk, time.time_ns())


def _as_json(made: Plan) -> Mapping[str, object]:
    return {
        "drops": [
            {
                "group": drop.period.group,
                "name": drop.period.name,
                "start_ns": drop.period.start_ns,
                "end_ns": drop.period.end_ns,
                "rule": drop.rule,
                "reason": drop.reason,
                "bytes": drop.nbytes,
            }
            for drop in made.drops
        ],
        "short": [{"group": each.group, "rule": each.rule, "bytes": each.nbytes} for each in made.short],
        "next": None
        if made.next is None
        else {"group": made.next.period.group, "name": made.next.period.name, "at_ns": made.next.at_ns},
    }
