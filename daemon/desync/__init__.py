"""Desynchronisation: instruments whose trigger numbers, or clocks, have gone from those of the others. Pure."""

from daemon.desync.desync import Desync
from daemon.desync.verdicts import Kind
from daemon.desync.words import Announcer, Finding

__all__ = ["Announcer", "Desync", "Finding", "Kind"]
