"""What operators are told of what was left of a group."""

from daemon.core.monitoring.events import Events
from daemon.pipeline.dead_letters import Found
from daemon.pipeline.journal import Amount, JournalRecovery
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
            " neither the journal nor the dead letters have them. Was it restored from a copy, is the volume of its"
            " data not mounted, or is it another database? To put the right one in its place, stop the daemon first"
        )


def report_journal(group: InstrumentGroup, recovery: JournalRecovery, events: Events) -> None:
    """Tell what was left in the journal, and what of it is damaged."""
    amount, name = recovery.amount, group.name
    if recovery.problem is not None:
        events.error(
            f"group {name}: the journal takes nothing yet: {recovery.problem}; make room on the disk of the state"
            " folder, or repair it. Until then all is acknowledged when the database has it"
        )
    if amount.blocks:
        events.info(f"group {name}: {_words(group, amount)} were left in the journal, and are committed now")
    foreign = sum(each.amount.readings for each in recovery.foreign)
    if recovery.loose.readings + foreign:
        events.warning(
            f"group {name}: {recovery.loose.readings + foreign} readings in the journal do not lead on from where the"
            " database is (it was put back, another daemon wrote in between, or a record is lost); what of them it"
            " lacks is stored now"
        )
    for damage, copy in zip(recovery.damages, recovery.copies, strict=True):
        where = f"group {name}: {damage.path.name} in the journal, bytes {damage.start} to {damage.end}"
        if damage.is_torn:
            events.info(
                f"{where}: a record was being written when the machine or the daemon stopped; the bytes are kept in"
                f" {copy}"
            )
        else:
            events.error(f"{where}: it is damaged; the bytes are kept in {copy}")
