"""`triggerlog retention`: says what would be dropped and why, and lists what was."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

import typer

from backends.base import Store, StoreError
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.configuration.database import in_its_field, store_of
from daemon.core.moments import rfc3339
from daemon.core.outcome import CommandFailed, examples, reason_of
from daemon.retention.keeper import words_of
from daemon.retention.limits import aging, are_limited, decimated_of, disk_of, folder_of, newest_of, states_of, usage_of
from daemon.retention.planner import GIB, Plan
from daemon.retention.planner import plan as make_plan
from daemon.tools.answers import print_answer
from daemon.tools.options import App, AsJson, File, groups_of
from schemas.api.retention import DroppedPeriod
from schemas.decimation import Decimated
from schemas.retention import Dropped, Period

app = App(name="retention", help="Show which old readings are dropped, and why.", no_args_is_help=True)

T = TypeVar("T", Dropped, Decimated)

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
    print_answer(as_json, _as_json(made), lambda: _lines(loaded, made))


def _lines(loaded: LoadedConfig, made: Plan) -> Iterator[str]:
    if not are_limited(loaded.config):
        yield "Nothing is ever dropped: [retention] sets no limit."
        return
    for drop in made.drops:
        yield f"{period_words(drop.period)}, {drop.nbytes / GIB:,.3g} GiB: {drop.reason}"
    if not made.drops:
        yield "There is nothing to drop now."
    for short in made.short:
        yield f"Not met with all that may be dropped: {words_of(short)}."
    if made.next is not None:
        yield next_words(made.next.period, made.next.at_ns)


@app.command(
    "list", epilog=examples("triggerlog retention list beam.toml", "triggerlog retention list beam.toml --json")
)
def list_(file: File, group: Group = None, as_json: AsJson = False) -> None:
    """List what was dropped: which period, how much, when, and for which limit."""
    loaded = load_config(file)
    groups_of(loaded, group)  # refuses a name that is none
    wanted = of_group(asyncio.run(asked(loaded, lambda store: store.dropped())), group)
    document = [DroppedPeriod.of(each).model_dump(mode="json") for each in wanted]
    print_answer(as_json, document, lambda: map(_line, wanted), "Nothing was dropped.")


def of_group(account: Mapping[str, Sequence[T]], group: str | None) -> list[T]:
    """Return what was dropped or reduced of a group, or of all, in the order in which that began."""
    every = [each for name, of in account.items() if group in (None, name) for each in of]
    return sorted(every, key=lambda each: each.begun_ns)


def period_words(period: Period) -> str:
    """Return group, name and span of a period, for people."""
    return f"{period.group} {period.name} ({rfc3339(period.start_ns)} to {rfc3339(period.end_ns)})"


def period_row(period: Period) -> dict[str, object]:
    """Return group, name and span of a period, for JSON."""
    return {"group": period.group, "name": period.name, "start_ns": period.start_ns, "end_ns": period.end_ns}


def next_words(period: Period, at_ns: int) -> str:
    """Return which period is next by its age, for people."""
    return f"Next by age: {period.group} {period.name}, once there are readings of {rfc3339(at_ns)}."


def _line(each: Dropped) -> str:
    ended = "is being dropped" if each.dropped_ns is None else f"dropped {rfc3339(each.dropped_ns)}"
    return (
        f"{period_words(each.period)}: {ended} by"
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
                **period_row(drop.period),
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


A = TypeVar("A")


async def asked(loaded: LoadedConfig, ask: Callable[[Store], Awaitable[A]]) -> A:
    """Ask a store that is not opened.

    Raises:
        CommandFailed: it does not answer, or lacks what a daemon makes.
    """
    store = store_of(loaded)
    try:
        missing = await store.check()
        if missing:
            lacks = f"the database lacks {', '.join(missing)}"
            raise CommandFailed(f"{lacks}; start the daemon, or run what `triggerlog schema` prints, first")
        return await ask(store)
    except StoreError as error:
        raise CommandFailed(in_its_field(error, loaded.config)) from None
    finally:
        await store.close()
