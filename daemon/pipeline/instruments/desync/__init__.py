"""Desynchronisation: instruments whose trigger numbers, or clocks, have gone from those of the others. Pure.

The invariant: the time of a reading is that of its trigger, which is the median of its readings, within the limit, and
nearer to it than to any other trigger. An instrument is out of step when too many of its readings violate that.
"""

from daemon.pipeline.instruments.desync.desync import Desync
from daemon.pipeline.instruments.desync.verdicts import Kind
from daemon.pipeline.instruments.desync.words import Announcer, Finding

__all__ = ["Announcer", "Desync", "Finding", "Kind"]
