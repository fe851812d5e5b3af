"""Why a period is not dropped, in words that all stores share."""

from backends.base import BatchRejected, StoreError
from schemas.retention import Period

AHEAD_MOST_NS = 3_600_000_000_000
"""By age nothing is dropped if the daemon's clock is further ahead of the server's."""


def see_clocks(at_ns: int, server_ns: int) -> None:
    """See that it is not the daemon's clock alone that makes a period old.

    at_ns, server_ns: now, by the daemon's clock and by the server's (UTC, ns).

    Raises:
        StoreError: the daemon's is too far ahead.
    """
    if at_ns - server_ns > AHEAD_MOST_NS:
        hours = (at_ns - server_ns) / 3.6e12
        raise StoreError(
            f"the clock of the daemon's node is {hours:,.1f} hours ahead of the database server's: age drops"
            " nothing until the one that is wrong is set"
        )


def no_such(period: Period) -> StoreError:
    """There is nothing to drop."""
    return StoreError(f"group {period.group!r} has no partition {period.name!r} with readings")


def dropped_meanwhile(run: int, trigger: int) -> BatchRejected:
    """A reading came late for arrays that were dropped: alone they would be a part of a period without the rest."""
    reason = "the readings of its time were dropped by retention"
    return BatchRejected(reason, f"trigger {trigger} of run {run}")
