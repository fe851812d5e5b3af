"""Alarms: what is wrong (`causes`, `limits`, `visits`), and what people said of it (`board`, `memory`)."""

from dashboard.alarms.alarm import Alarm, Cause, Severity
from dashboard.alarms.board import CLEAR_AFTER_S, AlarmBoard
from dashboard.alarms.causes import alarms
from dashboard.alarms.memory import MemoryFile

__all__ = ["CLEAR_AFTER_S", "Alarm", "AlarmBoard", "Cause", "MemoryFile", "Severity", "alarms"]
