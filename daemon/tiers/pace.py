"""The pace of a move: as its tier takes it at most, and slower while the writing does not keep its promise."""

from asyncio import sleep
from collections.abc import Callable, Mapping
from time import monotonic, monotonic_ns

from daemon.pipeline.pipeline import Pipeline
from daemon.workloads.readers.governor import Governor, Writing, counted
from schemas.config.workloads import GovernorConfig

LOOK_NS = 1_000_000_000
MIB = 2**20
MOVER = {"tiers": 1}
"""A move is to the governor what one more reader is."""


class Allowance:
    """What part of its time a move may work, by the ceilings that hold readers back."""

    def __init__(self, ceilings: GovernorConfig, pipelines: Mapping[str, Pipeline]) -> None:
        self._governor = Governor(ceilings)
        self._writing = Writing()
        self._pipelines = pipelines
        self._looked_ns: int | None = None

    def change(self, ceilings: GovernorConfig) -> None:
        """Keep these ceilings from now on."""
        self._governor.change(ceilings)

    def share(self) -> float:
        """The part, above 0 and at most 1; it is looked at the writing once a second at most."""
        now_ns = monotonic_ns()
        if self._looked_ns is None or now_ns - self._looked_ns >= LOOK_NS:
            self._looked_ns = now_ns
            self._governor.step(self._writing.look(now_ns, counted(self._pipelines)), MOVER)
        return min(1.0, self._governor.dose)


class Paced:
    """The pace of one move (`backends.base.Pace`), and how far it is.

    nbytes: of the period. mib_per_s: its tier takes so much at most. share: as `Allowance.share`.
    """

    def __init__(self, nbytes: int, mib_per_s: float, share: Callable[[], float] = lambda: 1.0) -> None:
        self._nbytes = nbytes
        self._rate = mib_per_s * MIB
        self._share = share
        self._first: tuple[float, float] | None = None
        self._stepped_s = 0.0
        self.done = 0.0

    async def __call__(self, done: float) -> None:
        """Wait until the next step may be done."""
        now_s = monotonic()
        if self._first is None:
            self._first = now_s, done
        else:
            await sleep(self._pause_s(done - self.done, now_s - self._stepped_s))
        self.done, self._stepped_s = done, monotonic()

    def left_s(self) -> float | None:
        """How long it will last at the pace so far; None before there is any."""
        if self._first is None or self.done <= self._first[1]:
            return None
        return (monotonic() - self._first[0]) * (1 - self.done) / (self.done - self._first[1])

    def _pause_s(self, part: float, took_s: float) -> float:
        return max(part * self._nbytes / self._rate - took_s, took_s * (1 / self._share() - 1), 0.0)
