"""`triggerlog dead-letters list` and `export` of a folder that a daemon changes at the same time."""

import asyncio
import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.pipeline.closed_blocks import split
from daemon.pipeline.dead_letters import DeadLetters, Letter, Reason, folder_of
from daemon.tools.dead_letters import command, folder
from tests.daemon.pipeline.dead_letters.test_folder import take
from tests.support.batches import batch_of, readings_of
from tests.support.disks import REAL
from tests.support.one_group import group_in, write_one_group
from tests.support.processes import here


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_one_group(tmp_path)


@pytest.fixture
async def daemon(file: Path) -> DeadLetters:
    """Triggers 1 to 4, a file each, as a daemon has them that daemons before have kept."""
    group = group_in(file)

    def opened() -> DeadLetters:
        letters = DeadLetters(folder_of(file.parent / "state", "bpm"), group, REAL)
        assert letters.open() == []
        return letters

    for number in (1, 2, 3, 4):
        letters = opened()
        readings = readings_of(group, np.array([number]), np.array([number * 1000]), np.random.default_rng(number))
        await letters.keep(letters.address([(batch_of(group, number, readings), Reason("out of range"))], number))
        letters.close()
    return opened()


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Have something happen after the folder was listed, and before a letter is read."""

    def let(happen: Callable[[], Any]) -> None:
        opened = command._opened

        def then(*arguments: Any) -> command.Letters:
            found = opened(*arguments)
            happen()
            return found

        monkeypatch.setattr(command, "_opened", then)

    return let


def exported(file: Path, to: Path) -> tuple[int, str, str, list[int]]:
    """Export; the exit code, what was said, and the triggers in the file."""
    done = here("dead-letters", "export", str(file), "--to", str(to))
    if to.suffix == ".csv":
        triggers = [int(row[1]) for row in list(csv.reader(to.read_text().splitlines()))[1:]]
    else:
        with np.load(to) as found:
            triggers = found["bpm/readings"]["trigger"].tolist()
            assert len(json.loads(str(found["about"]))["bpm"]["letters"]) == len(set(triggers))
    return done.returncode, done.stdout, done.stderr, triggers


@pytest.mark.parametrize("name", ["a.csv", "a.npz"])
def test_a_letter_whose_file_is_written_again_is_exported_from_where_it_is_then(
    file: Path, daemon: DeadLetters, tmp_path: Path, meanwhile: Callable[[Callable[[], Any]], None], name: str
) -> None:
    """Of a file with 11, 12 and 13 the database takes the one in the middle."""
    group = group_in(file)

    async def keep() -> None:
        numbers = np.array([11, 12, 13])
        readings = readings_of(group, numbers, numbers * 1000, np.random.default_rng(1))
        parts = [(part, Reason("out of range")) for part in split(batch_of(group, 9, readings))]
        await daemon.keep(daemon.address(parts, 9))
        await take(daemon, daemon.pending[:4])

    async def retry() -> None:
        await take(daemon, daemon.pending[1:2])

    asyncio.run(keep())
    meanwhile(lambda: asyncio.run(retry()))
    code, said, failed, triggers = exported(file, tmp_path / name)
    assert sorted(set(triggers)) == [11, 13]
    assert said == (
        f"{tmp_path / name}: {len(triggers)} readings of 2 dead letters\n"
        "1 letter left out: committed or discarded meanwhile\n"
    )
    assert (code, failed) == (0, "")


def test_what_is_discarded_meanwhile_is_said_to_be(
    file: Path, daemon: DeadLetters, tmp_path: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    meanwhile(lambda: asyncio.run(daemon.discard()))
    code, said, _, triggers = exported(file, tmp_path / "a.csv")
    assert (code, triggers) == (0, [])
    assert said.splitlines()[-1] == "4 letters left out: committed or discarded meanwhile"


def damage(letter: Letter) -> None:
    data = bytearray(letter.path.read_bytes())
    data[letter.end - 8] ^= 1
    letter.path.write_bytes(data)


def test_what_cannot_be_read_any_more_is_named(
    file: Path, daemon: DeadLetters, tmp_path: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    meanwhile(lambda: damage(daemon.pending[1]))
    code, said, failed, triggers = exported(file, tmp_path / "a.csv")
    assert (code, sorted(set(triggers))) == (1, [1, 3, 4])
    assert said == f"{tmp_path / 'a.csv'}: 9 readings of 3 dead letters\n"
    assert (
        f"1 dead letter cannot be read any more, and {tmp_path / 'a.csv'} lacks trigger 2 of run 1 (group bpm): "
        in failed
    )
    assert failed.count("\n") == 1


def test_a_damaged_letter_is_not_taken_for_committed(
    file: Path, daemon: DeadLetters, tmp_path: Path, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    """Its file is there still, and is damaged; that of one behind it is gone."""

    def damage_and_retry() -> None:
        damage(daemon.pending[0])
        asyncio.run(take(daemon, [daemon.pending[3]]))

    meanwhile(damage_and_retry)
    code, said, failed, triggers = exported(file, tmp_path / "a.csv")
    assert (code, sorted(set(triggers))) == (1, [2, 3])
    assert "1 letter left out: committed" in said
    assert "lacks trigger 1 of run 1" in failed


@pytest.mark.usefixtures("daemon")
def test_a_letter_that_is_being_written_is_not_taken_for_damaged(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = max(folder_of(file.parent / "state", "bpm").glob("*.dead"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-100])
    monkeypatch.setattr(time, "sleep", lambda _: segment.write_bytes(whole))
    done = here("dead-letters", "list", str(file), "--json")
    assert (done.stderr, [letter["trigger"] for letter in json.loads(done.stdout)]) == ("", [1, 2, 3, 4])
    segment.write_bytes(whole[:-100])
    monkeypatch.setattr(time, "sleep", lambda _: None)
    done = here("dead-letters", "list", str(file), "--json")
    assert "are no whole dead letter" in done.stderr
    assert [letter["trigger"] for letter in json.loads(done.stdout)] == [1, 2, 3]


@pytest.mark.usefixtures("daemon")
def test_a_segment_may_go_while_the_folder_is_looked_through(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = folder_of(file.parent / "state", "bpm") / "00000000000000000000.dead"
    names = type(folder.OUTSIDE.disk).names
    listed = [gone.name]

    def with_gone(disk: Any, path: Path) -> list[str]:
        return [*([listed.pop()] if listed and path == gone.parent else []), *names(disk, path)]

    monkeypatch.setattr(type(folder.OUTSIDE.disk), "names", with_gone)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    done = here("dead-letters", "list", str(file), "--json")
    assert (done.returncode, done.stderr, len(json.loads(done.stdout)), listed) == (0, "", 4, [])
