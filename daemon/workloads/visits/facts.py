"""What a record has besides measures: the server, the machine, and the rows that the formula expects."""

import os
import platform
from typing import Any

import psutil

from backends.base import StoreFacts
from daemon.core.process.processor import processor
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


def machine() -> dict[str, str]:
    """The processor, its cores, the memory, and Python's version."""
    return {
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "python": platform.python_version(),
    }
