"""Verdicts: what one reading says of its instrument, given when the triggers were."""

from enum import IntEnum

import numpy as np

from daemon.pipeline.instruments.desync.timeline import MOST, NEAR, Timeline
from schemas.readings import Array

APART = 4
"""Triggers can be told apart by time when they lie so many times further apart than the instruments' timestamps."""

FITS = 10
"""Numbers have slipped by whole triggers: the timestamp fits another trigger within this part of the way to the next,
or within the spread of the others."""


class Kind(IntEnum):
    """A verdict on one reading of an instrument, or, from STUCK on, on several."""

    UNKNOWN = 0  # nothing
    IN_STEP = 1
    VAGUE = 2  # its timestamp is within the limit, and near to no trigger
    SLIPPED = 3  # its timestamp is that of another trigger than its number says
    CLOCK_OFF = 4  # its timestamp is beyond the limit, and that of no trigger
    STUCK = 5  # its number stands still
    IRREGULAR = 6  # its numbers are wrong by changing amounts


EVIDENCE = np.dtype([("instrument", "<i8"), ("trigger", "<i8"), ("time_ns", "<i8")])
"""A reading to be judged."""

VERDICT = np.dtype(
    [*EVIDENCE.descr, ("kind", "i1"), ("triggers", "<i8"), ("off_ns", "<i8"), ("gap_ns", "<i8"), ("beyond", "?")]
)
"""A reading with what it says.

triggers: how many its number is ahead of its timestamp (negative: behind), 0 unless SLIPPED. off_ns: its timestamp less
that of the trigger it names; computed from the rate where that is not known. gap_ns: how long its trigger lasts.
beyond: its timestamp is later than any trigger.
"""


def judge(evidence: Array, timeline: Timeline, limit_ns: int) -> Array:
    """Judge readings, EVIDENCE (n,), against a timeline that is not empty: VERDICT (n,).

    limit_ns: how far a right clock may be off.
    """
    numbers, times, spread_ns = evidence["trigger"], evidence["time_ns"], timeline.spread_ns
    found = timeline.match(times)
    own_ns, known = timeline.when(numbers)
    ahead = numbers - found.trigger
    off = np.where(known, times - own_ns, _computed(-ahead * timeline.period_ns))
    near = np.abs(found.off_ns) <= np.minimum(limit_ns, found.gap_ns // NEAR)
    fits = np.abs(found.off_ns) <= np.maximum(2 * spread_ns, found.gap_ns // FITS)
    slipped = near & fits & (ahead != 0) & (found.gap_ns >= APART * spread_ns)
    # A number that no trigger has had, or has any more, names none at that time.
    named = known | (found.between & ((numbers > timeline.trigger[-1]) | (numbers < timeline.trigger[0])))
    beyond, before = times > timeline.time_ns.max(), times < timeline.time_ns.min()
    # Between two triggers that do not follow each other there may be one of which nobody knows when it was.
    definite = named & (beyond | before | found.between)
    within = known & (np.abs(off) <= limit_ns)
    right = within & near & (ahead == 0)
    wrong = definite & (np.abs(off) > max(limit_ns, APART * spread_ns))
    verdicts = np.zeros(len(evidence), VERDICT)
    for name in EVIDENCE.names or ():
        verdicts[name] = evidence[name]
    verdicts["kind"] = np.select(
        [slipped, right, within & (near | definite), wrong],
        [Kind.SLIPPED, Kind.IN_STEP, Kind.VAGUE, Kind.CLOCK_OFF],
        Kind.UNKNOWN,
    )
    verdicts["triggers"] = np.where(slipped, ahead, 0)
    verdicts["off_ns"], verdicts["gap_ns"], verdicts["beyond"] = off, found.gap_ns, beyond
    return verdicts


def _computed(off_ns: Array) -> Array:
    return np.asarray(np.rint(np.clip(off_ns, -float(MOST), float(MOST))).astype(np.int64))
