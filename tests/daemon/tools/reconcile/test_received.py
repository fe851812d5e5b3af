"""`triggerlog reconcile` and what was acknowledged as received: without a daemon the journal has it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.client.api.reach import Reach
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import CommandFailed
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.files.identity import Identity
from daemon.pipeline.log import RUN, Log, Received, RunKind, folder_of
from daemon.tools.console import make_console
from daemon.tools.reconcile.command import _as_json, _rows, _show
from daemon.tools.reconcile.survey import Survey
from daemon.tools.reconcile.verdicts import Findings, judge
from schemas.api.status import IntakeStatus, Status
from schemas.batch import JournalPosition, Stream
from schemas.sessions import SESSION
from tests.page.served import snapshot
from tests.support.disks import REAL
from tests.support.memory.store import MemoryStore
from tests.support.one_group import write_one_group
from tests.support.processes import free_port

SENDER, OTHER = 7, 8


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedConfig:
    """The log has 5 readings of one sender, with the numbers 10 to 14, and 3 of another, in two segments."""
    file = write_one_group(tmp_path, logger="klystron-gallery")
    group = load_config(file).config.groups[0].group()
    for number, runs in ((1, [(SENDER, 10, 3), (OTHER, 0, 1)]), (2, [(SENDER, 13, 2), (OTHER, 1, 2)])):
        log = Log(folder_of(tmp_path / "state", "bpm"), group, REAL, max_bytes=2**30, segment_bytes=2**20)
        log.open()
        joined = [(session, first, 0, RunKind.JOINED) for session, first, _ in runs]
        came = np.array([*joined, *((*run, RunKind.READINGS) for run in runs)], RUN)
        readings = np.zeros(int(came["count"].sum()), group.record)
        log.append([Received(number=number, received_ns=number, runs=came, readings=readings)])
        log.sync()
        log.close()
    return load_config(file)


def journal_of(loaded: LoadedConfig) -> Identity:
    """The ids of the log: the one that it has, and one that it had before."""
    journal = Identity(folder_of(loaded.state_dir, "bpm"), REAL)
    journal.load()
    return journal


class Surveyed(Survey):
    """Of a store at this position; the daemon, if one answers, gives this status."""

    def __init__(
        self, loaded: LoadedConfig, position: JournalPosition | None = None, said: Status | None = None
    ) -> None:
        self.section = loaded.config.groups[0]
        self.store = MemoryStore({"bpm": self.section.group()})
        if position is not None:
            self.store._groups["bpm"].positions[Stream.JOURNAL] = position
        self.said = said
        nobody = Reach(url=f"http://127.0.0.1:{free_port()}", token=None)
        super().__init__(loaded, self.store, daemon=nobody, within_s=1)

    async def _status(self) -> Status | None:
        return self.said or await super()._status()

    async def found(self) -> Findings:
        return await self.of_group(self.section, lambda name: None)


def settled(journal: int, **changes: Any) -> JournalPosition:
    """A database that says: of one sender all below 12 is settled, of the other all below 2."""
    sessions = np.array([(SENDER, 12, 14, 1), (OTHER, 2, 2, 1)], SESSION)
    state = DurableState(sessions).encoded
    return JournalPosition(**{"sequence": 9, "journal": journal, "state": state, **changes})


def shown(capsys: pytest.CaptureFixture[str], found: Findings) -> str:
    _show(make_console(), "bpm", found, judge(found))
    return capsys.readouterr().out


async def test_without_a_daemon_the_log_is_looked_at(loaded: LoadedConfig, capsys: pytest.CaptureFixture[str]) -> None:
    found = await Surveyed(loaded).found()
    assert ("in the journal, not committed, at most", None, 8) in list(_rows(found))
    assert _as_json(found, [])["journal"] == 8
    said = "at most 8 readings wait in the journal; the next start of the daemon commits them\n"
    assert said in shown(capsys, found)


async def test_what_the_database_says_is_settled_is_not_counted(loaded: LoadedConfig) -> None:
    journal = journal_of(loaded)
    for known in (journal.id, *journal.former):
        assert (await Surveyed(loaded, settled(known)).found()).received == 4
    # What another daemon says is settled proves nothing of this log, nor does what was said before it.
    assert (await Surveyed(loaded, settled(journal.id + 1)).found()).received == 8
    assert (await Surveyed(loaded, settled(0)).found()).received == 8
    (folder_of(loaded.state_dir, "bpm") / "elsewhere").write_bytes(b"1")
    assert (await Surveyed(loaded, settled(journal.id)).found()).received == 7


async def test_nothing_is_said_of_a_log_that_is_settled_or_not_there(
    loaded: LoadedConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = DurableState(np.array([(SENDER, 15, 15, 1), (OTHER, 3, 3, 1)], SESSION)).encoded
    journal = journal_of(loaded)
    found = await Surveyed(loaded, settled(journal.id, state=everything)).found()
    assert (found.received, "wait in the journal" in shown(capsys, found)) == (0, False)
    for path in folder_of(loaded.state_dir, "bpm").iterdir():
        path.unlink()
    assert (await Surveyed(loaded, settled(journal.id)).found()).received == 0


async def test_a_running_daemon_tells(loaded: LoadedConfig, capsys: pytest.CaptureFixture[str]) -> None:
    """What it has not put through assembly is in no other count of it."""
    status = snapshot(4, 1, wave=False, groups={"bpm": 3})
    status = status.model_copy(update={"intakes": {"bpm": IntakeStatus(waiting=2, log_mib=0.1)}})
    found = await Surveyed(loaded, said=status).found()
    assert ("in the journal, not committed", None, 2) in list(_rows(found))
    assert "\n2 readings wait in the journal; the daemon commits them\n" in shown(capsys, found)
    assert (await Surveyed(loaded, said=status.model_copy(update={"intakes": {}})).found()).received == 0


async def test_a_daemon_that_has_not_opened_its_groups_yet_is_as_none(loaded: LoadedConfig) -> None:
    """Its status says nothing of what an earlier one left."""
    status = snapshot(4, 1, groups={}).model_copy(update={"intakes": {"bpm": IntakeStatus(waiting=2, log_mib=0.1)}})
    found = await Surveyed(loaded, said=status).found()
    assert (found.received, found.after) == (8, None)


async def test_a_state_of_another_version_gets_one_line(loaded: LoadedConfig) -> None:
    journal = journal_of(loaded)
    with pytest.raises(CommandFailed, match=r"the journal in \S+ cannot be compared with the database: the state"):
        await Surveyed(loaded, settled(journal.id, state=b"of another")).found()
