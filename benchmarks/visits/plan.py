"""The conditions: a base condition, and others that differ from it in one setting only: pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from benchmarks.servers.sizes import Small
from schemas.api.visits import VisitsRun
from schemas.checking.dsn import Backend
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode

SERVERS = Small(cache_mib=24, memory_mib=112)
"""So small that the data of a short run outgrow their caches."""
MAIN = "main"
SWEEP = "sweep"
TINY = "tiny"
BASE = "last_object_table"
OURS = "partitioned"
AS_WRITTEN = "as_written"
"""Ours but for compaction, so that one sees what that does: it is neither ours nor the paper's."""
PAPERS = ("baseline", "pix_id_iov", BASE)
"""Conditions that are the paper's index modes as they are."""
DELETE_INSERT = "delete_insert"
COMPETING = (*PAPERS, DELETE_INSERT)
"""The paper's ways that ours is compared with, of which the best counts."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One way to run visits on one backend. name: unique in its group and backend."""

    name: str
    title: str
    backend: Backend
    settings: VisitsConfig


@dataclass(frozen=True, kw_only=True)
class Group:
    """Conditions that take turns: in each round every one of them does the next `chunk` visits, in a shuffled order.

    own_servers: each condition has a server of its own; else those of a backend share one, and its cache.
    minutes: after so long no round begins; what was measured until then is whole, as all had as many turns.
    """

    name: str
    title: str
    conditions: tuple[Condition, ...]
    chunk: int
    minutes: float
    own_servers: bool = False

    @property
    def servers(self) -> dict[str, Backend]:
        """The servers that it takes: of which backend each is, by name."""
        return {self.server_of(condition): condition.backend for condition in self.conditions}

    def server_of(self, condition: Condition) -> str:
        """Name of the server that a condition is measured on."""
        return f"{condition.backend}-{condition.name}" if self.own_servers else condition.backend.value

    @property
    def visits(self) -> int:
        """Visits that each condition does in all."""
        return self.conditions[0].settings.visits

    @property
    def rounds(self) -> int:
        """Turns that each condition has."""
        return -(-self.visits // self.chunk)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a plan is. scale: of the survey. minutes: for the group."""

    scale: float
    visits: int
    chunk: int
    minutes: float


SIZES: Mapping[str, Mapping[str, Size]] = {
    "full": {
        MAIN: Size(scale=0.02, visits=560, chunk=70, minutes=24),
        SWEEP: Size(scale=0.01, visits=144, chunk=48, minutes=12),
        TINY: Size(scale=0.003, visits=12, chunk=6, minutes=1.2),
    },
    "quick": {
        MAIN: Size(scale=0.004, visits=32, chunk=16, minutes=1),
        SWEEP: Size(scale=0.004, visits=16, chunk=8, minutes=1.7),
        TINY: Size(scale=0.002, visits=4, chunk=2, minutes=0.3),
    },
}
SQL = (Backend.POSTGRESQL, Backend.MYSQL)
WINDOW: Mapping[str, Any] = {"history_days": 20.0, "period_days": 5.0}
"""A window that fills within the main run: 16 visits a night at scale 0.02 make 320 visits."""
CUTOFF_DAYS = 10.0
PIXEL_LEVEL = 7
"""A fiftieth of the density wants larger pixels: of 7 and not 8, a fourth as many."""


def planned(
    size: str, backends: Sequence[Backend], scale: float | None = None, visits: int | None = None
) -> list[Group]:
    """The groups of a plan, those without a condition left out.

    Args:
        size: full or quick.
        backends: which there are.
        scale: of the survey of the main comparison and of the sweep, instead of the plan's own.
        visits: of the main comparison, instead of the plan's own; the sweep does half as many.

    """
    sizes = dict(SIZES[size])
    if scale is not None:
        sizes |= {name: replace(sizes[name], scale=scale) for name in (MAIN, SWEEP)}
    if visits is not None:
        sizes[MAIN] = _visits(sizes[MAIN], visits)
        sizes[SWEEP] = _visits(sizes[SWEEP], max(1, visits // 2))
    groups = (
        _group(MAIN, "Ours against the paper’s modes", sizes[MAIN], backends, _main),
        _group(SWEEP, "One thing changed at a time", sizes[SWEEP], backends, _sweep),
        _group(TINY, "MongoDB’s protocol", sizes[TINY], backends, _tiny),
    )
    return [group for group in groups if group.conditions]


def _visits(size: Size, visits: int) -> Size:
    return replace(size, visits=visits, chunk=min(size.chunk, visits))


def _group(name: str, title: str, size: Size, backends: Sequence[Backend], conditions: Any) -> Group:
    found = tuple(condition for backend in backends for condition in conditions(backend, size))
    return Group(
        name=name,
        title=title,
        conditions=found,
        chunk=size.chunk,
        minutes=size.minutes,
        own_servers=name == MAIN,
    )


def _settings(size: Size, changed: Mapping[str, Any], **survey: Any) -> VisitsConfig:
    fields: dict[str, Any] = {
        "cadence": "fast",
        "visits": size.visits,
        "survey": {"scale": size.scale, **survey},
        "index_mode": IndexMode.LAST_OBJECT_TABLE,
        "pixel_level": PIXEL_LEVEL,
        **changed,
    }
    return VisitsConfig.model_validate(fields)


def _made(
    backend: Backend, size: Size, name: str, title: str, survey: Mapping[str, Any], changed: Mapping[str, Any]
) -> Condition:
    return Condition(name=name, title=title, backend=backend, settings=_settings(size, changed, **survey))


def _main(backend: Backend, size: Size) -> Iterator[Condition]:
    """The same survey and the same window of history for all."""
    if backend not in SQL:
        return
    survey = {"forced_cutoff_days": CUTOFF_DAYS}
    changes: Mapping[str, tuple[str, Mapping[str, Any]]] = {
        BASE: ("the paper’s DIAObjectLast", {}),
        DELETE_INSERT: ("the same, by DELETE and INSERT", {"last_update": "delete_insert"}),
        "pix_id_iov": ("the paper’s key that begins with the pixel", {"index_mode": "pix_id_iov"}),
        "baseline": ("the paper’s first", {"index_mode": "baseline"}),
        OURS: ("ours: packs by period and coarse pixel", {"index_mode": OURS}),
        AS_WRITTEN: ("ours, without compaction", {"index_mode": OURS, "compact": False}),
    }
    for name, (title, changed) in changes.items():
        yield _made(backend, size, name, title, survey, {**WINDOW, **changed})


def _sweep(backend: Backend, size: Size) -> Iterator[Condition]:
    if backend in SQL:
        for name, title, changed in (*_changes(), *_updates(backend)):
            yield _made(backend, size, name, title, {}, changed)


def _tiny(backend: Backend, size: Size) -> Iterator[Condition]:
    if backend is Backend.MONGODB:
        for name, title, changed in _changes():
            if name in (*PAPERS, OURS):
                yield _made(backend, size, name, title, {}, changed)


def _changes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What is changed of the base: its name, in words, and as settings."""
    yield BASE, "base: DIAObjectLast, one process, a connection that stays, all history, 64 ranges", {}
    yield "baseline", "no DIAObjectLast: validityEnd is updated", {"index_mode": "baseline"}
    yield "pix_id_iov", "no DIAObjectLast: the key begins with the pixel", {"index_mode": "pix_id_iov"}
    yield "wide", "DIAObjectLast has all columns", {"last_columns": "wide"}
    for tiles, processes in ((3, 2), (5, 2)):
        yield (
            f"tiles_{tiles}",
            f"{tiles} x {tiles} tiles, {processes} persistent workers",
            {"tiles": tiles, "workers": "persistent", "processes": processes},
        )
    yield "fork", "3 x 3 tiles, a process each", {"tiles": 3, "workers": "fork"}
    reconnecting = {"tiles": 3, "workers": "persistent", "processes": 2, "connections": "per_visit"}
    yield "per_visit", "3 x 3 tiles, persistent workers, new connections for each visit", reconnecting
    yield "window", "a history of 10 days", {"history_days": 10.0}
    for ranges in (32, 128):
        yield f"ranges_{ranges}", f"{ranges} HTM ranges", {"htm_ranges": ranges}
    yield "one_transaction", "a tile in one transaction", {"transactions": "one"}
    yield OURS, "packs by period and coarse pixel", {"index_mode": OURS}


def _updates(backend: Backend) -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield DELETE_INSERT, "DIAObjectLast by DELETE and INSERT", {"last_update": "delete_insert"}
    if backend is Backend.MYSQL:
        yield "upsert", "DIAObjectLast by INSERT ... ON DUPLICATE KEY UPDATE", {"last_update": "upsert"}


# --- the record ------------------------------------------------------------------------------------------------------


class Measured(BaseModel):
    """One condition on one server: what it was run for, and its run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str = Field(description="conditions of a group took turns over the same visits")
    condition: str = Field(description="its name, unique in its group and backend, e.g. `baseline`")
    title: str = Field(description="how it differs from the base condition")
    backend: str = Field(description="postgresql, mysql or mongodb")
    chunk: int = Field(description="visits a turn; the first visit of a turn warms up, and is not compared")
    settle_s: float = Field(
        default=0.0,
        description="seconds, in all, that its server took after its turns to do what they had left behind, such as "
        "writing changed pages out; no visit runs meanwhile",
    )
    run: VisitsRun


class Check(BaseModel):
    """One comparison of counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passed: bool
    result: str = Field(description="what was compared, and with what result, a sentence")


class Comparison(BaseModel):
    """A benchmark of visits, as JSON files hold it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = Field(default="visits comparison", pattern="^visits comparison$")
    date: str
    seconds: float = Field(description="how long all of it took")
    plan: str = Field(description="full or quick")
    seed: int = Field(description="of the order in which conditions took turns")
    command: str = Field(description="what repeats it")
    machine: dict[str, str]
    memory_limit_mib: int | None = Field(
        description="limit of each PostgreSQL’s control group, its part of the page cache included; None: none"
    )
    notes: tuple[str, ...] = Field(default=(), description="what was left out or cut short, a sentence each")
    checks: tuple[Check, ...] = ()
    measured: tuple[Measured, ...]

    def of(self, group: str, backend: str | None = None) -> tuple[Measured, ...]:
        """Those of a group, and of one backend of it if that is named."""
        return tuple(each for each in self.measured if each.group == group and backend in (None, each.backend))

    def find(self, group: str, backend: str, condition: str) -> Measured | None:
        """One of them; None if it was not measured."""
        found = [each for each in self.of(group, backend) if each.condition == condition]
        return found[0] if found else None
