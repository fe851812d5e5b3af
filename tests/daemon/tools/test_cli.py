"""daemon.tools.cli: the commands as an operator runs them, against real processes."""

import ast
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from typer.main import get_command

from daemon.tools.cli import COMMANDS, app
from tests.support.processes import Daemon, Running, free_port, here, running, running_daemon, triggerlog, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LEAST = '[[groups]]\nname = "bpm"\ncount = 3\nchannels = [{ name = "x" }]\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


def failure(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said that failed as it should: on stderr alone, without a traceback."""
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    found = get_command(app).commands[command]
    told = [found, *getattr(found, "commands", {}).values()]
    assert any(f"triggerlog {command}" in (each.epilog or "").partition("Example")[2] for each in told)


def test_the_help_lists_every_command() -> None:
    shown = triggerlog("--help").stdout
    assert [command for command in COMMANDS if f"│ {command} " not in shown] == []


def test_the_help_of_the_list_is_that_of_the_commands() -> None:
    """It is written down beside the names, so that the list imports no command."""
    commands = get_command(app).commands
    first = {name: (commands[name].help or "").partition("\n\n")[0] for name in COMMANDS}
    assert {name: " ".join(text.split()) for name, text in first.items()} == {
        name: place.help for name, place in COMMANDS.items()
    }


def test_brackets_in_a_help_are_shown() -> None:
    """They name tables of the configuration; rich would take them for markup."""

    def every(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield names, command
        for name, each in getattr(command, "commands", {}).items():
            yield from every(each, *names, name)

    checked = 0
    for names, command in every(get_command(app)):
        told = [command.help, command.epilog, *(getattr(each, "help", None) for each in command.params)]
        brackets = re.findall(r"\[[a-z_]+\]", " ".join(filter(None, told)).replace("\\[", "["))
        if brackets:
            shown = triggerlog(*names, "--help").stdout
            assert [each for each in brackets if each not in shown] == [], names
            checked += 1
    assert checked >= 2


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_command_imports_only_what_it_needs(option: str) -> None:
    """Every start pays for what is imported: numpy, SQLAlchemy, FastAPI and the client are seconds of them."""
    code = "import sys; sys.argv = ['triggerlog', '--version']\nfrom daemon.tools.cli import main\n"
    code += "try: main()\nexcept SystemExit: print(sorted({name.partition('.')[0] for name in sys.modules}))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert option == "--help" or said.startswith(f"triggerlog {version('triggerlog')}\n")
    imported = set(ast.literal_eval(said.splitlines()[-1]))
    assert "typer" in imported
    assert not imported & {"numpy", "sqlalchemy", "fastapi", "httpx", "backends", "schemas"}


@pytest.mark.parametrize("example", sorted((ROOT / "docs" / "examples").glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_right(example: Path) -> None:
    done = here("check-config", str(example), "--offline", TRIGGERLOG_PASSWORD="s3cret")
    assert done.returncode == 0, done.stderr
    assert "nothing is wrong" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_check_config_tells_every_problem_and_fails(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text('[[groups]]\nname = "bpm"\ncuont = 3\nchannels = [{ name = "x", dtype = "flot64" }]\n')
    assert failure(triggerlog("check-config", str(file))).splitlines() == [
        "groups[0].channels[0].dtype: unknown dtype 'flot64'; did you mean `float64`?",
        "groups[0].cuont: unknown key; did you mean `count`?",
    ]


def test_check_config_warns_of_a_password_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(LEAST + '[database]\ndsn = "postgresql://logger:s3cret@db/beam"\n')
    done = here("check-config", str(file), "--offline")
    assert done.returncode == 0
    assert "postgresql://logger:***@db/beam" in done.stdout
    assert done.stderr.startswith("warning: database.dsn: holds a password")
    assert "s3cret" not in done.stdout + done.stderr


def test_check_config_sees_that_the_files_of_tabs_are_there(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(LEAST + '[dashboard]\ntabs = ["orbit.py", "sums.py"]\n')
    (tmp_path / "orbit.py").touch()
    assert failure(here("check-config", str(file), "--offline")).splitlines() == [
        f"dashboard.tabs[1]: {tmp_path / 'sums.py'} cannot be read (no such file or directory); give the path of a "
        "Python file with a tab"
    ]
    (tmp_path / "sums.py").touch()
    assert "; tabs orbit.py, sums.py\n" in here("check-config", str(file), "--offline").stdout


def test_run_refuses_a_wrong_configuration_in_a_line(tmp_path: Path) -> None:
    assert "none.toml: cannot be read (no such file or directory)" in failure(here("run", str(tmp_path / "none.toml")))


def test_a_check_and_run_say_which_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "beam.toml"
        file.write_text(
            '[[groups]]\nname = "bpm"\ncount = 3\nchannels = [{ name = "x" }]\n'
            f'[[sources]]\nkind = "tcp"\nport = 0\n[api]\nport = {port}\n[dashboard]\nport = 0\n'
        )
        done = triggerlog("run", str(file), "--log-level", "error")
        checked = here("check-config", str(file))
    assert f"api.port: cannot listen on 127.0.0.1:{port} (address already in use)" in failure(done).splitlines()[-1]
    assert failure(done).splitlines()[-1].endswith(failure(checked))


def test_a_check_beside_the_daemon_leaves_its_ports_alone(tmp_path: Path) -> None:
    with running_daemon(tmp_path, free_port()) as daemon:
        assert here("check-config", str(daemon.file)).stdout.startswith(f"{daemon.file}: nothing is wrong.\n")
    assert here("check-config", str(daemon.file)).returncode == 0


@pytest.mark.parametrize("section", ["[api]", '[[sources]]\nkind = "udp"'])
def test_a_check_and_run_say_which_host_they_cannot_listen_on(tmp_path: Path, section: str) -> None:
    file = tmp_path / "beam.toml"
    ports = "" if section == "[api]" else "[api]\nport = 0\n"
    database = '[database]\ndsn = "postgresql://nobody@127.0.0.1:1/none"\n'
    doors = f'{ports}{section}\nhost = "192.0.2.1"\nport = 0\n'
    file.write_text(f"{LEAST}{database}{doors}" + ('token_env = "TOKEN"\n' if section == "[api]" else ""))
    done = triggerlog("run", str(file), TOKEN="0123456789abcdef")
    field = "api" if section == "[api]" else "sources[0]"
    checked = here("check-config", str(file), TOKEN="0123456789abcdef")
    assert failure(done).splitlines()[-1].endswith(failure(checked))
    assert (
        failure(done)
        .splitlines()[-1]
        .endswith(
            f"{field}.host: cannot listen on 192.0.2.1:0 (cannot assign requested address); give an address of this "
            "machine, such as 127.0.0.1, or 0.0.0.0 for all"
        )
    )


def test_a_file_that_cannot_be_used_is_told_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "journal").touch()
    file = tmp_path / "beam.toml"
    file.write_text(LEAST)
    assert failure(here("check-config", str(file), "--offline")) == (
        f"triggerlog: {tmp_path}/state/journal cannot be used (not a directory); see that it is there, and what it "
        "should be"
    )


def test_export_makes_no_database(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(LEAST)
    assert failure(triggerlog("export", str(file), "--output", str(tmp_path / "beam.csv"))) == (
        f"triggerlog: state_dir: the database in {tmp_path}/state has nothing to export: it lacks an embedded "
        "PostgreSQL, schema `triggerlog`, tables of group `bpm`; start the daemon, which makes them, or name its state "
        "folder"
    )
    assert not (tmp_path / "state").exists()


def test_a_second_daemon_is_kept_out_of_a_state_folder(daemon: Daemon) -> None:
    assert "another daemon uses" in failure(triggerlog("run", str(daemon.file)))


def test_what_is_simulated_is_committed_and_shown(daemon: Daemon) -> None:
    committed = daemon.status()["groups"]["bpm"]["readings"]["committed"]
    options = ["--triggers", "50", "--rate", "100", "--connections", "each", "--missing", "0.1", "--json"]
    done = triggerlog("simulate", "--port", str(daemon.readings), *options)
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)["groups"]
    assert report["acknowledged"] == report["sent"] == 50 * 12 - report["missing"]

    shown = json.loads(triggerlog("status", "--daemon", daemon.api, "--json").stdout)
    assert shown["groups"]["bpm"]["readings"]["committed"] - committed == report["distinct"]
    once = here("status", "--daemon", daemon.api, "--once")
    assert once.returncode == 0
    assert "running" in once.stdout
    assert re.search(r"complete, incomplete\s+\d+, \d+", once.stdout)


def test_the_address_of_the_daemon_may_come_from_the_environment(daemon: Daemon) -> None:
    assert here("status", "--once", TRIGGERLOG_DAEMON=daemon.api).returncode == 0


def test_schema_prints_a_script_without_asking_any_database(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(f'logger = "control-node-1"\n{LEAST}[database]\ndsn = "postgresql://nobody@nowhere.invalid/x"\n')
    done = triggerlog("schema", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("-- triggerlog: schema triggerlog, written by logger control-node-1; PostgreSQL 14")
    assert done.stdout.count("CREATE TABLE IF NOT EXISTS") == 11
    assert "('bpm', 2, 'bpm_002')" in done.stdout
    assert "GRANT SELECT, INSERT, UPDATE, DELETE" in done.stdout


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("postgresql", 'CREATE SCHEMA IF NOT EXISTS "triggerlog";'),
        ("mysql", "CREATE DATABASE IF NOT EXISTS `triggerlog`"),
        ("mongodb", 'db = db.getSiblingDB("triggerlog");'),
    ],
)
def test_schema_is_there_for_every_database(tmp_path: Path, backend: str, said: str) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(LEAST)
    done = here("schema", str(file), "--backend", backend)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    pieces = [piece.strip() for piece in done.stdout.split("\n\n") if piece.strip()]
    assert all(piece.endswith(";") or piece.splitlines()[-1].startswith(("--", "//")) for piece in pieces)


def test_status_says_in_a_line_that_no_daemon_is_there() -> None:
    said = failure(triggerlog("status", "--once", "--daemon", f"http://127.0.0.1:{free_port()}"))
    assert said.startswith("triggerlog: no daemon at http://127.0.0.1:")
    assert "start it with `triggerlog run FILE`" in said


@pytest.mark.parametrize("address", ["nonsense", "http://[::1", "http://127.0.0.1:99999", "http://a..b", "ftp://node"])
def test_what_is_no_address_of_a_daemon_is_told_as_such(address: str) -> None:
    assert failure(here("status", "--json", "--daemon", address)) == (
        f"triggerlog: --daemon: {address!r} is no address of a daemon; write it like http://127.0.0.1:8120"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--protocol", "udp"], "--config: give the daemon's configuration"),
        (["--connections", "none"], "--connections: 'none' is not a number of connections"),
        (["--duration-s", "0"], "--duration-s: give more than 0 seconds"),
        (["--port", "1"], "cannot reach a daemon at 127.0.0.1:1"),
        (["--host", "a..b"], "triggerlog: 'a..b' is neither an address nor a name; give the host of the daemon"),
    ],
)
def test_simulate_says_in_a_line_what_is_wrong(options: list[str], said: str) -> None:
    # One that gets as far as its signals has to be a process of its own.
    command = triggerlog if {"--port", "--host"}.intersection(options) else here
    assert said in failure(command("simulate", *options))


def test_the_page_is_started_as_a_program_of_its_own(daemon: Daemon) -> None:
    with running("dashboard", "--daemon", daemon.api, "--port", "0") as page:
        page.until_said(r"page: http://127\.0\.0\.1:\d+")
        assert psutil.Process(page.process.pid).cmdline()[1:3] == ["-m", "dashboard"]


class Terminal:
    """A command in a terminal, and what it shows."""

    def __init__(self, *arguments: str) -> None:
        self._screen, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "daemon", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        )
        os.close(theirs)

    def until_shown(self, text: str, timeout_s: float = 60) -> None:
        """Wait for something new on the screen."""
        shown, deadline = "", time.monotonic() + timeout_s
        while text not in shown:
            assert time.monotonic() < deadline, f"{text!r} not within {timeout_s} s; last: {shown[-2000:]!r}"
            if select.select([self._screen], [], [], 0.1)[0]:
                shown += os.read(self._screen, 65_536).decode(errors="replace")

    def ended(self) -> int:
        """Wait for its end; the screen is read on, or it would wait for ever to write to it."""
        with suppress(OSError):  # EIO, by which a terminal says that nobody holds its other end any more
            while os.read(self._screen, 65_536):
                pass
        return self.process.wait(60)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)


def test_the_live_view_says_when_the_daemon_is_gone_and_comes_back_by_itself(tmp_path: Path) -> None:
    port = free_port()
    terminal = Terminal("status", "--daemon", f"http://127.0.0.1:{port}", "--every", "0.1")
    try:
        terminal.until_shown("NO DATA")
        with running_daemon(tmp_path, api=port):
            terminal.until_shown("● running", 60)
        terminal.until_shown("NO DATA")
        terminal.until_shown("last known")
        with running_daemon(tmp_path, api=port):
            terminal.until_shown("● running", 60)
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.ended() == 0
    finally:
        terminal.close()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Running]:
    with running("demo", "--state", str(tmp_path / "state"), "--free-ports") as demo:
        demo.until_said("triggerlog is logging", 120)
        yield demo


def children(state: Path) -> dict[str, psutil.Process]:
    """The processes of a demonstration, and its database, by what they are."""
    found: dict[str, psutil.Process] = {}
    api = re.search(r"port = (\d+)\n\n\[dashboard\]", (state / "demo.toml").read_text())
    readings = re.search(r'kind = "tcp"\nport = (\d+)', (state / "demo.toml").read_text())
    assert api
    assert readings
    # Where the account of the server cannot reach the folder, its data lies elsewhere.
    folders = [str(state), *(str(path.resolve()) for path in state.rglob("postgresql"))]
    marks = {
        "daemon": f"run {state}",
        "sender": f"--port {readings[1]} ",
        "page": f":{api[1]} --host",
        "database": "-D",
        "conditions": "-m daemon.conditions",
    }
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            if marks["conditions"] in words:  # which does not name the folder, but writes its log there
                words += f" {Path(f'/proc/{process.pid}/fd/2').readlink()}"
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, OSError):
            continue
        for name, mark in marks.items():
            if mark in words and (name not in {"database", "conditions"} or any(each in words for each in folders)):
                found[name] = process
    return found


def test_the_demo_runs_everything_and_takes_it_with_it(demo: Running, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert set(children(state)) == {"daemon", "sender", "page", "database", "conditions"}
    api = demo.until_said(r"(http://127\.0\.0\.1:\d+)/docs")[1]
    status = json.loads(here("status", "--json", "--daemon", api).stdout)
    assert status["groups"]["bpm"]["instruments"] == 120

    def committed() -> bool:
        status = json.loads(here("status", "--json", "--daemon", api).stdout)
        return status["groups"]["bpm"]["triggers"]["committed"] >= 10

    until(committed, "10 triggers committed")
    assert demo.end(signal.SIGINT) == 0
    assert children(state) == {}
    report = (state / "logs" / "sender.log").read_text()
    counts = {
        name: int(re.search(rf"{name}\s+([\d,]+)", report)[1].replace(",", "")) for name in ("sent", "acknowledged")
    }
    assert counts["sent"] == counts["acknowledged"] > 0, report
    again = triggerlog("run", str(state / "demo.toml"), "--log-level", "nonsense")
    assert again.returncode == 2


@contextmanager
def calibrated_demo(state: Path) -> Iterator[tuple[Running, httpx.Client]]:
    """A demonstration that ends in order, and its API."""
    with running("demo", "--state", str(state), "--free-ports", "--rate", "100") as demo:
        demo.until_said("Stop +Ctrl-C", 120)
        api = demo.until_said(r"(http://127\.0\.0\.1:\d+)/docs")[1]
        with httpx.Client(base_url=api, trust_env=False, timeout=60) as client:
            yield demo, client
        assert demo.end(signal.SIGINT) == 0
    assert children(state) == {}


def orbit(client: httpx.Client, question: str, **params: int) -> tuple[dict[str, Any], list[float | None]]:
    """The calibration of an answer about one trigger, and its x in mm."""
    asked = client.get(f"/api/v1/groups/bpm/{question}", params={"calibrated": True} | params)
    answer = asked.raise_for_status().json()
    return answer["calibration"], answer["channels"]["x_mm"]


def test_the_demo_calibrates_orbits_of_now_and_of_the_past(tmp_path: Path) -> None:
    state, positions = tmp_path / "state", tmp_path / "positions.csv"
    (state / "payloads").mkdir(parents=True)
    (state / "payloads" / "bpm-1.json").mkdir()
    with calibrated_demo(state) as (demo, client):
        told = demo.until_said("Orbits are not calibrated: (.*)\n")[1]
        assert told.startswith(f"{state}/payloads/bpm-1.json cannot be used (is a directory); ")
        until(lambda: client.get("/api/v1/groups/bpm/triggers/200").is_success, "trigger 200 is stored")
        assert client.get("/api/v1/groups/bpm/newest", params={"calibrated": True}).status_code == 409
    # The next start stores what this one could not, and those after it leave it as it is.
    (state / "payloads" / "bpm-1.json").rmdir()
    with calibrated_demo(state) as (demo, client):
        assert "not calibrated" not in demo.said
        until(lambda: client.get("/api/v1/groups/bpm/triggers/5", params={"run": 2}).is_success, "run 2 has begun")
        now, _ = orbit(client, "newest")
        then, first_x = orbit(client, "triggers/99", run=1)
        assert (now["tag"], now["status"], now["readings_without"]) == ("demo", "locked", 0)
        assert [each["url"] for each in now["payloads"] + then["payloads"]] == ["bpm-1.json", "bpm-0.json"]
        assert all(each["is_verified"] for each in now["payloads"] + then["payloads"])
        done = triggerlog(
            "export", str(state / "demo.toml"), "--run", "1", "--calibrated", "demo", "-o", str(positions)
        )
        assert done.returncode == 0, done.stderr
        used = json.loads((tmp_path / "positions.calibration.json").read_text())
        assert [(each["url"], each["end"]) for each in used["payloads"]] == [
            ("bpm-0.json", [1, 100]),
            ("bpm-1.json", None),
        ]
        assert used["readings_without"] == 0
        assert client.get("/api/v1/status").json()["conditions"]["state"] == "running"
    with calibrated_demo(state) as (demo, client):
        assert orbit(client, "triggers/99", run=1) == (then, first_x)
        shown = json.loads(
            here("conditions", "history", "demo", "bpm", "--json", "--config", str(state / "demo.toml")).stdout
        )
        assert [each["url"] for each in shown] == ["bpm-0.json", "bpm-1.json"]


def test_the_demo_says_who_died_and_fails(demo: Running, tmp_path: Path) -> None:
    children(tmp_path / "state")["sender"].kill()
    assert demo.ended() == 1
    assert "the sender was ended by SIGKILL" in demo.said
    assert "Traceback" not in demo.said
    assert children(tmp_path / "state") == {}


def test_nothing_outlives_a_demo_that_is_killed(demo: Running, tmp_path: Path) -> None:
    demo.end(signal.SIGKILL)
    until(lambda: children(tmp_path / "state") == {}, "its processes end")


def test_two_demos_do_not_share_a_folder(demo: Running, tmp_path: Path) -> None:
    assert "another demo uses" in triggerlog("demo", "--state", str(tmp_path / "state"), "--free-ports").stderr
    assert demo.end(signal.SIGTERM) == 0
    assert children(tmp_path / "state") == {}


def test_the_demo_says_that_it_cannot_make_its_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot make" in failure(here("demo", "--state", str(tmp_path / "file"), "--free-ports"))
