"""How budgets are filled by heat: which tier each period should lie in, as a pure function.

The hottest for their bytes come first. What lies in a tier, or before it, stays unless something is hotter by a factor;
so nothing that was just moved moves back while the heat is what it was, and equal heat moves nothing.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from daemon.tiers.heat import SCANNED_S

FACTOR = 1.5
"""So much hotter for its bytes than what lies there has a period to be."""
PAYS = 3.0
"""What it saves within a half-life has to be worth so many copies."""
PAGE = 8192

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Candidate(Generic[K]):
    """A period that may move.

    lies: the number of its tier. least: of the first tier that it is not too old for. s_a_day: its heat. end_ns: of
    equal ones the newest stays.
    """

    key: K
    nbytes: int
    lies: int
    least: int
    s_a_day: float
    end_ns: int

    @property
    def heat(self) -> float:
        """Of a byte."""
        return self.s_a_day / max(1, self.nbytes)


def pays(each: Candidate[K], half_life_days: float) -> bool:
    """Whether it is so hot that it is worth to copy it."""
    return each.s_a_day > 0 and each.s_a_day * half_life_days >= PAYS * SCANNED_S * each.nbytes / PAGE


def filled(candidates: Sequence[Candidate[K]], room: Sequence[int | None], rising: set[K]) -> dict[K, int]:
    """The tier of each.

    room: bytes that each tier has for them, the last one for all; None without a limit. rising: those that may move to
    an earlier tier.
    """
    left, found = list(candidates), {}
    for number, bytes_left in enumerate([*room[:-1], None]):
        most = math.inf if bytes_left is None else bytes_left
        for each in sorted(left, key=lambda each: _order(each, number)):
            first = each.least if each.key in rising else max(each.least, each.lies)
            if first <= number and each.nbytes <= most:
                most -= each.nbytes
                found[each.key] = number
        left = [each for each in left if each.key not in found]
    return found


def _order(each: Candidate[K], number: int) -> tuple[float, bool, int]:
    lies_here = each.lies <= number
    return -each.heat * (FACTOR if lies_here else 1.0), not lies_here, -each.end_ns
