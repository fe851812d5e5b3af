"""Rows and bytes that follow from settings, and what else a record has besides measures: server and machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backends.base import StoreFacts
from daemon.core.configuration import LoadedConfig
from daemon.core.process.processor import machine
from daemon.workloads.visits.settings import time_of
from schemas.checking.problems import Problem, wrong
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode, tables_of


def facts_of(settings: VisitsConfig, visits: int, server: StoreFacts | None) -> dict[str, Any]:
    """Fields of a VisitsRun. visits: that are done. server: as last asked; None where it did not answer."""
    facts: dict[str, Any] = {"machine": machine(), "expected": expected(settings, visits)}
    if server is not None:
        facts |= {"product": server.backend, "version": server.version, "server": dict(server.settings)}
    return facts


def expected(settings: VisitsConfig, visits: int) -> dict[str, float]:
    """Rows after so many visits by the formula, by table; empty where some were dropped since."""
    # Imported here: a logger that runs no visits has no use for the sphere.
    from daemon.workloads.visits.expected import rows  # noqa: PLC0415

    if not visits or has_dropped(settings, visits):
        return {}
    return rows(settings.survey, visits, settings.tiles, settings.index_mode)


def has_dropped(settings: VisitsConfig, visits: int) -> bool:
    """Return whether a period had left the window, and so was dropped, after so many visits."""
    if settings.index_mode is not IndexMode.PARTITIONED or settings.window_ns is None:
        return False
    first_ends_ns = (time_of(settings.survey, 0) // settings.period_ns + 1) * settings.period_ns
    return first_ends_ns <= time_of(settings.survey, visits - 1) - settings.window_ns


# --- what visits will take on the disk -------------------------------------------------------------------------------

BYTES = {"DIAObject": 745 + 99, "DIASource": 910 + 147, "DIAForcedSource": 85 + 70, "DIAObjectLast": 198 + 99}
"""Bytes a row on disk with its indexes, as the paper found them."""
AROUND = 1.1
"""What a server puts around a pack of records, as a factor."""
GIB = 2**30


def forecast(settings: VisitsConfig, visits: int) -> tuple[float, float]:
    """Rows, and bytes on the disk, after so many visits; of `partitioned` as far as the window keeps them."""
    rows = expected(settings, visits)
    if settings.index_mode is not IndexMode.PARTITIONED:
        return sum(rows.values()), sum(count * BYTES[name] for name, count in rows.items())
    widths = {table.name: table.dtype.itemsize for table in tables_of(settings.index_mode, settings.last_columns)}
    part = _part_in_window(settings, visits)
    total = sum(count * widths[name] for name, count in rows.items())
    return part * sum(rows.values()), part * AROUND * total


def _part_in_window(settings: VisitsConfig, visits: int) -> float:
    """Part of the visits that the history window keeps; periods go as a whole."""
    if settings.window_ns is None or not visits:
        return 1.0
    # Imported here: only who runs visits needs the sky.
    from daemon.workloads.visits.settings import visits_in  # noqa: PLC0415

    return min(1.0, visits_in(settings.survey, settings.window_ns + settings.period_ns) / visits)


def visits_words(settings: VisitsConfig) -> str:
    """What `[visits]` means, in one line."""
    rows, size = forecast(settings, settings.visits)
    when = "with the daemon" if settings.start else "on request"
    by_night = f"one each {settings.survey.visit_interval_s:g} s by night"
    each = by_night if settings.cadence == "real" else "as fast as possible"
    return (
        f"{settings.visits:,} {when}, {each}, {settings.index_mode}, schema {settings.schema_name}:"
        f" about {rows:,.0f} rows, {size / GIB:,.3g} GiB"
    )


def visits_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Say where the disk will not hold them; only that of an embedded server is known."""
    if loaded.config.database.dsn is not None:
        return
    _, size = forecast(loaded.config.visits, loaded.config.visits.visits)
    free = shutil.disk_usage(_nearest(loaded.state_dir)).free
    if size > free:
        problem = f"these visits take about {size / GIB:,.3g} GiB, and the disk of state_dir has {free / GIB:,.3g} free"
        yield wrong(problem, "lower `visits` or `survey.scale`, or name a database elsewhere", "visits.visits")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())
