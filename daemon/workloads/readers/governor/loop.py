"""The governor at work in a daemon, once a second."""

import asyncio
import time
from collections.abc import Mapping

from daemon.core.monitoring.events import Events
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.readers.admission import Admission
from daemon.workloads.readers.governor.governor import Governor
from daemon.workloads.readers.governor.writing import Counted, Writing
from daemon.workloads.readers.manager import Readers
from schemas.api.status import GovernorStatus
from schemas.config.readers import GovernorConfig
from schemas.states import GovernorState

PERIOD_S = 1.0
FIRST = Admission(clients=1)
NOBODY_HELD = frozenset({GovernorState.IDLE, GovernorState.OFF})
OPEN_FOR = 30
"""Periods for which all may ask before that is news: who tries again what broke a ceiling does not tell each time."""


class GovernorLoop:
    """Looks at the writing, asks the governor, and tells the readers and the operator.

    pipelines: by group; empty until the store is open.
    """

    def __init__(
        self, ceilings: GovernorConfig, readers: Readers, events: Events, pipelines: Mapping[str, Pipeline]
    ) -> None:
        self._pipelines = pipelines
        self._configured = ceilings
        self._governor = Governor(ceilings)
        self._writing = Writing()
        self._readers = readers
        self._events = events
        self._is_holding_back = False
        self._open_for = 0
        self._readers.first = FIRST if ceilings.is_on else None

    @property
    def ceilings(self) -> GovernorConfig:
        """The ceilings in force."""
        return self._governor.ceilings

    def configure(self, ceilings: GovernorConfig) -> None:
        """Take over what the configuration says now; what was set by hand stays if that says what it said before."""
        if ceilings != self._configured:
            self._configured = ceilings
            self._change(ceilings)

    def set(self, ceilings: GovernorConfig) -> None:
        """Keep these ceilings until others are set, the configuration is changed, or the daemon ends."""
        if ceilings != self.ceilings:
            self._change(ceilings)
            self._events.info(f"the ceilings of the governor were set on request: {_described(ceilings)}")

    def _change(self, ceilings: GovernorConfig) -> None:
        self._governor.change(ceilings)
        self._readers.first = FIRST if ceilings.is_on else None

    def status(self) -> GovernorStatus:
        """What it does now, and why."""
        governor = self._governor
        return GovernorStatus(
            commit_p99_ms=governor.ceilings.commit_p99_ms,
            backlog_triggers=governor.ceilings.backlog_triggers,
            admitted=governor.admitted,
            share=governor.share,
            clients=governor.clients,
            state=governor.state,
            reason=governor.reason,
        )

    async def run(self) -> None:
        """Govern until cancelled."""
        while True:
            self.step(time.monotonic_ns())
            await asyncio.sleep(PERIOD_S)

    def step(self, monotonic_ns: int) -> None:
        """Govern for one period."""
        seen = self._writing.look(monotonic_ns, counted(self._pipelines))
        for name, admission in self._governor.step(seen, self._readers.wanting()).items():
            self._readers[name].limit(admission if self.ceilings.is_on else None)
        self._say_news()

    def _say_news(self) -> None:
        governor = self._governor
        self._open_for = self._open_for + 1 if governor.state in (GovernorState.OPEN, *NOBODY_HELD) else 0
        if governor.state is GovernorState.LOWERING and not self._is_holding_back:
            self._is_holding_back = True
            self._events.warning(f"readers are held back: {governor.reason}")
        elif self._is_holding_back and (
            self._open_for >= OPEN_FOR or governor.state in (GovernorState.IDLE, GovernorState.OFF)
        ):
            self._is_holding_back = False
            self._events.info(f"readers are not held back any more: {governor.reason}")


def counted(pipelines: Mapping[str, Pipeline]) -> dict[str, Counted]:
    """What `Writing` looks at."""
    return {name: Counted(pipeline.latencies.fine, pipeline.waiting.triggers) for name, pipeline in pipelines.items()}


def _described(ceilings: GovernorConfig) -> str:
    ceilings_in_words = []
    if ceilings.commit_p99_ms is not None:
        ceilings_in_words.append(f"at most {ceilings.commit_p99_ms:g} ms of commit p99")
    if ceilings.backlog_triggers is not None:
        ceilings_in_words.append(f"at most {ceilings.backlog_triggers:,} triggers that wait")
    return " and ".join(ceilings_in_words) or "no ceiling, every reader may ask"
