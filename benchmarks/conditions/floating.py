"""What a `comb_iov` in floating point would answer: it has no place among the strategies, which all answer right."""

from collections.abc import Sequence

import numpy as np

from benchmarks.conditions.keys import MINORS
from benchmarks.conditions.scenarios import Scenario, intervals_of
from schemas.conditions.intervals import Key
from schemas.readings import Array

SCALE = 1e19


def rounded(starts: Array, key: Key) -> int:
    """Which interval would be found at a key, by major + minor / 1e19 as float64; starts: KEY_DTYPE, in order."""
    combined = starts["major"] + starts["minor"] / SCALE
    return int(np.searchsorted(combined, key.major + key.minor / SCALE, "right")) - 1


def wrong_rows(scenario: Scenario, keys: Sequence[Key], seed: int = 0) -> float:
    """Which part of the rows of all answers would be those of another interval."""
    wrong = 0
    for number in range(scenario.types):
        starts = intervals_of(scenario, number, seed).starts
        exact = starts["major"] * MINORS + starts["minor"]
        for key in keys:
            right = int(np.searchsorted(exact, key.major * MINORS + key.minor, "right")) - 1
            wrong += rounded(starts, key) != right
    return wrong / (scenario.types * len(keys))
