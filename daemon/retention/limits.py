"""What retention needs to know to plan: each group's limits and partitions, and the disk."""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from backends.base import Partition
from daemon.pipeline.pipeline import Pipeline
from daemon.retention.planner import DAY_NS, GIB, DiskState, GroupState
from schemas.config import Config, GroupConfig
from schemas.retention import Dropped, Period

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
) -> list[GroupState]:
    """The groups as retention sees them."""
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
            )
        )
    return states


async def what_waits(pipeline: Pipeline, partitions: Sequence[Partition]) -> dict[str, str]:
    """The partitions that something waits for, by name, and what."""
    periods = [
        Period(group=pipeline.group.name, name=each.name, start_ns=each.start_ns, end_ns=each.end_ns)
        for each in partitions
    ]
    lying = await pipeline.letters_of(periods)
    letters = {period.name: "dead letters are of it" for period, is_so in zip(periods, lying, strict=True) if is_so}
    waiting = {each.name: "readings of it wait for the database" for each in periods if pipeline.waits_for(each)}
    return {**letters, **waiting}


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
    return DiskState(total=total, free=free, free_wanted=int(total * percent / 100))


def folder_of(config: Config, state_dir: Path) -> Path:
    """The folder whose disk is watched: an embedded database lies in the state folder, perhaps behind a link."""
    if config.retention.disk is not None:
        return Path(config.retention.disk)
    embedded = state_dir / "postgresql"
    return embedded if embedded.exists() else state_dir
