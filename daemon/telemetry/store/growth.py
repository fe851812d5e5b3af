"""How fast what is stored grows, by the sizes that the server tells."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

APART_S = 60.0
"""Sizes are kept this far apart, and nothing is computed from less: tables grow by leaps."""

OVER_S = 86_400.0
STEADY_S = 3_600.0
"""What grew in less tells nothing of the days to come: a backlog that is made up for, for one."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class _Sizes:
    at_s: float
    size_bytes: Mapping[str, int]


class Growth:
    """Sizes of the groups over the last day, a minute apart."""

    def __init__(self) -> None:
        self._kept: deque[_Sizes] = deque()
        self._newest: _Sizes | None = None

    def note(self, size_bytes: Mapping[str, int], now_s: float | None = None) -> None:
        """Take in the sizes now, by group; now_s: CLOCK_MONOTONIC, s."""
        now_s = time.monotonic() if now_s is None else now_s
        self._newest = _Sizes(now_s, dict(size_bytes))
        if not self._kept or now_s - self._kept[-1].at_s >= APART_S:
            self._kept.append(self._newest)
        while self._kept[0].at_s < now_s - OVER_S:
            self._kept.popleft()

    def age_s(self, now_s: float | None = None) -> float | None:
        """How old the newest sizes are; None without any."""
        now_s = time.monotonic() if now_s is None else now_s
        return None if self._newest is None else now_s - self._newest.at_s

    def bytes_a_day(self, group: str) -> tuple[float | None, float]:
        """Growth of a group in bytes a day, None until there is enough, and the seconds it was measured over."""
        if self._newest is None:
            return None, 0.0
        first = next((sizes for sizes in self._kept if group in sizes.size_bytes), self._newest)
        over_s = self._newest.at_s - first.at_s
        if over_s < APART_S or group not in self._newest.size_bytes:
            return None, over_s
        return (self._newest.size_bytes[group] - first.size_bytes[group]) / over_s * DAY_S, over_s

    def steady_bytes_a_day(self) -> float | None:
        """Growth of all groups together in bytes a day; None until it was measured for STEADY_S."""
        if self._newest is None:
            return None
        found = [self.bytes_a_day(group) for group in self._newest.size_bytes]
        if not found or min(over_s for _, over_s in found) < STEADY_S:
            return None
        return sum(growth or 0.0 for growth, _ in found)
