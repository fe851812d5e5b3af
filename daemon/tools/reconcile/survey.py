"""Asks daemon, database, journal and dead letters about a group at the same time; changes nothing."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from backends.base import Decimating, Store, StoreError, StoreUnavailable
from daemon.client.api.asking import DaemonGone, fetch
from daemon.client.api.reach import Reach
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import in_its_field, layout_of
from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Outside, SystemDisk
from daemon.pipeline.dead_letters import DeadLetters, folder_of
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.files import Amount
from daemon.pipeline.files.acknowledged import read_acknowledged, readings_behind
from daemon.pipeline.files.identity import read_ids
from daemon.pipeline.log import folder_of as log_folder_of
from daemon.pipeline.log import readings_in
from daemon.tools.reconcile.verdicts import Findings
from schemas.api.status import GroupStatus, Status
from schemas.batch import JournalPosition
from schemas.config import GroupConfig
from schemas.queries import Totals
from schemas.readings import Array
from schemas.sessions import NO_SESSIONS

TELLS_WITHIN_S = 2.0
"""A transaction is in the database a moment before the daemon knows of it."""
AGAIN_S = 0.05

DISK = SystemDisk()


class Survey:
    """Asks about the groups of one logger.

    daemon: how its API is reached.
    within_s: how long counting one group may take.
    """

    def __init__(self, loaded: LoadedConfig, store: Store, *, daemon: Reach, within_s: float) -> None:
        self._loaded = loaded
        self._store = store
        self._daemon = daemon
        self._within_s = within_s
        self.no_daemon: str | None = None

    async def check_store(self) -> None:
        """Check that the database has the tables of the groups.

        Raises:
            CommandFailed: it has not, or does not answer.
        """
        try:
            missing = await self._store.check()
        except StoreError as error:
            raise CommandFailed(in_its_field(error, self._loaded.config)) from None
        if missing:
            raise CommandFailed(f"the database has nothing to count yet: it lacks {', '.join(missing)}")

    async def of_group(self, section: GroupConfig, counting: Callable[[str], None]) -> Findings:
        """Ask about one group; `counting` is called before the database counts, which takes long.

        Raises:
            CommandFailed: something does not answer.
        """
        before = await self._status()
        counting(section.name)
        totals = await self._count(section)
        after = None if before is None else await self._status_after(before, section.name, totals)
        lost, received = 0, 0
        group = _status_of(after, section.name)
        if after is not None and group is not None:
            lost = group.readings.lost.get("database", 0)
            intake = after.intakes.get(section.name)
            received = 0 if intake is None else intake.waiting
        else:
            position = await self._store.position(section.name) or JournalPosition(sequence=0)
            log = log_folder_of(self._loaded.state_dir, section.name)
            received = await asyncio.to_thread(received_in, log, position)
            if position.sequence or not totals["triggers"].any():
                lost = await asyncio.to_thread(lost_of, log, position)
        return Findings(
            group=section.name,
            layout=layout_of(section, self._loaded.config),
            totals=totals,
            before=_status_of(before, section.name),
            after=_status_of(after, section.name),
            received=received,
            dead=await self._dead(section, after),
            lost=lost,
            reduced=await self._reduced(section),
        )

    async def _reduced(self, section: GroupConfig) -> int:
        if not isinstance(self._store, Decimating):
            return 0
        account = (await self._store.decimated()).get(section.name, ())
        return sum(rows for each in account for rows in each.stored.values())

    async def _dead(self, section: GroupConfig, status: Status | None) -> Amount:
        group = _status_of(status, section.name)
        if group is not None:
            lying = group.dead_letters
            return Amount(blocks=lying.letters, triggers=lying.triggers, readings=lying.readings)
        letters = DeadLetters(folder_of(self._loaded.state_dir, section.name), section.group(), Outside.real())
        try:
            await asyncio.to_thread(letters.look)
        except OSError as error:
            raise CommandFailed(f"the dead letters of group {section.name} cannot be read: {error}") from None
        return letters.amount

    async def _count(self, section: GroupConfig) -> Array:
        try:
            return await self._store.ask(Totals(group=section.group(), within_s=self._within_s))
        except StoreUnavailable as error:
            raise CommandFailed(
                f"group {section.name} could not be counted: {error}; if it takes longer than {self._within_s:g} s,"
                " allow more with --within"
            ) from None

    async def _status(self) -> Status | None:
        """The status of the daemon; None where none answers, and the reason in `no_daemon`."""
        try:
            status = await fetch(self._daemon)
        except DaemonGone as gone:
            self.no_daemon = str(gone)
            return None
        logger = self._loaded.config.logger
        if status.logger != logger:
            raise CommandFailed(
                f"the daemon at {self._daemon.url} is logger {status.logger!r}, {self._loaded.path} is of {logger!r};"
                " give the address of its daemon with --daemon"
            )
        return status

    async def _status_after(self, before: Status, name: str, totals: Array) -> Status:
        account = int(totals["journal_readings"][0])
        deadline = asyncio.get_running_loop().time() + TELLS_WITHIN_S
        while True:
            after = await self._status()
            if after is None or after.epoch != before.epoch:
                raise CommandFailed("the daemon ended or was restarted during the count; run the command again")
            group = _status_of(after, name)
            knows = group is None or group.readings.account_at_start + group.readings.committed >= account
            if knows or asyncio.get_running_loop().time() > deadline:
                return after
            await asyncio.sleep(AGAIN_S)


def _status_of(status: Status | None, name: str) -> GroupStatus | None:
    return None if status is None else status.groups.get(name)


def lost_of(log: Path, position: JournalPosition) -> int:
    """Count the readings that a database at this position lacks of those noted beside a log, and so does the log.

    Raises:
        CommandFailed: it cannot be read.
    """
    try:
        noted = read_acknowledged(log, DISK)
        lacking = readings_behind(noted, position, _ids(log))
        return max(0, lacking - readings_in(log, DISK)) if lacking else 0
    except OSError as error:
        raise CommandFailed(f"the journal in {log} cannot be read: {reason_of(error)}") from None


def received_in(log: Path, position: JournalPosition) -> int:
    """Count the readings that a log holds at most beyond those that a database at this position has.

    Some may be stored by another way: that is found out when they go through assembly. Nothing is locked, and nothing
    changed.

    Raises:
        CommandFailed: it cannot be read.
    """
    try:
        # Beside the position of another log it is not known what of this one was settled.
        is_ours = position.journal in _ids(log)
        sessions = DurableState.decode(position.state).sessions if is_ours else NO_SESSIONS
        return readings_in(log, DISK, {int(row["session"]): int(row["settled"]) for row in sessions})
    except OSError as error:
        raise CommandFailed(f"the journal in {log} cannot be read: {reason_of(error)}") from None
    except ValueError as error:
        raise CommandFailed(f"the journal in {log} cannot be compared with the database: {error}") from None


def _ids(log: Path) -> set[int]:
    identity, _, *former = read_ids(log, DISK) or (0, 0)
    return {identity, *former} - {0}
