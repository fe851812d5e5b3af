"""What a record has besides measures: the server, the machine, and the rows that the formula expects."""

from typing import Any

from backends.base import StoreFacts
from daemon.core.process.processor import machine
from daemon.workloads.visits.cadence import time_of
from schemas.config.visits import VisitsConfig
from schemas.visits.tables import IndexMode


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
