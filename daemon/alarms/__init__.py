"""Alarms: what is wrong, and what people said of it, whether or not anybody looks.

`causes` makes the alarms of a status (`limits`, `gaps`, `services`); `board` remembers what people did about them, over
a restart, too, and `marking` which become marks; `keeper` does that for the daemon, and makes events of them. Read
`keeper` first.
"""

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.board import CLEAR_AFTER_S, AlarmBoard, MemoryFile
from daemon.alarms.causes import alarms
from daemon.alarms.keeper import AlarmKeeper
from daemon.alarms.marking import Marking

__all__ = [
    "CLEAR_AFTER_S",
    "Alarm",
    "AlarmBoard",
    "AlarmKeeper",
    "Cause",
    "Marking",
    "MemoryFile",
    "Severity",
    "alarms",
]
