"""Desynchronisation: instruments whose trigger numbers, or clocks, have gone from those of the others. Pure."""

from daemon.pipeline.desync.desync import Desync
from daemon.pipeline.desync.verdicts import Kind
from daemon.pipeline.desync.words import Announcer, Finding

__all__ = ["Announcer", "Desync", "Finding", "Kind"]
