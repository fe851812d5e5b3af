"""Slips: what the page says of an instrument that is out of step."""

from schemas.api.status import GroupStatus, Slip
from schemas.states import SlipKind


def words(slip: Slip) -> str:
    """One instrument's slip, with its size and since when."""
    since = f"since trigger {slip.since_trigger}"
    if slip.kind is SlipKind.STUCK:
        return f"stuck at trigger {slip.since_trigger}: its number stands still"
    if slip.kind is SlipKind.CLOCK:
        way = "ahead of" if slip.offset_ms > 0 else "behind"
        return f"by its clock {abs(slip.offset_ms):,.1f} ms {way} the others {since}"
    count = f"{abs(slip.triggers):,} trigger{'s' if abs(slip.triggers) != 1 else ''}"
    way = "ahead of" if slip.triggers > 0 else "behind"
    return f"{count} {way} its timestamps ({slip.offset_ms:+,.1f} ms) {since}"


def by_name(group: GroupStatus) -> dict[str, str]:
    """What to say of each instrument of a group that is out of step, by name."""
    return {slip.instrument: words(slip) for slip in group.slips}
