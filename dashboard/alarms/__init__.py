"""Alarms: what an operator has to be told, what is exceeded, and what somebody has seen to already."""

from dashboard.alarms.alarm import Alarm, Severity
from dashboard.alarms.board import CLEAR_AFTER_S, AlarmBoard
from dashboard.alarms.causes import alarms

__all__ = ["CLEAR_AFTER_S", "Alarm", "AlarmBoard", "Severity", "alarms"]
