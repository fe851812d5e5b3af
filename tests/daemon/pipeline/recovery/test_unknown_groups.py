"""A log, or dead letters, of a group that the configuration lacks: found, and no daemon starts beside them."""

from pathlib import Path

import pytest

from daemon.core.outcome import CommandFailed
from daemon.core.outside import SystemDisk
from daemon.pipeline.dead_letters import DeadLetters, Reason, folder_of
from daemon.pipeline.files.format import counted_of
from daemon.pipeline.log import folder_of as log_folder_of
from daemon.pipeline.recovery.refusing import refuse_unknown_groups, unknown_groups
from tests.daemon.pipeline.dead_letters.test_folder import take
from tests.daemon.pipeline.files.test_format import GROUP, block_of
from tests.daemon.pipeline.log.test_log import Opened, put
from tests.daemon.pipeline.recovery.test_earlier_version import journal_of
from tests.support.disks import REAL
from tests.support.processes import here, triggerlog

DISK = SystemDisk()
CONFIGURATION = 'state_dir = "{state}"\n[[groups]]\nname = "renamed"\ncount = 3\nchannels = [{{ name = "x" }}]\n'


def log_of(state: Path, name: str) -> int:
    """A log that holds something; return how many readings."""
    log = Opened(log_folder_of(state, name))
    put(log, 1, 2)
    log.close()
    return 2


async def letters_of(state: Path, name: str) -> DeadLetters:
    letters = DeadLetters(folder_of(state, name), GROUP, REAL)
    letters.open()
    await letters.keep(
        letters.address([(block_of(1, triggers=1), Reason("why")), (block_of(3, triggers=1), Reason("why"))], 1)
    )
    return letters


async def test_what_is_left_of_other_groups_is_found(tmp_path: Path) -> None:
    assert unknown_groups(tmp_path, ["bpm"], DISK) == []
    readings = log_of(tmp_path, "bpm")
    letters = await letters_of(tmp_path, "bpm")
    assert unknown_groups(tmp_path, ["bpm"], DISK) == []
    found = [(tmp_path / "intake" / "bpm", readings), (tmp_path / "dead-letters" / "bpm", letters.amount.readings)]
    assert unknown_groups(tmp_path, ["other"], DISK) == found
    with pytest.raises(CommandFailed, match=rf"intake/bpm holds {readings} readings.*'bpm' again"):
        refuse_unknown_groups(tmp_path, ["other"], DISK)


def test_what_an_earlier_version_left_is_found(tmp_path: Path) -> None:
    blocks = journal_of(tmp_path, 1, 2)
    left = sum(counted_of(block) for block in blocks)
    assert unknown_groups(tmp_path, ["renamed"], DISK) == [(tmp_path / "journal" / "bpm", left)]


async def test_what_is_done_with_does_not_count(tmp_path: Path) -> None:
    letters = await letters_of(tmp_path, "bpm")
    first, second = letters.pending
    assert unknown_groups(tmp_path, [], DISK) == [(tmp_path / "dead-letters" / "bpm", first.readings + second.readings)]
    await take(letters, [second])
    assert unknown_groups(tmp_path, [], DISK) == [(tmp_path / "dead-letters" / "bpm", first.readings)]
    await take(letters, letters.pending)
    Opened(log_folder_of(tmp_path, "bpm")).close()
    assert unknown_groups(tmp_path, [], DISK) == []
    refuse_unknown_groups(tmp_path, [], DISK)


def test_the_check_of_the_configuration_says_so(tmp_path: Path) -> None:
    readings = log_of(tmp_path / "state", "bpm")
    file = tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(state=tmp_path / "state"))
    done = here("check-config", str(file), "--offline")
    assert done.returncode == 1
    assert f"state/intake/bpm holds {readings} readings" in done.stderr


@pytest.mark.slow
def test_no_daemon_starts_beside_them(tmp_path: Path) -> None:
    readings = log_of(tmp_path / "state", "bpm")
    file = tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(state=tmp_path / "state"))
    done = triggerlog("run", str(file))
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert f"state/intake/bpm holds {readings} readings" in line
    assert "add 'bpm' again" in line
