"""Figures of the writing and of the database server at a moment, and between two moments of an experiment."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import psutil

from backends import open_store
from backends.base import ReadOnly, ServerView, Store, StoreError
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import tables_of
from daemon.core.monitoring.metrics import percentile_of, percentile_within
from daemon.core.process.usage import machine_seconds
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.readers.manager import Figures
from daemon.workloads.readers.measuring import Totals, percentiles_ms
from schemas.api.interference import WorkloadBlock
from schemas.readings import Array

_PROCESS = psutil.Process()


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Counters of all groups together, since the daemon's start.

    at_s: CLOCK_MONOTONIC. fine: as `Latencies.fine`. triggers, readings: committed. received: readings.
    cpu_s: of this process. busy_s, all_s: of all cores together.
    """

    at_s: float
    fine: Array
    triggers: int
    readings: int
    received: int
    cpu_s: float
    busy_s: float
    all_s: float


def read_counters(pipelines: Iterable[Pipeline]) -> Counters:
    """Counters now; at least one pipeline."""
    figures = [pipeline.figures() for pipeline in pipelines]
    own = _PROCESS.cpu_times()
    busy_s, all_s = machine_seconds()
    return Counters(
        at_s=time.monotonic(),
        fine=np.sum([pipeline.latencies.fine for pipeline in pipelines], axis=0),
        triggers=sum(each.committed.triggers for each in figures),
        readings=sum(each.committed.readings for each in figures),
        received=sum(each.assembled.received for each in figures),
        cpu_s=own.user + own.system,
        busy_s=busy_s,
        all_s=all_s,
    )


def waiting(pipelines: Iterable[Pipeline]) -> int:
    """Triggers that wait now."""
    return sum(pipeline.waiting.triggers for pipeline in pipelines)


def writing_between(first: Counters, last: Counters) -> dict[str, Any]:
    """The figures of a block that are of the writing and of the machine, by their names in `Block`."""
    seconds = max(last.at_s - first.at_s, 1e-9)
    fine = last.fine - first.fine
    machine_s = last.all_s - first.all_s
    return {
        "triggers": last.triggers - first.triggers,
        "rate": (last.triggers - first.triggers) / seconds,
        "reading_rate": (last.readings - first.readings) / seconds,
        "received_rate": (last.received - first.received) / seconds,
        "p50_ms": percentile_within(fine, 50),
        "p99_ms": percentile_within(fine, 99),
        "max_ms": percentile_of(fine, 100),
        "cpu_percent": 100 * (last.cpu_s - first.cpu_s) / seconds,
        "machine_percent": 100 * (last.busy_s - first.busy_s) / machine_s if machine_s > 0 else 0.0,
    }


def reading_between(counted: Totals, due: Figures, admitted: int, seconds: float) -> WorkloadBlock:
    """What a workload did in a stretch of time.

    counted: what came in it. due: of the questions that were due in it.
    """
    return WorkloadBlock(
        admitted=admitted,
        rate=counted.cycles / seconds,
        row_rate=counted.rows / seconds,
        **_answers(due),
    )


def with_answers(found: WorkloadBlock, due: Figures) -> WorkloadBlock:
    """The same, with the answers that came since to the questions that were due in it, and its rates as they are."""
    return found.model_copy(update=_answers(due))


def _answers(due: Figures) -> dict[str, Any]:
    counts = np.ctypeslib.as_array(due.latency.counts)
    p50, p99, most = percentiles_ms(due.latency, counts, 50, 99, 100)
    counted = asdict(due.totals)
    del counted["rows"]
    return counted | {"p50_ms": p50, "p99_ms": p99, "max_ms": most}


# --- the server ------------------------------------------------------------------------------------------------------

EVERY_S = 1.0
GIVE_UP_S = 10.0


@dataclass(frozen=True)
class _Seen:
    at_s: float
    view: ServerView


class ServerWatch:
    """Asks the server once a second, over a connection of its own.

    note: called with a sentence when it does not tell; an experiment goes on without.
    """

    def __init__(self, store: Store, note: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self._store = store
        self._note = note
        self._every_s = every_s
        self._seen: list[_Seen] = []
        self._is_noted = False

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                began_s = time.monotonic()
                try:
                    view = await self._store.view()
                except StoreError as error:
                    self._say(f"The server's own view was not to be had all the time: {error}.")
                else:
                    self._seen.append(_Seen(time.monotonic(), view))
                await asyncio.sleep(max(0.0, began_s + self._every_s - time.monotonic()))
        finally:
            await self._store.close()

    def between(self, first_s: float, last_s: float) -> tuple[int, dict[str, float], dict[str, float]]:
        """Looks, growth of the counters a second, and sessions that waited on average by what for.

        Forgets what came before. With one look there are waits, and no growth.

        first_s, last_s: CLOCK_MONOTONIC.
        """
        self._seen = [seen for seen in self._seen if seen.at_s >= first_s]
        within = [seen for seen in self._seen if seen.at_s <= last_s]
        if not within:
            return 0, {}, {}
        waits: Counter[str] = Counter()
        for seen in within:
            waits.update(seen.view.waits)
        mean = {name: count / len(within) for name, count in sorted(waits.items())}
        return len(within), _growth(within[0], within[-1]), mean

    def _say(self, sentence: str) -> None:
        if not self._is_noted:
            self._is_noted = True
            self._note(sentence)


def _growth(first: _Seen, last: _Seen) -> dict[str, float]:
    seconds = last.at_s - first.at_s
    if seconds <= 0:
        return {}
    before, after = first.view.counters, last.view.counters
    # A server that was restarted counts from 0 again: that is no growth.
    return {
        name: (after[name] - before[name]) / seconds
        for name in sorted(after.keys() & before.keys())
        if after[name] >= before[name]
    }


def watching_store(loaded: LoadedConfig) -> Store:
    """A store that is only asked, of the server that is written to."""
    config = loaded.config
    return open_store(
        config.database,
        logger=config.logger,
        **tables_of(config),
        state_dir=loaded.state_dir,
        password=loaded.password,
        read_only=ReadOnly(connections=1, give_up_s=GIVE_UP_S),
    )
