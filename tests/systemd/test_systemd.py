"""The units under a real systemd: installed, started, reloaded, stopped, killed, stuck, without power. Nothing is lost.

The tests are steps of one story on one machine, in the order of this file: `make test-systemd`, as root.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import until
from tests.systemd.machine import Machine
from tests.systemd.tree import tree

pytestmark = [
    pytest.mark.systemd,
    pytest.mark.skipif(os.environ.get("TRIGGERLOG_SYSTEMD") != "1", reason="boots a machine: make test-systemd"),
    pytest.mark.timeout(900),
]

CONFIG = "/etc/triggerlog.toml"
UNIT = "triggerlog.service"
INSTRUMENTS = 120
WATCHDOG_S = 8
START_LIMIT_S = 20
COUNTED = "SELECT count(*), count(DISTINCT (run, trigger_id, instrument)), count(DISTINCT (run, trigger_id)) FROM bpm"


@dataclass
class Site:
    """The machine, and what was sent to it so far."""

    machine: Machine
    triggers: int = 0
    config: str = ""

    def simulate(self, triggers: int, *, rate: float = 0, ack: str = "committed") -> tuple[str, ...]:
        """The command that sends the next so many triggers."""
        first, self.triggers = self.triggers + 1, self.triggers + triggers
        numbers = ("--first-trigger", str(first), "--triggers", str(triggers), "--rate", f"{rate:g}")
        return ("triggerlog", "simulate", "--json", "--ack", ack, "--finish-timeout-s", "240", *numbers)

    def send(self, triggers: int, *, ack: str = "committed") -> None:
        """Send triggers, and see each reading of them acknowledged."""
        self.acknowledged(self.machine.done(*self.simulate(triggers, ack=ack)), triggers)

    def acknowledged(self, said: str, triggers: int) -> None:
        (group,) = json.loads(said)["groups"]
        assert group["acknowledged"] == group["distinct"] == triggers * INSTRUMENTS, group

    def check_stored(self) -> None:
        """Everything that was sent is in the database, once."""
        until(lambda: self.group()["readings"]["waiting"] == 0, "all is committed", 120)
        counted = self.machine.done("triggerlog", "psql", CONFIG, "-At", "-c", COUNTED)
        assert counted.strip() == f"{self.triggers * INSTRUMENTS}|{self.triggers * INSTRUMENTS}|{self.triggers}"

    @property
    def main(self) -> int:
        return int(self.machine.shows(UNIT, "MainPID")["MainPID"])

    @property
    def restarts(self) -> int:
        return int(self.machine.shows(UNIT, "NRestarts")["NRestarts"])

    def until_active(self) -> None:
        until(lambda: self.machine.run("systemctl", "is-active", UNIT).stdout == "active\n", "the unit is active", 120)

    def until_flowing(self) -> None:
        """Wait until triggers come in and are committed."""
        before = self.committed()
        until(lambda: self.committed() > before + 20, "triggers are committed", 120)

    def group(self) -> dict:
        """Return the group's part of the status, which is there when the database has answered."""
        until(lambda: "bpm" in self.machine.status()["groups"], "the database has answered", 120)
        return self.machine.status()["groups"]["bpm"]

    def committed(self) -> int:
        return int(self.group()["triggers"]["committed"])

    def write(self, path: str, text: str) -> None:
        file = self.machine.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    machine = Machine(tree(), Path(tempfile.mkdtemp(prefix="triggerlog-machine-")))
    try:
        machine.boot()
        yield Site(machine)
    finally:
        machine.close()


