"""What visits will take on the disk, before any was run."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from daemon.core.configuration import LoadedConfig
from daemon.workloads.visits.facts import expected
from schemas.checking.problems import Problem, wrong
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode, tables_of

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
    from daemon.workloads.visits.cadence import visits_in  # noqa: PLC0415

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
