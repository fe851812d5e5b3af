"""What operators are told of what was left of a group."""

from daemon.core.monitoring.events import Events
from daemon.pipeline.dead_letters import Found
from daemon.pipeline.files import Amount
from schemas.readings import InstrumentGroup


def report_dead_letters(group: InstrumentGroup, unreadable: list[Found], amount: Amount, events: Events) -> None:
    """Tell what dead letters there are, and what of them cannot be read."""
    for found in unreadable:
        events.error(f"group {group.name}: {found.problem}")
    if amount.blocks:
        events.warning(
            f"group {group.name}: {_words(group, amount)} are in the dead letters; see `triggerlog dead-letters list"
            " FILE`"
        )


def _words(group: InstrumentGroup, amount: Amount) -> str:
    return f"{amount.readings} readings" + ("" if group.reports else f" of {amount.triggers} triggers")


def report_lost(group: str, readings: int, events: Events) -> None:
    """Tell what the database has lost."""
    if readings:
        events.error(
            f"group {group}: the database has lost {readings} readings that it had acknowledged before this start, and"
            " neither the log nor the dead letters have them. Was it restored from a copy, is the volume of its"
            " data not mounted, or is it another database? To put the right one in its place, stop the daemon first"
        )
