"""The governor: how much of the readers is admitted, so that the writing keeps its promise.

The dose is the number of clients that may ask, of all workloads together. It is lowered by a factor when a ceiling is
broken, and raised by small steps when it is kept with room to spare (AIMD, as TCP does it). A dose below one is one
client for a part of the time: on a small machine a single client that asks without a pause can be too many already.

A question that runs when its client is held back is answered: the dose decides when the next one is asked.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.core.monitoring.events import Events
from daemon.core.monitoring.metrics import percentile_of
from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.readers.manager import Readers
from daemon.workloads.readers.messages import Admission
from schemas.api.status import GovernorStatus
from schemas.config.workloads import GovernorConfig
from schemas.readings import Array
from schemas.states import GovernorState

LEAST_DOSE = 1 / 64
"""Readers still get on, whatever the writing suffers."""

ROOM = 0.8
"""The dose is raised while what is measured stays below this part of its ceiling, and stays as it is above."""

MUCH_ROOM = 0.5
CALM_PERIODS = 3
PATIENCE, MOST_PATIENCE = 20, 80
"""Periods for which a ceiling has to be kept with room before a dose that broke it is tried again; twice as many after
each time that it broke it again, up to the most."""

NEARLY = 0.95
STEPS = 8
"""Steps from nothing to the dose that broke a ceiling last."""

LOWER_MOST, LOWER_LEAST = 0.25, 0.7
"""A dose is lowered by the factor by which the ceiling is exceeded, between these."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the writing was like, of the group that is worst off.

    p99_ms: commit p99 of the last period; lasting_ms: of the last ten seconds. None where nothing was committed.
    backlog: triggers that wait now.
    """

    p99_ms: float | None
    lasting_ms: float | None
    backlog: int


NOTHING_SEEN = Seen(p99_ms=None, lasting_ms=None, backlog=0)


@dataclass(frozen=True)
class _Strain:
    """How much of a ceiling is used, lately and over ten seconds, and both in words."""

    now: float
    lasting: float
    value: str
    ceiling: str

    @property
    def is_over(self) -> bool:
        """A moment does not break a p99, and what is over already needs no answer any more."""
        return min(self.now, self.lasting) > 1

    @property
    def described(self) -> str:
        if self.is_over:
            return f"{self.value} is over its ceiling of {self.ceiling}"
        return f"{self.value} is within its ceiling of {self.ceiling}"


class Governor:
    """Decides once a period; pure: from what was seen follows what may ask.

    dose: clients that may ask, of all workloads together; below 1 it is a part of the time. state, reason: as in
    `schemas.api.status.GovernorStatus`.
    """

    def __init__(self, ceilings: GovernorConfig) -> None:
        self.ceilings = ceilings
        self.dose = 0.0
        self.clients = 0
        self.state = GovernorState.IDLE
        self.reason = ""
        self._forget()
        self._seen: Seen = NOTHING_SEEN
        self._admissions: dict[str, Admission] = {}
        self._describe()

    def change(self, ceilings: GovernorConfig) -> None:
        """Keep these ceilings from now on; what may ask at the moment is where it begins."""
        if ceilings != self.ceilings:
            self.ceilings = ceilings
            self._forget()
            self.state = GovernorState.OPEN if self.dose >= self.clients else GovernorState.HOLDING
            self._describe()

    def step(self, seen: Seen, clients: Mapping[str, int]) -> dict[str, Admission]:
        """Take what was seen in the last period; return what may ask now, of the clients that each workload has."""
        self._seen = seen
        strain = self._worst(seen)
        self._count(sum(clients.values()))
        if strain is None:
            self.dose = float(self.clients)
        elif self.clients:
            self._decide(strain)
        self._admissions = shared_out(self.dose, clients)
        self._describe()
        return self._admissions

    # --- what is promised ---------------------------------------------------------------------------------------

    def _worst(self, seen: Seen) -> _Strain | None:
        ceilings, strains = self.ceilings, []
        if ceilings.commit_p99_ms is not None:
            now, lasting = ((value or 0.0) / ceilings.commit_p99_ms for value in (seen.p99_ms, seen.lasting_ms))
            shown = seen.p99_ms if min(now, lasting) > 1 else seen.lasting_ms
            value = "commit p99" if shown is None else f"commit p99 {_ms(shown)}"
            strains.append(_Strain(now, lasting, value, _ms(ceilings.commit_p99_ms)))
        if ceilings.backlog_triggers is not None:
            part = seen.backlog / ceilings.backlog_triggers
            value = f"the backlog of {_counted(seen.backlog)}"
            strains.append(_Strain(part, part, value, _counted(ceilings.backlog_triggers)))
        return max(strains, key=lambda strain: (strain.is_over, strain.lasting), default=None)

    # --- what is decided ----------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._broke_at: float | None = None
        self._patience = PATIENCE
        self._calm = 0
        self._was_lowered = False

    def _count(self, clients: int) -> None:
        """Workloads that are new begin with one client, and are raised from there."""
        if clients > self.clients:
            self.dose += 1.0
        self.dose = min(self.dose, float(clients))
        self.clients = clients
        if not clients:
            self._forget()

    def _decide(self, strain: _Strain) -> None:
        # What is measured now was in part asked before the last order: it is not judged a second time.
        was_lowered, self._was_lowered = self._was_lowered, False
        if strain.is_over:
            self._calm = 0
            self.state = GovernorState.LOWERING
            if not was_lowered:
                self._lower(strain)
        elif strain.lasting > ROOM:
            self._calm = 0
            self.state = GovernorState.OPEN if self.dose >= self.clients else GovernorState.HOLDING
        else:
            self._calm += 1
            self._raise(strain)

    def _lower(self, strain: _Strain) -> None:
        if self._broke_at is not None and self.dose >= NEARLY * self._broke_at:
            self._patience = min(2 * self._patience, MOST_PATIENCE)
        if self.dose <= LEAST_DOSE:
            self.state = GovernorState.HOLDING
            return
        self._broke_at = self.dose
        self.dose = max(LEAST_DOSE, self.dose * min(max(1 / strain.now, LOWER_MOST), LOWER_LEAST))
        self._was_lowered = True

    def _raise(self, strain: _Strain) -> None:
        if self.dose >= self.clients:
            self.state = GovernorState.OPEN
            return
        self.state = GovernorState.HOLDING
        wanted = self._next(strain)
        tries = self._broke_at is not None and wanted >= NEARLY * self._broke_at
        if self._calm < (self._patience if tries else CALM_PERIODS):
            return
        if tries and self._broke_at is not None and self.dose >= NEARLY * self._broke_at:
            # What broke the ceiling then does not now.
            self._broke_at, self._patience = None, PATIENCE
        self._calm = 0
        self.dose = min(wanted, float(self.clients))
        self.state = GovernorState.OPEN if self.dose >= self.clients else GovernorState.RAISING

    def _next(self, strain: _Strain) -> float:
        if self._broke_at is not None:
            return self.dose + self._broke_at / STEPS
        return self.dose * (2 if strain.lasting <= MUCH_ROOM else 1 + 1 / STEPS)

    # --- what is shown -------------------------------------------------------------------------------------------

    def _describe(self) -> None:
        strain = self._worst(self._seen)
        self.admitted = sum(admission.clients for admission in self._admissions.values())
        self.share = min(1.0, self.dose / self.admitted) if self.admitted else 1.0
        if strain is None:
            self.state, self.reason = GovernorState.OFF, "no ceiling is set: every client may ask"
        elif not self.clients:
            self.state, self.reason = GovernorState.IDLE, "no reader workload runs"
        else:
            self.reason = f"{strain.described}{self._even_so(strain)}: {self._who()}"

    def _even_so(self, strain: _Strain) -> str:
        return ", and not for the readers" if strain.is_over and self.dose <= LEAST_DOSE else ""

    def _who(self) -> str:
        who = f"{self.admitted} of {self.clients} clients may ask"
        if self.admitted == self.clients:
            who = "the client may ask" if self.clients == 1 else f"all {self.clients} clients may ask"
        return who if self.share >= 1 else f"{who}, {100 * self.share:.2g} % of the time"


def shared_out(dose: float, clients: Mapping[str, int]) -> dict[str, Admission]:
    """Share a dose out among workloads: each gets as much as the others, but no more than it has clients."""
    admissions, left = {}, dose
    for place, name in enumerate(sorted(clients, key=lambda name: clients[name])):
        part = min(float(clients[name]), left / (len(clients) - place))
        left -= part
        admitted = math.ceil(part - 1e-9)
        admissions[name] = Admission(clients=admitted, share=min(1.0, part / admitted) if admitted else 1.0)
    return admissions


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def _counted(triggers: int) -> str:
    return f"{triggers:,} trigger{'' if triggers == 1 else 's'}"


# --- how the writing fares -------------------------------------------------------------------------------------------

LASTING_NS = 10_000_000_000
"""What a p99 of the status is over."""

ENOUGH = 20
"""Commit latencies that a p99 of the last period needs; at slow rates it is of as many periods as that takes."""


@dataclass(frozen=True)
class Counted:
    """A group at one moment.

    fine: as `daemon.core.monitoring.metrics.Latencies.fine`, ever growing. waiting: triggers that wait.
    """

    fine: Array
    waiting: int


@dataclass
class _Group:
    """Looks of the last ten seconds, and when something was committed last or nothing waited."""

    looks: deque[tuple[int, Array]] = field(default_factory=deque)
    moved_ns: int = 0
    total: int = 0


class Writing:
    """What the writing was like, of the group that is worst off; look about once a second."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def look(self, monotonic_ns: int, groups: Mapping[str, Counted]) -> Seen:
        """Look at all groups; the first look at one sees nothing of it but its backlog."""
        seen = [self._group(monotonic_ns, name, counted) for name, counted in groups.items()]
        return Seen(
            p99_ms=max((one.p99_ms for one in seen if one.p99_ms is not None), default=None),
            lasting_ms=max((one.lasting_ms for one in seen if one.lasting_ms is not None), default=None),
            backlog=max((one.backlog for one in seen), default=0),
        )

    def _group(self, monotonic_ns: int, name: str, counted: Counted) -> Seen:
        group = self._groups.setdefault(name, _Group())
        fine, total = counted.fine.copy(), int(counted.fine.sum())
        if total != group.total or not counted.waiting or not group.looks:
            group.total, group.moved_ns = total, monotonic_ns
        p99, lasting = _last_period(fine, group.looks), None
        if group.looks:
            lasting = percentile_of(fine - group.looks[0][1], 99)
        while len(group.looks) > 1 and monotonic_ns - group.looks[1][0] >= LASTING_NS:
            group.looks.popleft()
        group.looks.append((monotonic_ns, fine))
        # What waits while nothing is committed has no latency yet, but it has waited for so long already.
        stalled_ms = (monotonic_ns - group.moved_ns) / 1e6
        if stalled_ms:
            p99, lasting = (max(stalled_ms, value or 0.0) for value in (p99, lasting))
        return Seen(p99_ms=p99, lasting_ms=lasting, backlog=counted.waiting)


def _last_period(fine: Array, looks: deque[tuple[int, Array]]) -> float | None:
    """The p99 since the last look, or since an earlier one that has enough in between."""
    since = None
    for _, before in reversed(looks):
        since = fine - before
        if since.sum() >= ENOUGH:
            break
    return None if since is None else percentile_of(since, 99)


# --- the governor at work in a daemon --------------------------------------------------------------------------------

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
