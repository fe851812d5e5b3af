"""Who puts readings into an intake, and wants to be told what becomes of them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Subscriber:
    """What a source is told.

    settled: acknowledgements may have moved on. full: backpressure begins (True) or ends. flush: hand on what gathered.
    refused: nothing more is taken, for a reason that the intake has. moved: connections have other columns from now on,
    by those they had.
    """

    settled: Callable[[], None] = lambda: None
    full: Callable[[bool], None] = lambda is_full: None
    flush: Callable[[], None] = lambda: None
    refused: Callable[[], None] = lambda: None
    moved: Callable[[dict[int, int]], None] = lambda columns: None
