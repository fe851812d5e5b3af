"""The outlook: how long an outage of the database may still last, when one is made up for, and when a disk is full.

All are computed with means, never with one sample, and are None where these tell nothing.
"""

AT_ONCE_S = 1.0
"""What comes in during this time may wait without anybody being behind."""


def full_in_s(room_bytes: float, growth: float) -> float | None:
    """Time until no more has room, in s, if the database took nothing from now on; None while nothing comes in.

    Args:
        room_bytes: where closed triggers wait, what is still free of it.
        growth: what is put there, in bytes a second.
    """
    return max(0.0, room_bytes) / growth if growth > 0 else None


def full_in_days(free_bytes: int, bytes_a_day: float | None) -> float | None:
    """Time until a disk is full, in days; None where nothing on it grows, or nobody knows."""
    return free_bytes / bytes_a_day if bytes_a_day is not None and bytes_a_day > 0 else None


def drained_in_s(waiting: int, receive_rate: float, commit_rate: float) -> float | None:
    """Time until the database is abreast of what comes in, in s; 0 when it is, None while it does not come nearer.

    Args:
        waiting: readings closed and not yet committed.
        receive_rate: readings a second that come in.
        commit_rate: readings a second that are committed.
    """
    if waiting <= AT_ONCE_S * receive_rate or not waiting:
        return 0.0
    gain = commit_rate - receive_rate
    return waiting / gain if gain > 0 else None
