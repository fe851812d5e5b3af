"""The state that retention plans by: each group's limits and partitions, and the disk."""

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from backends.base import Decimating, Partition, Store
from daemon.pipeline.pipeline import Pipeline
from daemon.retention.planner import DAY_NS, GIB, DiskState, GroupState, TierThere
from schemas.config import Config, GroupConfig
from schemas.decimation import Decimated, figures_bytes
from schemas.queries import LedgerTail
from schemas.retention import Dropped, Period, Rule

Usage = Callable[[Path], tuple[int, int]]
"""Bytes of the disk of a folder: in all, and free; raises OSError."""


def usage_of(folder: Path) -> tuple[int, int]:
    """What the system says of a folder's disk."""
    found = shutil.disk_usage(folder)
    return found.total, found.free


def are_limited(config: Config) -> bool:
    """Whether anything may ever be dropped."""
    limits = [limit for section in config.groups for limit in limits_of(section, config)]
    return config.retention.min_free_percent is not None or any(limit is not None for limit in limits)


def limits_of(section: GroupConfig, config: Config) -> tuple[int | None, int | None]:
    """How long readings of a group are kept (ns), and what it may take (bytes); None without a limit."""
    own = section.retention
    keep_days = config.retention.keep_days if own.keep_days is None else own.keep_days
    max_gib = config.retention.max_gib if own.max_gib is None else own.max_gib
    return int(keep_days * DAY_NS) if keep_days else None, int(max_gib * GIB) if max_gib else None


def states_of(
    config: Config,
    partitions: Mapping[str, Sequence[Partition]],
    dropped: Mapping[str, Sequence[Dropped]],
    waited_for: Mapping[str, dict[str, str]],
    *,
    newest: Mapping[str, int],
    refused: Mapping[tuple[str, Rule], str] | None = None,
    decimated: Mapping[str, Sequence[Decimated]] | None = None,
) -> list[GroupState]:
    """The groups as retention sees them. decimated: the account of what was reduced, where what that takes counts."""
    states = []
    for section in config.groups:
        keep_ns, max_bytes = limits_of(section, config)
        states.append(
            GroupState(
                name=section.name,
                partitions=partitions.get(section.name, ()),
                keep_ns=keep_ns,
                max_bytes=max_bytes,
                gone=_gone(dropped.get(section.name, ())),
                waited_for=waited_for.get(section.name, {}),
                newest_ns=newest.get(section.name),
                figures={
                    each.period.name: figures_bytes(each, section.group())
                    for each in (decimated or {}).get(section.name, ())
                },
                refused={rule: why for (name, rule), why in (refused or {}).items() if name == section.name},
            )
        )
    return states


async def decimated_of(store: Store) -> Mapping[str, Sequence[Decimated]]:
    """The account of what was reduced; nothing of a store that reduces nothing."""
    return await store.decimated() if isinstance(store, Decimating) else {}


def aging(config: Config) -> list[GroupConfig]:
    """The groups that have a limit by age, and a ledger."""
    return [section for section in config.trigger_groups if limits_of(section, config)[0] is not None]


async def newest_of(store: Store, sections: Iterable[GroupConfig]) -> dict[str, int]:
    """The time (UTC, ns) of the newest trigger of groups, by their ledgers."""
    found = {}
    for section in sections:
        for row in await store.ask(LedgerTail(group=section.group(), most=1)):
            found[section.name] = int(row["time_ns"])
    return found


async def was_dropped(store: Store, period: Period) -> bool:
    """Whether retention has dropped a period meanwhile, or is about to."""
    return any(each.period == period for each in (await store.dropped()).get(period.group, ()))


def waiting_of(pipeline: Pipeline, partitions: Sequence[Partition]) -> dict[str, str]:
    """The partitions that something in the backlog waits for, by name, and what."""
    waits = (each.name for each in _periods(pipeline, partitions) if pipeline.waits_for(each))
    return dict.fromkeys(waits, "readings of it wait for the database")


async def lying_of(pipeline: Pipeline, partitions: Sequence[Partition]) -> dict[str, str]:
    """The partitions that dead letters are of, by name, and what to do about these; raises OSError."""
    periods = _periods(pipeline, partitions)
    lying = await pipeline.letters.are_of(periods)
    why = "dead letters are of it: `triggerlog dead-letters` retries or discards them"
    return {period.name: why for period, is_so in zip(periods, lying, strict=True) if is_so}


async def waits_of(
    pipelines: Mapping[str, Pipeline], partitions: Mapping[str, Sequence[Partition]], found: dict[str, dict[str, str]]
) -> dict[str, dict[str, str]]:
    """Add to what is found of each group what in its backlog and its dead letters waits; raises OSError."""
    for name, pipeline in pipelines.items():
        of = partitions.get(name, ())
        found.setdefault(name, {}).update(await lying_of(pipeline, of) | waiting_of(pipeline, of))
    return found


def _periods(pipeline: Pipeline, partitions: Sequence[Partition]) -> list[Period]:
    group = pipeline.group.name
    return [Period(group=group, name=each.name, start_ns=each.start_ns, end_ns=each.end_ns) for each in partitions]


def _gone(dropped: Sequence[Dropped]) -> Collection[str]:
    return {each.period.name for each in dropped}


def disk_of(config: Config, state_dir: Path, usage: Usage) -> DiskState | None:
    """The disk of the database, where a limit asks for it.

    Raises:
        OSError: it cannot be looked at.
    """
    percent = config.retention.min_free_percent
    if percent is None:
        return None
    total, free = usage(folder_of(config, state_dir))
    return DiskState(total=total, free=free, free_wanted=int(total * percent / 100), tier=_tier_there(config))


def _tier_there(config: Config) -> TierThere | None:
    for number, tier in enumerate(config.tiers):
        if tier.name == config.retention.disk_tier:
            return TierThere(place=tier.place, is_first=number == 0)
    return None


def folder_of(config: Config, state_dir: Path) -> Path:
    """The folder whose disk is watched: an embedded database lies in the state folder, perhaps behind a link."""
    if config.retention.disk is not None:
        return Path(config.retention.disk)
    embedded = state_dir / "postgresql"
    return embedded if embedded.exists() else state_dir
