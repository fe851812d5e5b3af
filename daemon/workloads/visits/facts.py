"""What a record has besides measures: the server, the machine, and the rows that the formula expects."""

from typing import Any

from backends.base import StoreFacts
from daemon.core.process.processor import machine
from schemas.config.visits import VisitsConfig


def facts_of(settings: VisitsConfig, visits: int, server: StoreFacts | None) -> dict[str, Any]:
    """Fields of a VisitsRun. visits: that are done. server: as last asked; None where it did not answer."""
    facts: dict[str, Any] = {"machine": machine(), "expected": expected(settings, visits)}
    if server is not None:
        facts |= {"product": server.backend, "version": server.version, "server": dict(server.settings)}
    return facts


def expected(settings: VisitsConfig, visits: int) -> dict[str, float]:
    """Rows after so many visits by the formula, by table."""
    # Imported here: a logger that runs no visits has no use for the sphere.
    from daemon.workloads.visits.expected import rows  # noqa: PLC0415

    return rows(settings.survey, visits, settings.tiles, settings.index_mode) if visits else {}
