"""The systemd units: sound, confined, packaged, and installed by `triggerlog install-units`."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from daemon.core.outcome import CommandFailed
from daemon.data_path import COMMIT_WITHIN_S
from daemon.service import STOP_MORE_S
from daemon.tools.commands.install import UNITS, check_reachable, files_for
from schemas.config import parse_config
from tests.support.processes import triggerlog

ROOT = Path(__file__).parents[2]
MOST_EXPOSED = 2.0


def analyze(*arguments: str) -> str:
    """What systemd-analyze says; it comes with systemd."""
    command = shutil.which("systemd-analyze")
    if command is None:
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail("systemd-analyze is not installed: apt-get install systemd")
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    done = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def install(root: Path, *arguments: str, command: str = "/bin/true") -> str:
    done = triggerlog("install-units", "--root", str(root), "--command", command, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def installed(root: Path, name: str) -> Path:
    return root / "etc" / "systemd" / "system" / name


# --- the units ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    install(tmp_path)
    assert analyze("verify", str(installed(tmp_path, name))) == ""


@pytest.mark.parametrize("name", UNITS)
def test_they_may_do_little_more_than_they_have_to(name: str, tmp_path: Path) -> None:
    install(tmp_path)
    said = analyze("security", "--offline=yes", f"--threshold={int(MOST_EXPOSED * 10)}", str(installed(tmp_path, name)))
    found = re.search(r"Overall exposure level for .*: (\d+\.\d)", said)
    assert found
    assert float(found[1]) <= MOST_EXPOSED


def settings(name: str) -> dict[str, str]:
    text = (ROOT / "systemd" / name).read_text()
    return dict(re.findall(r"^([A-Za-z]+)=(.*)$", text, re.MULTILINE))


def test_the_end_has_the_time_that_the_daemon_takes() -> None:
    assert float(settings("triggerlog.service")["TimeoutStopSec"]) > STOP_MORE_S > COMMIT_WITHIN_S


def test_the_page_waits_for_nothing() -> None:
    assert "triggerlog.service" not in settings("triggerlog-dashboard.service")["After"]


# --- installing ---------------------------------------------------------------------------------------------------


def test_it_writes_units_and_a_configuration_that_can_be_used(tmp_path: Path) -> None:
    said = install(tmp_path, command="/opt/elsewhere/bin/triggerlog")
    assert re.findall(r"(\S+): new", said) == [
        str(tmp_path / "etc/triggerlog.toml"),
        *(str(installed(tmp_path, name)) for name in UNITS),
    ]
    daemon, page = (installed(tmp_path, name).read_text() for name in UNITS)
    assert "ExecStart=/opt/elsewhere/bin/triggerlog run /etc/triggerlog.toml\n" in daemon
    assert "ExecStart=/opt/elsewhere/bin/triggerlog dashboard /etc/triggerlog.toml\n" in page
    assert "/opt/triggerlog" not in daemon + page
    assert parse_config((tmp_path / "etc/triggerlog.toml").read_text()).state_dir == "/var/lib/triggerlog"


def test_a_second_time_changes_nothing_and_what_is_the_operators_stays(tmp_path: Path) -> None:
    install(tmp_path)
    config, page = tmp_path / "etc/triggerlog.toml", installed(tmp_path, UNITS[1])
    config.write_text(config.read_text() + "[api]\nport = 9000\n")
    page.write_text("[Service]\n")
    mine = config.read_text()
    said = install(tmp_path)
    assert "triggerlog.toml: exists, not changed" in said
    assert "triggerlog.service: up to date" in said
    assert "triggerlog-dashboard.service: updated" in said
    assert "ExecStart=/bin/true dashboard /etc/triggerlog.toml" in page.read_text()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert install(tmp_path).count("up to date") == 2
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
    assert config.read_text() == mine


def test_a_state_folder_that_the_unit_may_not_write_is_told(tmp_path: Path) -> None:
    config = tmp_path / "etc/beam.toml"
    install(tmp_path, "--config", "/etc/beam.toml")
    assert "triggerlog check-config /etc/beam.toml" in config.read_text()
    config.write_text('state_dir = "state"\n')
    done = triggerlog("install-units", "--root", str(tmp_path), "--command", "/bin/true", "--config", "/etc/beam.toml")
    assert "state_dir is 'state', beside the configuration, where the unit may not write" in done.stderr
    config.write_text('state_dir = "/srv/triggerlog"\n')
    done = triggerlog("install-units", "--root", str(tmp_path), "--command", "/bin/true", "--config", "/etc/beam.toml")
    assert done.stderr == ""


def test_a_dry_run_prints_and_writes_nothing(tmp_path: Path) -> None:
    said = install(tmp_path, "--dry-run", "--config", "/etc/beam.toml")
    assert "ExecStart=/bin/true run /etc/beam.toml" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--config", "beam.toml"], "--config: beam.toml is relative; give an absolute path, which the units need"),
        (["--config", "/etc/a b.toml"], "--config: /etc/a b.toml has characters that have a meaning in a unit"),
        (["--command", "/opt/100%/triggerlog"], "--command: /opt/100%/triggerlog has characters that have a meaning"),
    ],
)
def test_what_a_unit_cannot_name_is_refused(arguments: list[str], line: str, tmp_path: Path) -> None:
    done = triggerlog("install-units", "--root", str(tmp_path), *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"triggerlog: {line}")
    assert len(done.stderr.splitlines()) == 1


def test_a_command_that_units_cannot_get_at_is_refused(tmp_path: Path) -> None:
    """pytest's folder is under /tmp, which a unit has for itself alone."""
    command = tmp_path / "triggerlog"
    command.touch(0o755)
    with pytest.raises(CommandFailed, match=r"the command is \S+, and units cannot see \S+; install under /opt"):
        check_reachable(command)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("not a folder")
    done = triggerlog("install-units", "--root", str(tmp_path), "--command", "/bin/true")
    assert done.returncode == 1
    assert re.fullmatch(r"triggerlog: \S+ cannot be written \(.*\); run it as root\n", done.stderr)


def test_the_wheel_has_the_units(tmp_path: Path) -> None:
    """And the code in it finds them."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("triggerlog-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    program = "from daemon.tools.commands.install import template; print(template('triggerlog.service'), end='')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "installed",
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (ROOT / "systemd/triggerlog.service").read_text()
    assert (tmp_path / "installed/daemon/units/triggerlog.service").exists()


def test_the_units_in_the_folder_are_what_is_installed_by_default(tmp_path: Path) -> None:
    command, config = Path("/opt/triggerlog/.venv/bin/triggerlog"), Path("/etc/triggerlog.toml")
    for file in files_for(command, config, tmp_path):
        assert file.text == (ROOT / "systemd" / file.path.name).read_text()
