"""`triggerlog decimation`: says what would be reduced and why, and lists what was."""

import asyncio
import time
from collections.abc import Iterator, Mapping

from backends.base import Decimating, Store
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.moments import rfc3339
from daemon.core.outcome import examples
from daemon.decimation.planner import Plan, aging, planned
from daemon.retention.limits import newest_of
from daemon.retention.planner import GIB
from daemon.tools.answers import print_answer
from daemon.tools.commands.retention import Group, asked, next_words, of_group, period_row, period_words
from daemon.tools.options import App, AsJson, File, groups_of
from schemas.checking.dsn import Feature, require
from schemas.decimation import Decimated

app = App(name="decimation", help="Show which old readings are reduced, and why.", no_args_is_help=True)


@app.command(
    "plan", epilog=examples("triggerlog decimation plan beam.toml", "triggerlog decimation plan beam.toml --json")
)
def plan(file: File, as_json: AsJson = False) -> None:
    """Say what the daemon would reduce now and why, and what age reduces next; nothing is changed.

    What something waits for in a running daemon is not known here, nor which periods late readings came for.
    """
    loaded = _loaded(file)
    made = asyncio.run(asked(loaded, lambda store: _planned(loaded, store)))
    print_answer(as_json, _as_json(made), lambda: _lines(loaded, made))


def _lines(loaded: LoadedConfig, made: Plan) -> Iterator[str]:
    if not loaded.config.reductions:
        yield "Nothing is ever reduced: [decimation] sets no age."
        return
    for each in made.reductions:
        yield f"{period_words(each.period)}, {each.nbytes / GIB:,.3g} GiB: {each.reason}"
    if not made.reductions:
        yield "There is nothing to reduce now."
    if made.next is not None:
        yield next_words(made.next.period, made.next.at_ns)


@app.command(
    "list", epilog=examples("triggerlog decimation list beam.toml", "triggerlog decimation list beam.toml --json")
)
def list_(file: File, group: Group = None, as_json: AsJson = False) -> None:
    """List what was reduced: which period, to what, how much, and when."""
    loaded = _loaded(file)
    groups_of(loaded, group)  # refuses a name that is none
    wanted = of_group(asyncio.run(asked(loaded, _account)), group)
    print_answer(as_json, [_row(each) for each in wanted], lambda: map(_line, wanted), "Nothing was reduced.")


def _loaded(file: File) -> LoadedConfig:
    loaded = load_config(file)
    require(loaded.config.database.backend, Feature.DECIMATION)
    return loaded


async def _account(store: Store) -> Mapping[str, tuple[Decimated, ...]]:
    return await store.decimated() if isinstance(store, Decimating) else {}


async def _planned(loaded: LoadedConfig, store: Store) -> Plan:
    config = loaded.config
    return planned(
        config,
        await store.partitions(),
        await store.dropped(),
        await _account(store),
        {},
        late={},
        newest=await newest_of(store, aging(config)),
        now_ns=time.time_ns(),
    )


def _line(each: Decimated) -> str:
    ended = "is being reduced" if each.ended_ns is None else f"reduced {rfc3339(each.ended_ns)}"
    return (
        f"{period_words(each.period)}: {ended} to"
        f" {each.how.words}; {each.triggers:,} triggers, {each.readings:,} readings, {each.size_bytes / GIB:,.3g} GiB"
        " before"
    )


def _row(each: Decimated) -> Mapping[str, object]:
    return {
        **period_row(each.period),
        "how": str(each.how),
        "begun_ns": each.begun_ns,
        "ended_ns": each.ended_ns,
        "triggers": each.triggers,
        "readings": each.readings,
        "bytes_before": each.size_bytes,
    }


def _as_json(made: Plan) -> Mapping[str, object]:
    return {
        "reductions": [
            {
                **period_row(each.period),
                "how": str(each.how),
                "reason": each.reason,
                "bytes": each.nbytes,
            }
            for each in made.reductions
        ],
        "next": None
        if made.next is None
        else {"group": made.next.period.group, "name": made.next.period.name, "at_ns": made.next.at_ns},
    }
