"""`triggerlog folders` against a real daemon, on a real database."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.tools.folders.command import AT_ONCE_BYTES
from schemas.folders.blocks import OPEN
from schemas.folders.folders import Column, block_dtype
from tests.support.processes import GROUP, LISTENERS, Daemon, free_port, here, running, triggerlog, until

pytestmark = pytest.mark.slow

PATH = "/magnets/current"
DTYPE = block_dtype((Column(name="ampere", dtype="float64"), Column(name="note", dtype="text", width=12)))
NS = 1_763_719_200_000_000_000
CSV = f"""channel,since,until,ampere,note
Q1,{NS},{NS + 5},118.25,µA
2,{NS},,97.5,
1,{NS + 5},,119,last
"""


@dataclass(frozen=True, kw_only=True)
class Commands:
    file: Path

    def asked(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return here("folders", *arguments, "--config", str(self.file))

    def says(self, *arguments: str) -> str:
        done = self.asked(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tells(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))

    def refuses(self, *arguments: str) -> str:
        done = self.asked(*arguments)
        assert (done.returncode, done.stdout) == (1, ""), done.stdout
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.removeprefix("triggerlog: ").rstrip("\n")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, postgresql_dsn: str) -> Iterator[Commands]:
    file, port = tmp_path_factory.mktemp("daemon") / "beam.toml", free_port()
    database = f'[database]\ndsn = "{postgresql_dsn}"\nschema = "folders_command"\n'
    folders = '[folders]\nserve = true\nschema = "folders_command_folders"\n'
    file.write_text(GROUP + LISTENERS.format(api=port) + database + folders)
    with running("run", str(file)) as run:
        Daemon(run, file)
        made = Commands(file=file)
        until(lambda: made.asked("list").returncode == 0, "the folders are open")
        yield made
        assert run.end() == 0, run.said


@pytest.fixture
def folder(commands: Commands) -> Iterator[Commands]:
    """A folder with three channels, gone afterwards."""
    columns = ("--column", "ampere:float64", "--column", "note:text:12")
    channels = ("--channel", "1=Q1", "--channel", "2=Q2", "--channel", "7=Q7")
    assert commands.says("add", PATH, *columns, *channels) == f"{PATH}: added, single, with 3 channels\n"
    yield commands
    assert commands.says("remove", PATH, "--yes") == f"{PATH}: removed\n"


def test_a_csv_is_inserted_once_and_looked_at(folder: Commands, tmp_path: Path) -> None:
    file = tmp_path / "currents.csv"
    file.write_text(CSV)
    assert folder.says("insert", PATH, str(file)).startswith(f"{PATH}: 3 intervals of {file}, in ")
    again = folder.says("insert", PATH, str(file), "--sequence", "1")
    assert again.startswith(f"{PATH}: 3 intervals of {file}, 3 of them were there, in ")
    q1, last, q2 = (
        {"channel": 1, "name": "Q1", "since": NS, "until": NS + 5, "ampere": 118.25, "note": "µA"},
        {"channel": 1, "name": "Q1", "since": NS + 5, "until": None, "ampere": 119.0, "note": "last"},
        {"channel": 2, "name": "Q2", "since": NS, "until": None, "ampere": 97.5, "note": ""},
    )
    assert folder.tells("snapshot", PATH) == [last, q2]
    assert folder.tells("snapshot", PATH, "--at", str(NS)) == [q1, q2]
    assert folder.tells("snapshot", PATH, "--at", "2025-11-21T10:00:00.000000004Z") == [q1, q2]
    assert folder.tells("snapshot", PATH, "--at", "2025-11-21T09:59") == []
    assert folder.tells("history", PATH, "Q1") == [q1, last]
    assert folder.tells("history", PATH, "1", "--until", str(NS + 5)) == [q1]
    assert folder.tells("changes", PATH, "--after", str(NS)) == [last]
    assert folder.tells("changes", PATH, "--after", "-1", "--upto", str(NS)) == [q1, q2]
    shown = folder.says("history", PATH, "Q1").splitlines()
    assert shown[1].split() == ["1", "Q1", "2025-11-21T10:00:00Z", "2025-11-21T10:00:00.000000005Z", "118.25", "µA"]
    assert shown[2].split()[3] == "open"
    assert folder.says("history", PATH, "Q7") == "There is no such interval.\n"
    (row,) = (line.split() for line in folder.says("list").splitlines() if PATH in line)
    assert row == [PATH, "single", "window", "ampere:float64", "note:text:12", "1"]
    assert [each["path"] for each in folder.tells("list")["folders"]] == [PATH]
    assert folder.tells("show", PATH)["channels"] == {"1": "Q1", "2": "Q2", "7": "Q7"}
    assert "1 insertions, 3 channels" in folder.says("show", PATH)


def test_open_intervals_are_ended(folder: Commands, tmp_path: Path) -> None:
    file = tmp_path / "currents.csv"
    file.write_text(CSV)
    folder.says("insert", PATH, str(file))
    assert folder.says("end", PATH, "Q1", "2", "--at", str(NS + 9)) == f"{PATH}: Q1, 2 ended at {NS + 9}\n"
    assert [each["until"] for each in folder.tells("snapshot", PATH, "--at", str(NS + 8))] == [NS + 9, NS + 9]
    assert folder.tells("snapshot", PATH) == []
    assert "CHANNEL: the folder has no channel 'Q9'" in folder.refuses("end", PATH, "Q9")


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_what_an_export_writes_is_inserted_and_exported_again(folder: Commands, tmp_path: Path, ending: str) -> None:
    file = tmp_path / "times.csv"
    file.write_text(
        f"channel,since,until,ampere,note\nQ1,2025-11-21T10:00,2025-11-21T11:00:05+01:00,0.1,=x\n2,{NS},,1,\n"
    )
    folder.says("insert", PATH, str(file))
    assert [each["until"] for each in folder.tells("history", PATH, "1")] == [NS + 5 * 10**9]
    written = [tmp_path / f"{k}.{ending}" for k in range(2)]
    for k, output in enumerate(written):
        exported = triggerlog("export", str(folder.file), "--folder", PATH, "-o", str(output))
        assert exported.returncode == 0, exported.stderr
        if not k:
            folder.says("remove", PATH, "--yes")
            channels = ("--channel", "1=Q1", "--channel", "2=Q2", "--channel", "7=Q7")
            folder.says("add", PATH, "--column", "ampere:float64", "--column", "note:text:12", *channels)
            folder.says("insert", PATH, str(output))
    first, second = (each.read_bytes() for each in written)
    if ending == "csv.gz":  # there is a time in its head
        first, second = gzip.decompress(first), gzip.decompress(second)
    assert first == second
    file.write_text('channel,name,since\n1,"Q2",5\n')
    refusal = folder.refuses("insert", PATH, str(file))
    assert "channel 1 is 'Q2' there, and 'Q1' in the folder; write the names into " in refusal


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_what_numpy_saves_is_inserted(folder: Commands, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"currents{ending}"
    block = np.array([(7, 3, 9, 1.5, b"abc"), (7, 9, OPEN, 2.5, "µ".encode())], DTYPE)
    if ending == ".npy":
        np.save(file, block)
    else:
        np.savez(file, **{name: block[name] for name in DTYPE.names or ()})
    folder.says("insert", PATH, str(file), "--source", "numpy")
    found = folder.tells("history", PATH, "7")
    assert [(each["since"], each["until"], each["ampere"], each["note"]) for each in found] == [
        (3, 9, 1.5, "abc"),
        (9, None, 2.5, "µ"),
    ]


def test_a_large_file_becomes_several_insertions(folder: Commands, tmp_path: Path) -> None:
    file = tmp_path / "large.npy"
    count = 2 * AT_ONCE_BYTES // DTYPE.itemsize
    block = np.zeros(count, DTYPE)
    block["channel"], block["since"], block["until"] = 1, np.arange(count)[::-1], OPEN
    np.save(file, block)
    assert f": {count:,} intervals of " in folder.says("insert", PATH, str(file), "--sequence", "5")
    assert f", {count:,} of them were there" in folder.says("insert", PATH, str(file), "--sequence", "5")
    assert folder.tells("show", PATH)["folder"]["version"] == 2
    (last,) = folder.tells("history", PATH, "1", "--since", str(count - 1))
    assert (last["since"], last["until"]) == (count - 1, None)


def test_versions_are_tagged(commands: Commands, tmp_path: Path) -> None:
    path, file = "/calibrations/gain", tmp_path / "gains.csv"
    commands.says("add", path, "--kind", "multi", "--column", "gain:float32", "--description", "Gains")
    commands.says("add-channels", path, "--channel", "0=BPM0")
    for gain in (1.5, 2.5):
        file.write_text(f"channel,since,gain\nBPM0,100,{gain}\n")
        commands.says("insert", path, str(file))
        if gain == 1.5:
            said = commands.says("tag", "/calibrations", "first")
            assert said == f"{path}: first is what 1 insertions made\n"
    assert [each["gain"] for each in commands.tells("snapshot", path)] == [2.5]
    assert [each["gain"] for each in commands.tells("snapshot", path, "--tag", "first")] == [1.5]
    assert "first" in commands.says("show", path)
    assert commands.says("untag", path, "first") == f"{path}: tag first removed\n"
    assert "tag" in commands.refuses("snapshot", path, "--tag", "first")
    assert commands.says("add-set", "/calibrations/phase") == "/calibrations/phase: added, a set\n"
    for each in (path, "/calibrations/phase", "/calibrations"):
        commands.says("remove", each, "--yes")
    assert "/calibrations" not in commands.says("list")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.txt", "", "FILE: x.txt does not say the format; end it with `.csv`, `.csv.gz`, `.npy`, `.npz`"),
        ("x.csv", "", "it cannot be read ("),
        ("x.csv", "channel,since,ampere,note\n", "it has no interval; give a file with at least one"),
        ("x.csv", "channel,ampere,note\n1,5,x\n", "FILE: there is no since; give the columns channel, since, until"),
        ("x.csv", "channel,since,ampere\n1,5,7\n", "note: there is no such list; give one of each column"),
        ("x.csv", "channel,since,ampere,note,more\n1,5,7,x,y\n", "more: the folder has no such column"),
        ("x.csv", "channel,since,ampere,note\n1,5,x,y\n", "ampere of line 2: 'x' is no number; give a number"),
        ("x.csv", "channel,since,ampere,note\n1,5,7\n", "line 2 has 3 values, and the header 4"),
        (
            "x.csv",
            "channel,since,ampere,note\nQ9,5,7,x\n",
            "FILE: the folder has no channel 'Q9'; use one of `Q1`, `Q2`, `Q7`",
        ),
        ("x.csv", "channel,since,until,ampere,note\n1,5,4,7,x\n", "block[0].until: the interval ends before it begins"),
        ("x.csv", "channel,since,ampere,note\n1,5,nan,x\n", "block[0].ampere: it is no finite number"),
        ("x.csv", "channel,since,ampere,note\n1,5,7,thirteen byte\n", "note[0]: 13 bytes; give at most 12 bytes"),
        (
            "x.csv",
            "channel,since,ampere,note\n1,noon,7,x\n",
            "since of line 2: 'noon' is not a time; write it",
        ),
        ("x.csv.gz", "no gzip", "it cannot be read (Not a gzipped file"),
        ("x.npy", "no array", "it cannot be read ("),
        ("x.npz", "no archive", "it cannot be read ("),
    ],
)
def test_a_wrong_file_is_told_in_one_line(
    folder: Commands, tmp_path: Path, name: str, content: str, problem: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    assert problem in folder.refuses("insert", PATH, str(file))


def test_a_wrong_order_is_told_in_one_line(folder: Commands, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    assert "it holds float64, and no block" in folder.refuses("insert", PATH, str(tmp_path / "x.npy"))
    assert "FILE: " in folder.refuses("insert", PATH, str(tmp_path / "none.csv"))
    assert "is not there" in folder.refuses("insert", "/none", str(tmp_path / "x.npy"))
    assert folder.refuses("remove", PATH).endswith("add --yes to remove it")
    assert "--column: 'ampere' is no column" in folder.refuses("add", "/a", "--column", "ampere")
    assert "--channel: 'Q1' is no channel" in folder.refuses("add-channels", PATH, "--channel", "Q1")
    assert "--channel: not given" in folder.refuses("add-channels", PATH)
    assert "already exists" in folder.refuses("add", PATH, "--column", "x:int8")
    assert "at: 'yesterday' is not a time" in folder.refuses("snapshot", PATH, "--at", "yesterday")
    assert "channel" in folder.refuses("history", PATH, "Q9")
    done = here("folders", "tag", PATH, "x", "--daemon", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert done.stderr.startswith("triggerlog: no daemon at ")
