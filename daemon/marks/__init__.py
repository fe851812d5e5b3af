"""Marks: events that people note. Orders of the API come in; marks in the database, and their number in the status.

Read `keeper`: orders that wait on the disk, and what answers them and writes them into the database.
"""

from daemon.marks.keeper import MarkKeeper, MarkRefused, MarksNotKept

__all__ = ["MarkKeeper", "MarkRefused", "MarksNotKept"]
