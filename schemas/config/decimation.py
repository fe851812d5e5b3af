"""Decimation: when old readings are reduced, and to what. Nothing is, unless an age is set."""

from collections.abc import Iterator

from pydantic import Field

from schemas.checking.problems import Problem, wrong
from schemas.config.database import DatabaseConfig
from schemas.config.retention import GroupRetentionConfig, RetentionConfig, too_short
from schemas.config.section import Section
from schemas.decimation import SECOND_NS, Bucket, Every, How, Reduction
from schemas.states import AlarmCause

DIVIDED_S = {"hour": 3_600, "day": 86_400, "month": 86_400}
"""What a bucket has to divide, in s, so that every partition begins and ends with one; months are whole days."""


class GroupDecimationConfig(Section):
    """Decimation of one group, where it differs from `[decimation]`."""

    after_days: float | None = Field(
        default=None, ge=0, le=100_000, description="As `after_days` in `[decimation]`, of this group; 0: never."
    )
    bucket_s: float | None = Field(
        default=None, gt=0, le=3_600, description="As `bucket_s` in `[decimation]`; in place of its `keep_every`, too."
    )
    keep_every: int | None = Field(
        default=None,
        ge=2,
        le=1_000_000_000,
        description="As `keep_every` in `[decimation]`; in place of its `bucket_s`, too.",
    )
    window_s: float | None = Field(
        default=None, ge=0, le=86_400, description="As `window_s` in `[decimation]`, of this group."
    )


class DecimationConfig(Section):
    """Old readings are reduced, a partition of a group at a time, the oldest first; their ledger stays.

    Not for MongoDB.
    """

    after_days: float | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="Readings of partitions that ended longer ago are reduced. Left out, or 0: never.",
    )
    bucket_s: float | None = Field(
        default=None,
        gt=0,
        le=3_600,
        description="Of each instrument and channel count, mean, squared deviations from it, least and greatest stay, "
        "for stretches of so many seconds, which have to divide an hour or a day, as `database.partition` is. This, "
        "or `keep_every`.",
    )
    keep_every: int | None = Field(
        default=None,
        ge=2,
        le=1_000_000_000,
        description="Whole triggers stay whose number so many divide, and no other. This, or `bucket_s`.",
    )
    window_s: float = Field(
        default=60.0,
        ge=0,
        le=86_400,
        description="So long before and after a mark all readings stay as they are, in s.",
    )
    mark_alarms: tuple[AlarmCause, ...] | None = Field(
        default=None,
        description="Alarms whose begin and end become marks, around which all readings stay, by the names of their "
        'causes, e.g. `["lost", "skipped"]`. Left out, those that are critical; `[]`: none.',
    )
    mib_per_s: float = Field(
        default=16.0, gt=0, le=100_000, description="How fast readings are reduced at most, in MiB/s of them."
    )


_Section = DecimationConfig | GroupDecimationConfig


def decimation_of(section: DecimationConfig, own: GroupDecimationConfig) -> Reduction | None:
    """What becomes of a group's readings; None where they stay as they are."""
    after_days = section.after_days if own.after_days is None else own.after_days
    how = _how(own.bucket_s, own.keep_every) or _how(section.bucket_s, section.keep_every)
    if not after_days or how is None:
        return None
    window_s = section.window_s if own.window_s is None else own.window_s
    return Reduction(after_ns=_ns(after_days * 86_400), how=how, window_ns=_ns(window_s))


def decimation_problems(
    section: DecimationConfig,
    groups: list[tuple[GroupDecimationConfig, GroupRetentionConfig]],
    retention: RetentionConfig,
    database: DatabaseConfig,
) -> Iterator[Problem]:
    """What is wrong with the decimation of a configuration."""
    sections: list[tuple[str, _Section]] = [
        ("decimation", section),
        *((f"groups[{i}].decimation", own) for i, (own, _) in enumerate(groups)),
    ]
    given = [
        (field, each) for field, each in sections if each.after_days or each.bucket_s or each.keep_every is not None
    ]
    for field, each in given:
        yield from _of_one(each, field, database.partition)
    yield from _without_use(section, [own for own, _ in groups])
    for i, (own, kept) in enumerate(groups):
        yield from _dropped_first(section, own, retention.keep_days if kept.keep_days is None else kept.keep_days, i)


def _of_one(each: _Section, field: str, partition: str) -> Iterator[Problem]:
    if each.bucket_s is not None and each.keep_every is not None:
        yield wrong("`bucket_s` is given too", "give one of them, not both", f"{field}.keep_every")
    yield from too_short(each.after_days, partition, f"{field}.after_days")
    of_s = DIVIDED_S[partition]
    # What is less than half a nanosecond is none.
    if each.bucket_s is not None and not (_ns(each.bucket_s) and of_s * SECOND_NS % _ns(each.bucket_s) == 0):
        problem = f"{each.bucket_s:g} s do not divide {'an hour' if of_s == DIVIDED_S['hour'] else 'a day'}"
        fix = f"use one that {of_s:,} s are a multiple of, such as 1, 10 or 60: each partition begins with a bucket"
        yield wrong(problem, fix, f"{field}.bucket_s")


def _without_use(section: DecimationConfig, groups: list[GroupDecimationConfig]) -> Iterator[Problem]:
    """An age without a way, and a way without an age."""
    fix = "set `bucket_s`, or `keep_every`"
    is_way = _how(section.bucket_s, section.keep_every) is not None
    has_own = [_how(own.bucket_s, own.keep_every) is not None for own in groups]
    ages = [section.after_days if own.after_days is None else own.after_days for own in groups]
    if section.after_days and not is_way and not all(has_own):
        yield wrong("nothing says what old readings become", fix, "decimation")
    if is_way and not any(ages):
        yield wrong("nothing says when readings are old", "set `after_days`, or take it out", "decimation")
    for i, own in enumerate(groups):
        if own.after_days and not section.after_days and not (is_way or has_own[i]):
            yield wrong("nothing says what old readings become", fix, f"groups[{i}].decimation")
        if has_own[i] and not ages[i]:
            yield wrong("nothing says when readings are old", "set `after_days`", f"groups[{i}].decimation")


def _dropped_first(
    section: DecimationConfig, own: GroupDecimationConfig, keep_days: float | None, i: int
) -> Iterator[Problem]:
    after_days = section.after_days if own.after_days is None else own.after_days
    if after_days and keep_days and keep_days <= after_days and decimation_of(section, own) is not None:
        field = "decimation.after_days" if own.after_days is None else f"groups[{i}].decimation.after_days"
        problem = f"readings of groups[{i}] are dropped after {keep_days:g} days (`keep_days`), and never reduced"
        yield wrong(problem, "use fewer days than `keep_days`", field)


def _how(bucket_s: float | None, keep_every: int | None) -> How | None:
    if bucket_s is not None:
        return Bucket(_ns(bucket_s))
    return None if keep_every is None else Every(keep_every)


def _ns(seconds: float) -> int:
    return round(seconds * SECOND_NS)
