"""A journal, or dead letters, of a group that the configuration lacks: found, and no daemon starts beside them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.columns.filling import readings_in
from daemon.core.outcome import CommandFailed
from daemon.core.outside import SystemDisk
from daemon.pipeline.dead_letters import DeadLetters, Reason, folder_of
from daemon.pipeline.journal import Journal
from daemon.pipeline.recovery.unknown_groups import refuse_unknown_groups, unknown_groups
from schemas.batch import Aside
from schemas.states import AsideReason
from tests.daemon.pipeline.dead_letters.test_folder import take
from tests.daemon.pipeline.journal.test_journal import GROUP, ROOMY, block_of, opened
from tests.support.disks import REAL
from tests.support.processes import here, triggerlog

DISK = SystemDisk()
CONFIGURATION = 'state_dir = "{state}"\n[[groups]]\nname = "renamed"\ncount = 3\nchannels = [{{ name = "x" }}]\n'


def journal_of(state: Path, name: str) -> int:
    """A journal that holds something; return how many readings."""
    journal = Journal(state / "journal" / name, GROUP, REAL, **ROOMY)
    journal.open(None)
    blocks = [block_of(1), block_of(2)]
    journal.append(blocks)
    journal.close()
    return sum(readings_in(block) for block in blocks)


async def letters_of(state: Path, name: str) -> DeadLetters:
    letters = DeadLetters(folder_of(state, name), GROUP, REAL)
    letters.open()
    await letters.keep(
        letters.address([(block_of(1, triggers=1), Reason("why")), (block_of(3, triggers=1), Reason("why"))], 1)
    )
    return letters


async def test_what_is_left_of_other_groups_is_found(tmp_path: Path) -> None:
    assert unknown_groups(tmp_path, ["bpm"], DISK) == []
    readings = journal_of(tmp_path, "bpm")
    letters = await letters_of(tmp_path, "bpm")
    assert unknown_groups(tmp_path, ["bpm"], DISK) == []
    found = [(tmp_path / "journal" / "bpm", readings), (tmp_path / "dead-letters" / "bpm", letters.amount.readings)]
    assert unknown_groups(tmp_path, ["other"], DISK) == found
    with pytest.raises(CommandFailed, match=rf"journal/bpm holds {readings} readings.*'bpm' again"):
        refuse_unknown_groups(tmp_path, ["other"], DISK)


def test_a_journal_of_nothing_but_what_was_set_aside_is_found(tmp_path: Path) -> None:
    readings = np.zeros(100, GROUP.record)
    with opened(tmp_path / "journal" / "bpm") as journal:
        journal.append([replace(block_of(1, triggers=0), aside=Aside.of(readings, 0, AsideReason.OLDER))])
    assert unknown_groups(tmp_path, ["renamed"], DISK) == [(tmp_path / "journal" / "bpm", 100)]


async def test_what_is_done_with_does_not_count(tmp_path: Path) -> None:
    letters = await letters_of(tmp_path, "bpm")
    first, second = letters.pending
    await letters.move([first])
    assert unknown_groups(tmp_path, [], DISK) == [(tmp_path / "dead-letters" / "bpm", first.readings + second.readings)]
    await take(letters, [second])
    assert unknown_groups(tmp_path, [], DISK) == [(tmp_path / "dead-letters" / "bpm", first.readings)]
    await take(letters, letters.pending)
    Journal(tmp_path / "journal" / "bpm", GROUP, REAL, **ROOMY).open(None)
    assert unknown_groups(tmp_path, [], DISK) == []
    refuse_unknown_groups(tmp_path, [], DISK)


def test_the_check_of_the_configuration_says_so(tmp_path: Path) -> None:
    readings = journal_of(tmp_path / "state", "bpm")
    file = tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(state=tmp_path / "state"))
    done = here("check-config", str(file), "--offline")
    assert done.returncode == 1
    assert f"state/journal/bpm holds {readings} readings" in done.stderr


@pytest.mark.slow
def test_no_daemon_starts_beside_them(tmp_path: Path) -> None:
    readings = journal_of(tmp_path / "state", "bpm")
    file = tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(state=tmp_path / "state"))
    done = triggerlog("run", str(file))
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert f"state/journal/bpm holds {readings} readings" in line
    assert "add 'bpm' again" in line
