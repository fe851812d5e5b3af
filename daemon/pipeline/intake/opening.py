"""Opening a group's intake, before the database is asked anything."""

from pathlib import Path

from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, file_words
from daemon.core.outside import Outside
from daemon.pipeline.files import LogError
from daemon.pipeline.intake.intake import Intake
from daemon.pipeline.log import Log, folder_of
from schemas.config import Config
from schemas.readings import InstrumentGroup


async def open_intake(
    group: InstrumentGroup, config: Config, state_dir: Path, events: Events, *, outside: Outside, after_record: int = 0
) -> Intake:
    """Open the log, where a journal is kept, and report what was found.

    after_record: its next record has a higher number than this, whatever it holds.

    Raises:
        CommandFailed: it cannot be used.
    """
    log, found = None, None
    if config.journal.max_mib:
        folder, journal = folder_of(state_dir, group.name), config.journal
        log = Log(folder, group, outside, max_bytes=journal.max_bytes, segment_bytes=journal.segment_bytes)
        try:
            found = await outside.workers.call(log.open)
        except LogError as error:
            raise CommandFailed(str(error)) from None
        except OSError as error:
            raise CommandFailed(f"the journal of group {group.name}: {file_words(error)}") from None
        for copy in found.damaged:
            events.error(f"group {group.name}: the journal is damaged; the bytes are kept in {copy}")
        log.next = max(log.next, after_record + 1)
    return Intake(group, log=log, found=found, clock=outside.clock, rng=outside.rng, events=events)
