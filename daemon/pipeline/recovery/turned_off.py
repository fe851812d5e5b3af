"""What the state folder holds of a group that keeps no journal any more: nobody would ever commit it."""

from pathlib import Path

from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Disk
from daemon.pipeline.intake_log import folder_of, readings_in
from daemon.pipeline.journal.left import readings_left
from schemas.batch import JournalPosition


def refuse_turned_off(state_dir: Path, group: str, position: JournalPosition, disk: Disk) -> None:
    """See that nothing is left that the database, at this position, lacks.

    Raises:
        CommandFailed: something is; the message names the folders, and what to do.
    """
    journal, log = state_dir / "journal" / group, folder_of(state_dir, group)
    try:
        left = {journal: readings_left(journal, position, disk), log: readings_in(log, disk)}
    except OSError as error:
        raise CommandFailed(f"the journal under {state_dir} cannot be read: {reason_of(error)}") from None
    what = "; ".join(f"{folder} holds {readings:,} readings" for folder, readings in left.items() if readings)
    if what:
        raise CommandFailed(
            f"{what}, and journal.max_mib is 0: give it a value above 0 and run the daemon until all is committed, and"
            " stop it before the journal is turned off; or move the folder away"
        )
