"""How the writing fares from one look to the next, for what judges it: the governor."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.core.monitoring.metrics import percentile_of
from daemon.workloads.readers.governor.governor import Seen
from schemas.readings import Array

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
