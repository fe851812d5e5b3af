"""Alarms: what is wrong, and what people said of it, whether or not anybody looks.

`causes` makes the alarms of a status (`limits`, `gaps`, `visits`, `conditions`); `board` remembers what people did
about them, `marking` which become marks, and `memory` both over a restart; `history` makes events of them; `keeper`
does that for the daemon. Read `keeper` first.
"""

from daemon.alarms.alarm import Alarm, Cause, Severity
from daemon.alarms.board import CLEAR_AFTER_S, AlarmBoard
from daemon.alarms.causes import alarms
from daemon.alarms.keeper import AlarmKeeper
from daemon.alarms.marking import Marking
from daemon.alarms.memory import MemoryFile

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
