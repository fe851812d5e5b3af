"""Retention: when readings are dropped. Nothing is, unless a limit is set."""

from collections.abc import Iterator

from pydantic import Field, model_validator

from schemas.checking.problems import Problem, refuse, wrong
from schemas.config.section import Section

DAYS = {"hour": 1 / 24, "day": 1.0, "month": 31.0}
"""How long a partition is at most, in days."""
NEWEST = 2
"""So many partitions with readings stay whatever the limits: the newest is being written, and the one before may be."""


class GroupRetentionConfig(Section):
    """Limits of one group, where they differ from `[retention]`."""

    keep_days: float | None = Field(
        default=None, ge=0, le=100_000, description="As `keep_days` in `[retention]`, of this group; 0: for ever."
    )
    max_gib: float | None = Field(
        default=None, ge=0, le=10_000_000, description="As `max_gib` in `[retention]`, of this group; 0: no limit."
    )


class RetentionConfig(Section):
    """When old readings are dropped, a partition of a group at a time, the oldest first; their ledger stays."""

    keep_days: float | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="Readings of partitions that ended longer ago are dropped. Left out, or 0: age drops nothing.",
    )
    max_gib: float | None = Field(
        default=None,
        ge=0,
        le=10_000_000,
        description="Most that a group may take of the database's disk, with indexes and ledger, in GiB (2^30 bytes); "
        "beyond it the oldest partitions are dropped. Left out, or 0: size drops nothing. In MongoDB: its documents, "
        "before they are compressed, without indexes.",
    )
    min_free_percent: float | None = Field(
        default=None,
        gt=0,
        le=90,
        description="With less of the disk free, the oldest partitions of all groups are dropped until so much is. "
        "Left out: a full disk drops nothing. Not for MongoDB, whose files stay as large.",
    )
    disk: str | None = Field(
        default=None,
        min_length=1,
        description="A folder on the database's disk, for `min_free_percent`; it has to be on this node. An embedded "
        "PostgreSQL lies in the state folder, and needs none.",
    )
    disk_tier: str | None = Field(
        default=None,
        min_length=1,
        description="With `[[tiers]]`: which of them lies on that disk. Only partitions that lie there are dropped for "
        "it; of the others a drop would free nothing.",
    )
    check_every_s: float = Field(
        default=60.0, ge=1, le=86_400, description="How often it is looked whether something has to be dropped."
    )

    @model_validator(mode="after")
    def _has_use(self) -> "RetentionConfig":
        if self.disk is not None and self.min_free_percent is None:
            refuse([wrong("no limit needs it", "set `min_free_percent`, or take it out", "disk")])
        if self.disk_tier is not None and self.min_free_percent is None:
            refuse([wrong("no limit needs it", "set `min_free_percent`, or take it out", "disk_tier")])
        return self


def too_short(keep_days: float | None, partition: str, field: str) -> Iterator[Problem]:
    """A problem where partitions that always stay last longer than readings are to be kept."""
    least = NEWEST * DAYS[partition]
    if keep_days and keep_days < least:
        problem = f"the {NEWEST} newest partitions always stay, and each holds a {partition}"
        yield wrong(problem, f"use at least {least:.3g}, or a shorter `database.partition`", field)
