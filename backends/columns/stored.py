"""How readings are stored, whatever the database: the types of channels, what marks a missing one, and times."""

from dataclasses import fields

from schemas.batch import JournalPosition
from schemas.readings import CHANNEL_DTYPES

ACCOUNT = ("triggers", "readings")
"""Columns of `positions`: how much the logger ever committed into the group, moved with the position."""

POSITION = tuple(field.name for field in fields(JournalPosition))
"""Columns of `positions` beside its key."""

MISSING_OFFSET = -(2**63)
"""In the arrays layout, `time_offset_ns` of an instrument that is missing."""

STORED_DTYPES: dict[str, str] = {
    **CHANNEL_DTYPES,
    "int8": "<i2",
    "uint8": "<i2",
    "uint16": "<i4",
    "uint32": "<i8",
}
"""Channel dtypes as they are stored: SQL has neither unsigned nor 8-bit integers, so these take the next wider one."""

SLACK_NS = 5_000_000_000
"""In the arrays layout, how far a reading's own time may be from its trigger's and still be found by time, in ns.

Rows are found by their trigger's time, so every question about a stretch of time reads this much more at either end.
"""


def slack(start_ns: int, end_ns: int) -> tuple[int, int]:
    """Widen a stretch of time to that of the triggers whose readings may be in it."""
    return max(start_ns - SLACK_NS, -(2**63)), min(end_ns + SLACK_NS, 2**63 - 1)
