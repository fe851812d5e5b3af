"""Times and durations as an operator writes them, and times as text; UTC where no zone is given."""

import re
from datetime import UTC, datetime, timedelta

from daemon.core.outcome import CommandFailed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FRACTION = re.compile(r"(.+:\d\d)[.,](\d{1,9})(.*)")
LIKE = "write it like 2026-11-21T18:00 (UTC) or 2026-11-21T18:00:00+01:00"
_MOST_NS = 2**63 - 1
LEAST_NS = 10**15
"""A whole number from here on is nanoseconds since 1970: as a year it makes no sense."""


def moment(text: str, option: str) -> int:
    """Read a time: RFC 3339 or a part of it, without a zone UTC; or whole nanoseconds since 1970-01-01 UTC.

    Raises:
        CommandFailed: the text has another form.
    """
    if text.isdecimal() and int(text) > _MOST_NS:
        raise CommandFailed(f"{option}: {text} ns are beyond {rfc3339(_MOST_NS)}, the end of times in 64 bits; {LIKE}")
    if text.isdecimal() and int(text) >= LEAST_NS:
        return int(text)
    try:
        return _in_64_bits(read_rfc3339(text))
    except ValueError as error:
        raise CommandFailed(f"{option}: {error}; {LIKE}") from None


def read_rfc3339(text: str) -> int:
    """RFC 3339 or a part of it, without a zone UTC, to the nanosecond; ns since 1970-01-01 UTC. Raises ValueError."""
    found = _FRACTION.fullmatch(text)
    whole, fraction = (f"{found[1]}{found[3]}", found[2]) if found else (text, "0")
    try:
        read = datetime.fromisoformat(whole)
    except ValueError:
        raise ValueError(f"{text!r} is not a time") from None
    aware = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(seconds=1) * 10**9 + int(fraction.ljust(9, "0"))


def _in_64_bits(time_ns: int) -> int:
    """The same time, or the end of those that 64 bits hold: years from 1677 to 2262."""
    return max(-_MOST_NS - 1, min(time_ns, _MOST_NS))


def duration_ns(text: str, option: str) -> int:
    """Read a duration like 30m; ns.

    Raises:
        CommandFailed: the text has another form.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if found is None or not float(found[1]):
        raise CommandFailed(f"{option}: {text!r} is not a duration; write it like 90s, 30m, 12h, 7d or 2w")
    length_ns = round(float(found[1]) * _SECONDS[found[2]] * 1e9)
    if length_ns > _MOST_NS:
        raise CommandFailed(f"{option}: {text!r} is longer than the {_MOST_NS / 1e9 / 31_556_952:.0f} years of 64 bits")
    return length_ns


def rfc3339(time_ns: int) -> str:
    """A time as RFC 3339 in UTC, to the nanosecond where it is not a whole second."""
    seconds, rest = divmod(time_ns, 10**9)
    whole = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{rest:09d}Z" if rest else f"{whole}Z"
