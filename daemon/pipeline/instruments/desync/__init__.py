"""Desynchronisation: instruments whose trigger numbers, or clocks, have gone from those of the others. Pure."""

from daemon.pipeline.instruments.desync.desync import Desync
from daemon.pipeline.instruments.desync.verdicts import Kind
from daemon.pipeline.instruments.desync.words import Announcer, Finding

__all__ = ["Announcer", "Desync", "Finding", "Kind"]
