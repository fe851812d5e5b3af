"""What assembly has in hand: readings that came and whose trigger is not closed yet."""

from dataclasses import dataclass

from schemas.readings import Array

DOUBLES_KEPT = 1024


@dataclass(frozen=True, kw_only=True)
class InHand:
    """Copies, for whoever cannot wait for a trigger to close.

    run: the run under way. trigger: int64 (t,), the open triggers, ascending. times: int64 ns (t, instruments),
    undefined where not present: bool of that shape. strays: record dtype (s,), readings held back.
    doubles: record dtype (d,), readings refused since the last time because one with their number was there already;
    the newest DOUBLES_KEPT.
    """

    run: int
    trigger: Array
    times: Array
    present: Array
    strays: Array
    doubles: Array
