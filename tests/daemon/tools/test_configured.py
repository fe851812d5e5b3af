from pathlib import Path

import pytest
from typer.main import get_command

from daemon.tools.cli import app, named
from tests.daemon.tools.test_cli import LEAST, failure, here


def command(*names: str) -> object:
    found = get_command(app)
    for name in names:
        found = found.commands[name]
    return found


@pytest.mark.parametrize(
    ("names", "before", "after"),
    [
        ("run", "beam.toml", "--config beam.toml"),
        ("run", "/etc/beam.conf --loop asyncio", "--config /etc/beam.conf --loop asyncio"),
        ("run", "--loop asyncio beam.toml", "--loop asyncio --config beam.toml"),
        ("run", "--config beam.toml", "--config beam.toml"),
        ("mark", "beam.toml text", "--config beam.toml text"),
        ("mark", "text --at 18:00 beam.toml", "text --at 18:00 --config beam.toml"),
        ("mark", "text --author a.toml", "text --author a.toml"),
        ("mark", "-- beam.toml", "-- beam.toml"),
        ("mark", "a.toml b.toml", "--config a.toml b.toml"),
        ("status", "--json beam.toml", "--json --config beam.toml"),
        ("alarms", "beam.toml --json", "--config beam.toml --json"),
        ("alarms", "acknowledge stale beam.toml", "acknowledge stale beam.toml"),
        ("alarms acknowledge", "stale instruments beam.toml", "stale instruments --config beam.toml"),
        ("alarms acknowledge", "--all beam.toml", "--all --config beam.toml"),
        ("folders insert", "/a currents.csv beam.toml", "/a currents.csv --config beam.toml"),
        ("psql", "beam.toml -c 'a'", "--config beam.toml -c 'a'"),
    ],
)
def test_a_file_of_configuration_is_taken_wherever_it_stands(names: str, before: str, after: str) -> None:
    assert named(command(*names.split()), before.split()) == after.split()


def test_it_is_found_without_being_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment outranks the folder, and one that is named outranks both."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIGGERLOG_CONFIG", raising=False)
    for name in ("triggerlog", "by_environment", "named"):
        Path(f"{name}.toml").write_text(f'logger = "{name}"\n' + LEAST)
    assert "triggerlog" in here("check-config", "--offline").stdout
    monkeypatch.setenv("TRIGGERLOG_CONFIG", "by_environment.toml")
    assert "by_environment" in here("check-config", "--offline").stdout
    assert "named" in here("check-config", "named.toml", "--offline").stdout


def test_where_there_is_none_all_ways_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIGGERLOG_CONFIG", raising=False)
    assert failure(here("check-config")) == (
        "triggerlog: FILE: name the configuration, or set TRIGGERLOG_CONFIG, or go to the folder of triggerlog.toml"
    )


def test_a_daemon_that_is_named_gets_no_token_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration of this folder says nothing of a daemon elsewhere."""
    monkeypatch.chdir(tmp_path)
    Path("triggerlog.toml").write_text("nonsense")
    said = failure(here("status", "--json", "--daemon", "http://127.0.0.1:1"))
    assert said.startswith("triggerlog: no daemon at http://127.0.0.1:1")
    assert failure(here("status", "--json")).startswith("triggerlog: triggerlog.toml (line 1): not valid TOML")


def test_a_text_that_is_no_toml_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beam.toml").write_text("a = 1\nb = \n")
    monkeypatch.setenv("TRIGGERLOG_CONFIG", "beam.toml")
    line = "beam.toml (line 2): not valid TOML: Invalid value; fix this line: b ="
    assert failure(here("check-config")) == line
    assert failure(here("status")) == f"triggerlog: {line}"


MANY = """
logger = "x y"
bogus = 1
[[groups]]
name = "bpm"
count = 4
channels = [{ name = "x" }]
[[sources]]
kind = "tcp"
port = 8120
[[sources]]
kind = "simulated"
group = "bqm"
[database]
dsn = "postgresql://me@127.0.0.1/x"
password_env = "NOT_SET_HERE"
layout = "rovs"
[api]
port = 8120
token_file = "nowhere"
[dashboard]
tabs = ["none.py"]
"""


def test_problems_of_all_layers_are_told_at_once(tmp_path: Path) -> None:
    """Problems of keys, of what belongs together, of the environment, and of files; none that only follows from one."""
    file = tmp_path / "beam.toml"
    file.write_text(MANY)
    told = failure(here("check-config", str(file))).splitlines()
    assert [line.partition(": ")[0] for line in told] == [
        "logger",
        "database.layout",
        "bogus",
        "sources[1].group",
        "sources[0].port",
        "database.password_env",
        "api.token_file",
        "dashboard.tabs[0]",
    ]
    file.write_text(MANY.replace('dsn = "postgresql://me@127.0.0.1/x"\n', "").replace('"bpm"', '"b m"'))
    told = failure(here("check-config", str(file))).splitlines()
    fields = ["logger", "groups[0].name", "database.layout", "bogus", "database.password_env"]
    assert [line.partition(": ")[0] for line in told] == fields
