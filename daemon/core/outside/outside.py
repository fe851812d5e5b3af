"""Clocks, disk, randomness and threads, passed as one."""

import random
from dataclasses import dataclass
from typing import Self

from daemon.core.outside.clock import Clock, SystemClock
from daemon.core.outside.disk import Disk, SystemDisk
from daemon.core.outside.workers import ThreadWorkers, Workers


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What the daemon needs of its machine. rng: for what has to be unique; not for secrets."""

    clock: Clock
    disk: Disk
    rng: random.Random
    workers: Workers

    @classmethod
    def real(cls, disk: SystemDisk | None = None) -> Self:
        """The machine itself."""
        return cls(clock=SystemClock(), disk=disk or SystemDisk(), rng=random.SystemRandom(), workers=ThreadWorkers())
