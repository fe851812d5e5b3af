"""Alarms: what is wrong (`causes`, `limits`, `visits`), and since when, and who has acknowledged it (`board`)."""

from dashboard.alarms.alarm import Alarm, Cause, Severity
from dashboard.alarms.board import CLEAR_AFTER_S, AlarmBoard
from dashboard.alarms.causes import alarms

__all__ = ["CLEAR_AFTER_S", "Alarm", "AlarmBoard", "Cause", "Severity", "alarms"]
