"""What an experiment is measured on."""

import os
import platform

import psutil

from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import reading_from
from daemon.core.process.processor import processor
from schemas.api.interference import Conditions
from schemas.api.status import GovernorStatus, GroupStatus, Status
from schemas.checking.problems import without_passwords


def conditions_of(loaded: LoadedConfig, status: Status) -> Conditions:
    """Ask the machine and the daemon's status."""
    store = status.store
    dsn = reading_from(loaded)[0].dsn if loaded.config.readers.dsn is not None else None
    return Conditions(
        machine=processor(),
        cores=os.cpu_count() or 1,
        memory_gib=psutil.virtual_memory().total / 2**30,
        load_average=os.getloadavg()[0],
        python=platform.python_version(),
        version=status.version,
        backend=str(loaded.config.database.backend),
        server=f"{store.product} {store.version}",
        target=store.target,
        read_from=store.target if dsn is None else without_passwords(dsn),
        embedded=store.embedded,
        durability=store.durability,
        settings=store.settings,
        groups={name: _group(group) for name, group in status.groups.items()},
        journal=loaded.config.journal.max_mib > 0,
        stored=sum(group.triggers.account_at_start + group.triggers.committed for group in status.groups.values()),
        budget_ms=status.limits["commit_p99_ms"],
        governor=governor_words(status.governor),
    )


def governor_words(governor: GovernorStatus | None) -> str:
    """The governor's ceilings; empty when it is off."""
    if governor is None:
        return ""
    ceilings = []
    if governor.commit_p99_ms is not None:
        ceilings.append(f"commit p99 at most {governor.commit_p99_ms:g} ms")
    if governor.backlog_triggers is not None:
        ceilings.append(f"at most {governor.backlog_triggers:,} triggers waiting")
    return ", ".join(ceilings)


def _group(group: GroupStatus) -> str:
    return f"{group.instruments:,} instruments, {group.layout}, {group.durability}"
