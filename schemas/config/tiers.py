"""Tiers: places for readings, from the fast one that they are written into to the one for the oldest."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from schemas.checking.dsn import Backend, Feature, supports
from schemas.checking.fields import Form
from schemas.checking.problems import Problem, refuse, wrong
from schemas.config.database import DatabaseConfig
from schemas.config.retention import too_short
from schemas.config.section import Name, Section, twice


def _not_of_the_server(name: str) -> str:
    if name.startswith("pg_"):
        refuse([wrong(f"{name!r} is the server's", "leave it out: without it, it is the database's own tablespace")])
    return name


Tablespace = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", max_length=63),
    AfterValidator(_not_of_the_server),
    Form(words="1 to 63 letters, digits, `_` and `-`, a letter or `_` first"),
]


Directory = Annotated[
    str,
    Field(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$", max_length=200),
    Form(words="an absolute path of letters, digits, `_`, `.` and `-`, without `/` at its end"),
]


class TierConfig(Section):
    """A place for readings. They are written into the first tier, and move on a partition at a time, the oldest first.

    Not for MongoDB.
    """

    name: Name = Field(description="Its name, e.g. `fast`, `slow`.")
    tablespace: Tablespace | None = Field(
        default=None, description="Tablespace of PostgreSQL that it is; the database's own one when left out."
    )
    directory: Directory | None = Field(
        default=None,
        description="Folder on the node of a MariaDB or MySQL that it is, owned by the server's account; the server's "
        "own one when left out. Not of the first tier.",
    )
    max_gib: float | None = Field(
        default=None,
        gt=0,
        le=10_000_000,
        description="Most that may lie there, of all groups, in GiB (2^30 bytes); beyond it the oldest partitions move "
        "to the next tier. Ledgers, and indexes in PostgreSQL, always lie in the first tier, and count there. "
        "Not of the last tier.",
    )
    after_days: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="Partitions that ended so long ago move here from the tiers before. Not of the first tier.",
    )
    mib_per_s: float = Field(
        default=16.0, gt=0, le=100_000, description="How fast partitions are moved here at most, in MiB/s."
    )

    @property
    def place(self) -> str | None:
        """What the database calls it; None is where it puts a table that is to lie nowhere else."""
        return self.tablespace or self.directory


class Policy(StrEnum):
    """What says in which tier a partition lies."""

    AGE = "age"
    ACCESS = "access"
    BOTH = "both"


class TieringConfig(Section):
    """By what partitions move between tiers."""

    policy: Policy = Field(
        default=Policy.AGE,
        description="`age`: the oldest move on, and never back. `access`: what is read most for its size lies in the "
        "first tiers, as much as their `max_gib` allow, and moves back to them. `both`: the same, but what is older "
        "than `after_days` of a tier moves there, and stays.",
    )
    half_life_days: float = Field(
        default=1.0,
        ge=0.01,
        le=365,
        description="After so long what was read counts half. A partition moves back when it has been read so much for "
        "a quarter of it.",
    )


def tier_problems(tiers: Sequence[TierConfig], tiering: TieringConfig, database: DatabaseConfig) -> Iterator[Problem]:
    """What is wrong with the tiers of a configuration."""
    if not tiers:
        if tiering.policy is not Policy.AGE:
            yield wrong("there are no tiers", "add `[[tiers]]`, or take it out", "tiering.policy")
        return
    if not supports(database.backend, Feature.TIERS):
        return
    if len(tiers) == 1:
        yield wrong("there is one tier, and nothing to move to", "add another, or take it out", "tiers")
    yield from twice("tier", "tiers", ".name", [tier.name for tier in tiers])
    for i, tier in enumerate(tiers):
        yield from _of_one(tiers, i, tiering.policy)
        yield from _of_the_other(tier, database, i)
        yield from _same_place(tiers, i, "directory" if database.backend is Backend.MYSQL else "tablespace")
        yield from too_short(tier.after_days, database.partition, f"tiers[{i}].after_days")


def _of_the_other(tier: TierConfig, database: DatabaseConfig, i: int) -> Iterator[Problem]:
    """What a tier has that is of another database."""
    if database.backend is not Backend.MYSQL:
        if tier.directory is not None:
            yield wrong("PostgreSQL has tablespaces", "use `tablespace` instead", f"tiers[{i}].directory")
    elif tier.tablespace is not None:
        yield wrong("MariaDB and MySQL have directories", "use `directory` instead", f"tiers[{i}].tablespace")
    elif not i and tier.directory is not None:
        problem = "MariaDB makes new partitions in its own folder: REORGANIZE ignores DATA DIRECTORY"
        yield wrong(problem, "leave it out", f"tiers[{i}].directory")


def _of_one(tiers: Sequence[TierConfig], i: int, policy: Policy) -> Iterator[Problem]:
    tier, before = tiers[i], tiers[:i]
    if policy is not Policy.AGE and tier.max_gib is None and tier is not tiers[-1]:
        problem = f"by policy {policy.value!r} what is read most lies here, and nothing says how much of it"
        yield wrong(problem, "set it, or use policy 'age'", f"tiers[{i}].max_gib")
    if policy is Policy.ACCESS and tier.after_days is not None:
        fix = "take it out, or use policy 'both'"
        yield wrong("policy 'access' moves nothing by its age", fix, f"tiers[{i}].after_days")
    if not before and tier.after_days is not None:
        yield wrong("readings are written into the first tier", "give it to the next tier", f"tiers[{i}].after_days")
    if tier is tiers[-1] and tier.max_gib is not None:
        fix = "take it out, or set `max_gib` in [retention]"
        yield wrong("there is no tier after it to move to", fix, f"tiers[{i}].max_gib")
    if policy is Policy.AGE and before and tier.after_days is None and before[-1].max_gib is None:
        fix = f"set it, or `max_gib` of tier {before[-1].name!r}"
        yield wrong("nothing would move to this tier", fix, f"tiers[{i}].after_days")
    earlier = max((each.after_days for each in before if each.after_days is not None), default=0)
    if tier.after_days is not None and tier.after_days <= earlier:
        problem = f"partitions move to a tier before after {earlier:g} days"
        yield wrong(problem, "give each tier more days than those before", f"tiers[{i}].after_days")


def _same_place(tiers: Sequence[TierConfig], i: int, field: str) -> Iterator[Problem]:
    same = next((number for number, each in enumerate(tiers[:i]) if each.place == tiers[i].place), None)
    if same is not None:
        yield wrong(f"tiers[{same}] is the same place", f"give each its own {field}", f"tiers[{i}].{field}")
