"""Whether the pipeline makes progress: what the watchdog is fed from.

A part of the pipeline that has something to do has to move on. A part with nothing to do may rest as long as it likes,
and so may one whose work nobody can do for now: a database that is away is no reason to start the daemon again, and
a committer that tries again and again moves on.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the pipeline, as it is at one moment.

    name: says in words what has to move.
    steps: how far it is; any change is progress.
    is_busy: whether it has something to do.
    extra_s: how much longer than the others one step of it may take, in s.
    """

    name: str
    steps: int
    is_busy: bool
    extra_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """A part that should move and does not. for_s: since when, in s."""

    name: str
    for_s: float

    def __str__(self) -> str:
        """In words."""
        return f"{self.name} without progress for {self.for_s:.0f} s"


class ProgressWatch:
    """Looks at the parts again and again, and tells which are stuck.

    patience_s: how long a part with work may stay where it is.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._moved: dict[str, tuple[int, float]] = {}

    def look(self, parts: Iterable[Part], now_s: float) -> list[Stuck]:
        """Compare with the looks before; now_s: any clock that only grows, in s."""
        before, self._moved = self._moved, {}
        stuck = []
        for part in parts:
            steps, since_s = before.get(part.name, (part.steps, now_s))
            if not part.is_busy or part.steps != steps:
                since_s = now_s
            self._moved[part.name] = (part.steps, since_s)
            if now_s - since_s > self._patience_s + part.extra_s:
                stuck.append(Stuck(name=part.name, for_s=now_s - since_s))
        return stuck