def test_it_is_installed_and_starts(site: Site) -> None:
    machine = site.machine
    assert machine.done("triggerlog", "install-units").count(": new") == 3
    assert machine.done("triggerlog", "install-units").count("up to date") == 2
    site.config = (machine.root / CONFIG[1:]).read_text() + "\n[database]\ncommand_timeout_s = 5.0\n"
    site.write(CONFIG, site.config)
    site.write("/etc/credstore/triggerlog.password", "secret\n")
    site.write(f"/etc/systemd/system/{UNIT}.d/test.conf", f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    machine.done("systemctl", "daemon-reload")
    machine.done("systemctl", "enable", "--now", "triggerlog", "triggerlog-dashboard")
    assert machine.shows(UNIT, "ActiveState") == {"ActiveState": "active"}
    assert "taking readings" in machine.journal(), "it is active when readings are taken"
    # Which may be before its new database has been made.
    said = "StatusText"
    until(lambda: machine.shows(UNIT, said)[said].startswith("running: "), "the status line shows how it runs", 120)
    until(lambda: "page: http://127.0.0.1:8121" in machine.journal(), "the page is there")


def test_it_may_do_little(site: Site) -> None:
    process = dict(
        line.split(":", 1) for line in site.machine.done("cat", f"/proc/{site.main}/status").splitlines() if ":" in line
    )
    uid = int(process["Uid"].split()[0])
    assert 61184 <= uid <= 65519, "a user that is there while the unit runs"
    assert int(process["CapEff"], 16) == int(process["CapBnd"], 16) == 0
    assert (process["NoNewPrivs"].strip(), process["Seccomp"].strip()) == ("1", "2")
    handed = ("nsenter", "-t", str(site.main), "-m", "cat", f"/run/credentials/{UNIT}/triggerlog.password")
    assert site.machine.done(*handed) == "secret\n"


def test_triggers_are_logged(site: Site) -> None:
    site.send(500)
    site.check_stored()


def test_a_reload_takes_over_what_can_change_and_refuses_what_is_wrong(site: Site) -> None:
    machine, main = site.machine, site.main
    site.write(CONFIG, site.config + "[alarms]\nstale_s = 7.5\n")
    machine.done("systemctl", "reload", UNIT)
    machine.until_logged("alarms.stale_s has changed, and is used from now on")
    assert machine.status()["limits"]["stale_s"] == 7.5
    site.write(CONFIG, site.config + "[alarms]\nstale_s = 0\n")
    assert machine.run("systemctl", "reload", UNIT).returncode != 0
    machine.until_logged("alarms.stale_s: ")
    site.write(CONFIG, site.config)
    machine.done("systemctl", "reload", UNIT)
    until(lambda: machine.status()["limits"]["stale_s"] == 2.0, "it is as it was")
    site.until_active()
    assert (site.main, site.restarts) == (main, 0)


def test_a_stop_in_full_flow_ends_in_order_and_loses_nothing(site: Site) -> None:
    machine = site.machine
    command = site.simulate(600, rate=40)
    with machine.start(*command) as sending:
        site.until_flowing()
        machine.done("systemctl", "stop", UNIT)
        shown = machine.shows(UNIT, "ActiveState", "Result", "ExecMainStatus")
        assert shown == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}
        machine.done("systemctl", "start", UNIT)
        site.acknowledged(sending.communicate(timeout=240)[0], 600)
    site.check_stored()


def test_after_kill_9_it_comes_back_and_loses_nothing(site: Site) -> None:
    machine, restarts = site.machine, site.restarts
    command = site.simulate(2000, rate=40)
    with machine.start(*command) as sending:
        for k in range(3):
            site.until_flowing()
            machine.done("kill", "-KILL", str(site.main))
            until(lambda k=k: site.restarts == restarts + k + 1, "it is started again")
            site.until_active()
        site.acknowledged(sending.communicate(timeout=240)[0], 2000)
    site.check_stored()


def test_a_stuck_pipeline_is_restarted_by_the_watchdog(site: Site) -> None:
    """The threads stand still as before a disk that hangs: the journal is not written, and the event loop goes on."""
    machine, restarts = site.machine, site.restarts
    site.send(20)
    with machine.stop_threads(site.main) as stopper:
        machine.until_logged("the journal's keeper of group bpm without progress", timeout_s=10 * WATCHDOG_S)
        assert machine.status()["state"] == "running", "the event loop answers"
        machine.until_logged("Failed with result 'watchdog'", timeout_s=10 * WATCHDOG_S)
        stopper.wait(60)
    until(lambda: site.restarts == restarts + 1, "it is started again")
    site.until_active()
    site.send(20)
    site.check_stored()


