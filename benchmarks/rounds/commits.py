"""The time that every strategy keeps, a commit an entry, and what follows from it: rates, 1/dt, latencies.

The rate that counts is that of the paper: 1/dt between successive triggers, a trigger being all of its instruments.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from benchmarks.load.workload import INSTRUMENTS
from benchmarks.rounds.summary import percentiles
from schemas.readings import Array

PER_DECADE = 20
HZ_EDGES: Array = 10.0 ** (np.arange(6 * PER_DECADE + 1) / PER_DECADE)
"""Bins of the histogram of 1/dt: 1 Hz to 1 MHz, 20 a decade; what lies outside counts in the outermost."""

SHORTEST_S = 1e-9
"""The clock counts nanoseconds: commits that two threads saw end in the same one are at most this far apart."""

LEAST = 3
"""Triggers that are written in a round however slow that is."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Commits:
    """What a strategy did in a round, a commit an entry; times in s on CLOCK_MONOTONIC, which processes share.

    began: when the writing began. ready: float64, shape (n,): when the first trigger of the commit was ready to be
    written. acknowledged: float64, shape (n,), ascending. triggers: int64, shape (n,): how many the commit completed.
    readings: how many readings the database has acknowledged, those of triggers that are not complete included.
    half_written: how many triggers a reader saw half, where one looked.
    """

    began: float
    ready: Array
    acknowledged: Array
    triggers: Array
    readings: int
    half_written: int | None = None

    @property
    def count(self) -> int:
        """Triggers completed."""
        return int(self.triggers.sum())

    @property
    def seconds_a_trigger(self) -> float:
        """From the beginning to the last acknowledgement, over the triggers completed."""
        return float(self.acknowledged[-1] - self.began) / self.count

    def facts(self) -> dict[str, float]:
        """What is kept of a round, by name."""
        latency = percentiles((self.acknowledged - self.ready) * 1e3)
        found = {
            "triggers": self.count,
            "triggers a commit": self.count / len(self.triggers),
            "p50 ms": latency.p50,
            "p99 ms": latency.p99,
            "max ms": latency.max,
            **hz_quartiles(self.acknowledged, self.triggers),
        }
        return found if self.half_written is None else found | {"half_written": self.half_written}


class Clock:
    """Keeps the time of a strategy from now on; tasks and threads may share one."""

    def __init__(self, seconds: float) -> None:
        self._stood = 0.0
        self._entries: list[tuple[float, float, int]] = []
        self.began = self.now()
        self._end = self.began + seconds

    def now(self) -> float:
        """The time, without that the clock stood still."""
        return time.monotonic() - self._stood

    def feed(self, triggers: Sequence[T]) -> Iterator[tuple[float, T]]:
        """Give triggers, round and round, each with the time at which it was ready, until the time is over.

        There are a few at least, even when one takes as long: 1/dt is between two.
        """
        for number, trigger in enumerate(itertools.cycle(triggers)):
            ready = self.now()
            if ready >= self._end and number >= LEAST:
                return
            yield ready, trigger

    def committed(self, ready: float, triggers: int = 1) -> None:
        """Note an acknowledgement, now, of a commit that completed triggers, the first of which was ready then."""
        self._entries.append((self.now(), ready, triggers))

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Let the clock stand still meanwhile."""
        begun = time.monotonic()
        yield
        self._stood += time.monotonic() - begun

    def commits(self, readings_a_trigger: int = INSTRUMENTS) -> Commits:
        """Everything noted so far.

        Raises:
            ValueError: nothing was.
        """
        if not self._entries:
            raise ValueError("nothing was committed in the time given; write for longer")
        acknowledged, ready, triggers = zip(*sorted(self._entries), strict=True)
        return Commits(
            began=self.began,
            ready=np.array(ready),
            acknowledged=np.array(acknowledged),
            triggers=np.array(triggers),
            readings=sum(triggers) * readings_a_trigger,
        )


def merged(parts: Sequence[Commits]) -> Commits:
    """Several writers of whole triggers as one: all their commits in the order they were acknowledged."""
    acknowledged = np.concatenate([part.acknowledged for part in parts])
    order = np.argsort(acknowledged, kind="stable")
    return Commits(
        began=min(part.began for part in parts),
        ready=np.concatenate([part.ready for part in parts])[order],
        acknowledged=acknowledged[order],
        triggers=np.concatenate([part.triggers for part in parts])[order],
        readings=sum(part.readings for part in parts),
    )


def completed(parts: Sequence[Commits]) -> Commits:
    """Several writers of parts of the same triggers, one trigger a commit, as one.

    A trigger is complete when the last has committed its part, and was ready when the first began with it. Those of
    which a part is missing in the end do not count.

    Raises:
        ValueError: there is no complete trigger.
    """
    whole = min(len(part.triggers) for part in parts)
    if not whole:
        raise ValueError("no trigger is complete; write for longer")
    return Commits(
        began=min(part.began for part in parts),
        ready=np.min([part.ready[:whole] for part in parts], axis=0),
        acknowledged=np.max([part.acknowledged[:whole] for part in parts], axis=0),
        triggers=np.ones(whole, np.int64),
        readings=sum(part.readings for part in parts),
    )


def with_half_written(commits: Commits, half_written: int) -> Commits:
    """The same, and what a reader saw."""
    return replace(commits, half_written=half_written)


def hz(acknowledged: Array, triggers: Array) -> Array:
    """1/dt between successive triggers, float64, an entry a trigger: of a commit of n after dt, n times n/dt.

    The triggers of the first commit have none before them to be measured from.

    Raises:
        ValueError: there are fewer than two commits.
    """
    if len(acknowledged) < 2:
        raise ValueError(f"{len(acknowledged)} commits are too few for a rate; write for longer")
    dt = np.maximum(np.diff(acknowledged), SHORTEST_S)
    return np.repeat(triggers[1:] / dt, triggers[1:])


def hz_quartiles(acknowledged: Array, triggers: Array) -> dict[str, float]:
    """Quartiles of 1/dt, a trigger a vote; values that were measured."""
    found = np.percentile(hz(acknowledged, triggers), (25, 50, 75), method="inverted_cdf")
    return {f"hz p{percent}": float(value) for percent, value in zip((25, 50, 75), found, strict=True)}


def hz_histogram(acknowledged: Array, triggers: Array) -> Array:
    """Triggers by their 1/dt, int64, shape (len(HZ_EDGES) - 1,)."""
    inside = np.clip(hz(acknowledged, triggers), HZ_EDGES[0], HZ_EDGES[-1])
    return np.asarray(np.histogram(inside, HZ_EDGES)[0])
