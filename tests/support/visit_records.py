"""Made-up runs of visits and comparisons, for tests of what is said of them."""

from collections.abc import Callable

import numpy as np

from benchmarks.visits.plan import Comparison, Measured, planned
from daemon.workloads.visits.settings import time_of
from schemas.api.visits import Compaction, TableSize, VisitMeasure, VisitsRun
from schemas.checking.dsn import Backend
from schemas.config.visits import VisitsConfig

Seconds = Callable[[str, str, int], dict[str, float]]
"""From backend, condition and visit to seconds of parts of a visit, by their names."""

PARTS = {
    "select": ("select_object_s", "select_source_s", "select_forced_s"),
    "store": ("store_last_s", "store_object_s", "store_source_s", "store_forced_s", "commit_s"),
}


def visit_of(settings: VisitsConfig, visit: int, parts: dict[str, float]) -> VisitMeasure:
    seconds = dict.fromkeys((*PARTS["select"], *PARTS["store"]), 0.01) | parts
    select, store = (sum(seconds[name] for name in PARTS[part]) for part in ("select", "store"))
    return VisitMeasure(
        visit=visit,
        time_ns=time_of(settings.survey, visit),
        ra=10.0,
        decl=-80.0,
        tiles=settings.tiles**2,
        **{"visit_s": select + store + 0.01, "select_s": select, "store_s": store, "dia_s": 0.002, **seconds},
        slowest_tile_s=select + store,
        objects_read=100,
        sources_read=visit,
        forced_read=visit,
        objects=300 + visit,
        sources=300,
        forced=300 + visit,
    )


def made_run(settings: VisitsConfig, visits: list[VisitMeasure], product: str = "postgresql") -> VisitsRun:
    objects = sum(visit.objects for visit in visits)
    sizes = {"DIAObject": TableSize(rows=objects - 1, table_bytes=416 * objects, index_bytes=100 * objects)}
    return VisitsRun(
        id="made",
        began_ns=1_700_000_000 * 10**9,
        ended_ns=1_700_000_100 * 10**9,
        settings=settings,
        product=product,
        version="18.4 <made>",
        server={"shared_buffers": "24MB"},
        machine={"processor": "none"},
        visits=tuple(visits),
        sizes=sizes,
        counts={"DIAObject": objects},
        expected={"DIAObject": 1.01 * objects},
    )


def compactions_of(run: VisitsRun, compact_s: float) -> tuple[Compaction, ...]:
    """Two tables of each period that ended, which take so long a visit together."""
    periods = [visit.time_ns // run.settings.period_ns for visit in run.visits]
    return tuple(
        Compaction(
            table=table,
            period=period,
            after_visit=len(periods) - periods[::-1].index(period) - 1,
            compact_s=periods.count(period) * compact_s / 2,
            packs_before=100,
            packs=10,
            records_before=1000,
            records=1000,
        )
        for period in sorted(set(periods))[:-1]
        for table in ("DIASource", "DIAForcedSource")
    )


def made_comparison(
    seconds: Seconds,
    groups: tuple[str, ...] = ("main", "sweep"),
    compact_s: float = 0.0,
    *,
    scale: float | None = None,
    cores: int = 2,
) -> Comparison:
    """Every condition of the full plan, its visits as long as `seconds` says, times noise of a percent.

    scale, cores: of the survey, the plan's own when it is left out, and of the machine.
    compact_s: seconds of compaction a visit of the main group's `partitioned`, all in all.
    """
    random, measured = np.random.default_rng(7), []
    for group in planned("full", [Backend.POSTGRESQL, Backend.MYSQL], scale):
        for condition in group.conditions if group.name in groups else ():
            settings, backend = condition.settings, condition.backend.value
            noise = np.exp(0.01 * random.standard_normal(group.visits)).tolist()
            visits = []
            for visit in range(group.visits):
                parts = {name: value * noise[visit] for name, value in seconds(backend, condition.name, visit).items()}
                visits.append(visit_of(settings, visit, parts))
            run = made_run(settings, visits, {"mysql": "mariadb"}.get(backend, backend))
            if compact_s and (group.name, condition.name) == ("main", "partitioned"):
                run = run.model_copy(update={"compactions": compactions_of(run, compact_s)})
            measured.append(
                Measured(
                    group=group.name,
                    condition=condition.name,
                    title=condition.title,
                    backend=backend,
                    chunk=group.chunk,
                    run=run,
                )
            )
    return Comparison(
        date="2026-01-01 00:00:00 UTC",
        seconds=1500.0,
        plan="full",
        seed=1,
        command="make bench-visits",
        machine={"processor": "none", "cores": str(cores)},
        memory_limit_mib=128,
        measured=tuple(measured),
    )
