"""The time zone in which the page shows times: one for the process, as a locale is, set before the page is made.

The scripts have its name from the settings, and do the same (T.offset in assets/format.js).
"""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_zone: tzinfo = UTC
_name = "UTC"


def use(name: str) -> None:
    """Show times in the zone of this IANA name, which was checked (schemas/config/listeners.py)."""
    global _name, _zone
    # UTC needs no files of zones.
    _name, _zone = name, UTC if name == "UTC" else ZoneInfo(name)


def label() -> str:
    """What stands behind a time: the name of the zone."""
    return _name


def local(ms: float) -> datetime:
    """A moment by the clock of the zone; ms since 1970-01-01 UTC."""
    return datetime.fromtimestamp(ms / 1e3, _zone)


def offset_ms(ms: float) -> float:
    """How far the clock of the zone is ahead of UTC at a moment, in ms; plotly.js shows ms as UTC.

    A time axis has one offset, that of its end: with that of each point it would run back when summer time ends.
    """
    ahead = local(ms).utcoffset()
    return 0.0 if ahead is None else ahead / timedelta(milliseconds=1)


def time_ns(text: str) -> int:
    """A time by the clock of the zone, such as `2026-11-21T18:00`, in ns since 1970-01-01 UTC. Raises ValueError.

    Of an hour that comes twice, the first is taken; a time that is left out is as far behind the change.
    """
    return (datetime.fromisoformat(text).replace(tzinfo=_zone) - EPOCH) // timedelta(microseconds=1) * 1000
