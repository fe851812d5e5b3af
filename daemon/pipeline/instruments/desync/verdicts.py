"""Verdicts: what one reading says of its instrument, given when the triggers were."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from daemon.pipeline.instruments.desync.rows import MOST
from daemon.pipeline.instruments.desync.timeline import Timeline
from schemas.readings import Array

APART = 4
"""Triggers can be told apart by time when they lie so many times further apart than the instruments' timestamps."""

NEAR = 5
"""A timestamp is that of a trigger when it lies within this part of the way to the next trigger."""

FITS = 10
"""Numbers have slipped by whole triggers: the timestamp fits another trigger within this part of the way to the next,
or within the spread of the others."""


class Kind(IntEnum):
    """What a reading says; UNKNOWN says nothing."""

    UNKNOWN = 0
    IN_STEP = 1
    SLIPPED = 2  # its timestamp is that of another trigger than its number says
    CLOCK_OFF = 3  # its timestamp is that of no trigger
    STUCK = 4  # its number is that of its reading before


EVIDENCE = np.dtype([("instrument", "<i8"), ("trigger", "<i8"), ("time_ns", "<i8"), ("final", "?")])
"""A reading to be judged; `final` when there will be no better moment to judge it."""


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """One verdict a reading, all of shape (n,).

    kind: int8. triggers: int64, how many its number is ahead of its timestamp (negative: behind), 0 unless SLIPPED.
    off_ns: int64, its timestamp less that of the trigger it names; computed from the rate where that is not known.
    """

    kind: Array
    triggers: Array
    off_ns: Array


def judge(evidence: Array, timeline: Timeline, *, limit_ns: int, spread_ns: int) -> Verdicts:
    """Judge readings, EVIDENCE (n,), against a timeline that is not empty.

    limit_ns: how far a right clock may be off. spread_ns: how far the timestamps of a trigger lie apart.
    """
    numbers, times = evidence["trigger"], evidence["time_ns"]
    found = timeline.match(times)
    own_ns, known = timeline.when(numbers)
    ahead = numbers - found.trigger
    off = np.where(known, times - own_ns, _computed(-ahead * timeline.period_ns))
    near = np.abs(found.off_ns) <= np.minimum(limit_ns, found.gap_ns // NEAR)
    fits = np.abs(found.off_ns) <= np.maximum(2 * spread_ns, found.gap_ns // FITS)
    slipped = near & fits & (ahead != 0) & (found.gap_ns >= APART * spread_ns)
    # Between two triggers that do not follow each other there may be one of which nobody knows when it was.
    definite = np.where(found.beyond, evidence["final"], found.between | ((times < timeline.time_ns.min()) & known))
    right = known & (np.abs(off) <= limit_ns) & np.where(near, ahead == 0, definite)
    wrong = known & (np.abs(off) > max(limit_ns, APART * spread_ns)) & definite
    kind = np.select([slipped, right, wrong], [Kind.SLIPPED, Kind.IN_STEP, Kind.CLOCK_OFF], Kind.UNKNOWN)
    return Verdicts(kind=kind.astype(np.int8), triggers=np.where(slipped, ahead, 0), off_ns=off)


def _computed(off_ns: Array) -> Array:
    return np.asarray(np.rint(np.clip(off_ns, -float(MOST), float(MOST))).astype(np.int64))


def too_early(evidence: Array, timeline: Timeline, verdicts: Verdicts) -> Array:
    """Which readings had better be judged again: they lie after the newest trigger known; bool, shape (n,)."""
    beyond = evidence["time_ns"] > timeline.time_ns.max(initial=np.iinfo(np.int64).min)
    return np.asarray(beyond & (verdicts.kind == Kind.UNKNOWN) & ~evidence["final"])