def test_a_database_away_is_no_reason_to_start_again_and_a_cut_of_the_power_then_loses_nothing(site: Site) -> None:
    machine, restarts = site.machine, site.restarts
    machine.done("pkill", "-STOP", "postgres")
    site.send(1000, ack="spooled")
    until(lambda: machine.status()["state"] == "store_away", "it is seen that the database is away")
    assert site.group()["triggers"]["waiting"] == 1000
    fed = machine.shows(UNIT, "WatchdogTimestampMonotonic")["WatchdogTimestampMonotonic"]
    until(lambda: _is_later(machine, fed, 3 * WATCHDOG_S), "the watchdog is fed", 60)
    assert site.restarts == restarts
    machine.lose_power()
    machine.boot()
    site.until_active()
    machine.until_logged("of the journal went through assembly again")
    site.check_stored()
    site.send(10)
    site.check_stored()


AWAY = 'dsn = "postgresql://nobody@127.0.0.1:1/none"\npassword_file = "credential:triggerlog.password"\n'
"""A database that does not answer; the password that would be used is one that systemd hands over."""


def restart_without_database(site: Site, more: str = "") -> None:
    """Restart the unit with a database that does not answer; `more` are further sections."""
    site.write(CONFIG, site.config + AWAY + more)  # its last section is that of the database
    limit = f"[Service]\nWatchdogSec={WATCHDOG_S}\nTimeoutStartSec={START_LIMIT_S}\n"
    site.write(f"/etc/systemd/system/{UNIT}.d/test.conf", limit)
    site.machine.done("systemctl", "daemon-reload")
    site.machine.done("systemctl", "restart", "--no-block", UNIT)


def test_it_is_active_before_its_database_and_takes_readings_then(site: Site) -> None:
    """What it acknowledges as received is committed when the database is there."""
    restart_without_database(site)
    site.until_active()
    said = site.machine.shows(UNIT, "StatusText")["StatusText"]
    assert said.startswith("database away, readings wait"), said
    site.send(20, ack="received")
    site.write(CONFIG, site.config)
    site.machine.done("systemctl", "restart", UNIT)
    site.until_active()
    site.check_stored()


def test_without_a_journal_it_is_not_active_before_its_database(site: Site) -> None:
    """It can take nothing then: a unit that is ordered after it waits with it, for as long as it takes."""
    machine = site.machine
    restart_without_database(site, "[journal]\nmax_mib = 0\n")
    waits = "starting: waits for the database"
    until(lambda: machine.shows(UNIT, "StatusText")["StatusText"].startswith(waits), "it says what it waits for", 120)
    main, seen = site.main, time.monotonic()
    until(lambda: time.monotonic() > seen + 2 * START_LIMIT_S, "twice the limit of a start has passed", 90)
    assert machine.shows(UNIT, "ActiveState", "MainPID") == {"ActiveState": "activating", "MainPID": str(main)}
    machine.done("systemctl", "restart", "triggerlog-dashboard")
    site.write(CONFIG, site.config)
    machine.done("systemctl", "restart", UNIT)
    site.until_active()
    site.send(10)
    site.check_stored()


def test_it_ends_with_the_machine(site: Site) -> None:
    site.send(50)
    site.machine.shut_down()
    site.machine.boot()
    site.until_active()
    site.check_stored()
    ended = site.machine.journal("--boot=-1")
    assert f"{UNIT}: Deactivated successfully." in ended
    assert "Failed with result" not in ended
    assert "Killing process" not in ended


def _is_later(machine: Machine, before: str, seconds: float) -> bool:
    now = machine.shows(UNIT, "WatchdogTimestampMonotonic")["WatchdogTimestampMonotonic"]
    return int(now) > int(before) + seconds * 1e6
