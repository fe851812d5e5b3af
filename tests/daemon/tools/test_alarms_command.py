"""`triggerlog alarms` and `triggerlog events` against a real daemon."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.api.alarms import Alarms
from tests.support.processes import GROUP, LISTENERS, Daemon, running, triggerlog, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One to which nobody sends: no reading comes, and its instruments were never heard."""
    file = tmp_path_factory.mktemp("daemon") / "beam.toml"
    file.write_text(GROUP + LISTENERS.format(api=0) + "[alarms]\nquiet_s = 0.2\n")
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        # On a slow machine there is one more at first: the database is not open yet.
        both = {"stale", "instruments"}
        until(lambda: {alarm["key"] for alarm in daemon.status()["alarms"]} == both, "both alarms are there")
        yield daemon


def alarms(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    return triggerlog("alarms", *arguments, "--config", str(daemon.file), "--daemon", daemon.api)


def events(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    return triggerlog("events", str(daemon.file), "--daemon", daemon.api, *arguments)


def test_alarms_are_listed_acknowledged_shelved_and_shown_again(daemon: Daemon) -> None:
    listed = " ".join(alarms(daemon).stdout.split())
    assert re.search(
        r"▲ warning \[stale\] No readings come: bpm .*? \(since \S+Z?, .*?\)\. Acknowledge it if the", listed
    )
    assert alarms(daemon, "acknowledge", "stale").stdout == "stale: acknowledged\n"
    assert alarms(daemon, "shelve", "instruments", "--for", "2h").stdout == "instruments: shelved for 2h\n"
    told = Alarms.model_validate_json(alarms(daemon, "--json").stdout).root
    assert {alarm.key: alarm.attention for alarm in told} == {"stale": "acknowledged", "instruments": "shelved"}
    status = triggerlog("status", str(daemon.file), "--daemon", daemon.api, "--once").stdout
    assert "; acknowledged at " in status
    assert "; shelved until " in status
    assert alarms(daemon, "unshelve", "instruments").stdout == "instruments: shown in full again\n"
    assert alarms(daemon, "acknowledge", "--all").stdout == "all: acknowledged\n"
    assert alarms(daemon).stdout.count("; acknowledged at ") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("governor", "--commit-p99", "nan"),
            "commit_p99_ms: nan is not a finite number; use a number above 0, at most",
        ),
        (("governor", "--commit-p99", "-5"), "commit_p99_ms: -5.0 is out of range; use a number above 0, at most"),
    ],
)
def test_what_the_daemon_refuses_is_printed_with_its_field_and_the_fix(
    daemon: Daemon, arguments: tuple[str, ...], said: str
) -> None:
    refused = triggerlog(*arguments, "--config", str(daemon.file), "--daemon", daemon.api)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_an_alarm_that_is_not_in_force_is_refused_with_those_that_are(daemon: Daemon) -> None:
    refused = alarms(daemon, "shelve", "dead", "--for", "1h")
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    _, said, named = line.partition("key: the alarm 'dead' is not in force; name one of: ")
    assert said
    # The order is that in which they came.
    assert sorted(named.split(", ")) == ["instruments", "stale"]


def test_where_the_daemon_is_may_stand_before_the_command(daemon: Daemon) -> None:
    where = ("--config", str(daemon.file), "--daemon", daemon.api)
    assert triggerlog("alarms", *where, "shelve", "stale", "--for", "1h").stdout == "stale: shelved for 1h\n"
    assert triggerlog("alarms", *where, "unshelve", "stale").stdout == "stale: shown in full again\n"
    elsewhere = triggerlog("alarms", "--daemon", "http://127.0.0.1:9", "unshelve", "stale")
    assert "no daemon at http://127.0.0.1:9" in elsewhere.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("acknowledge",), "name the keys of alarms, or give --all"),
        (("acknowledge", "stale", "--all"), "not both"),
        (("acknowledge", "stroe"), "the alarm 'stroe' is not in force"),
        (("shelve", "stale", "--for", "soon"), "--for: 'soon' is not a duration"),
        (("shelve", "stale", "--for", "2d"), "--for: 2d is longer than a day"),
    ],
)
def test_what_cannot_be_ordered_is_one_line(daemon: Daemon, arguments: tuple[str, ...], problem: str) -> None:
    refused = alarms(daemon, *arguments)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert problem in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_events_are_printed_by_time_and_severity_as_lines_and_as_json(daemon: Daemon) -> None:
    lines = events(daemon).stdout.splitlines()
    assert any(re.fullmatch(r"\d{4}-\d\d-\d\d [\d:.]+Z info    taking readings at .*", line) for line in lines)
    assert sorted(lines) == lines
    assert "taking readings" in events(daemon, "--last", "1h").stdout
    assert "taking readings" not in events(daemon, "--severity", "warning").stdout
    (newest,) = events(daemon, "--json", "--most", "1").stdout.splitlines()
    assert json.loads(newest)["text"] in lines[-1]
    cut = events(daemon, "--most", "1")
    assert "these are the newest 1 (--most)" in cut.stderr


def test_events_are_followed(daemon: Daemon) -> None:
    with running("events", str(daemon.file), "--daemon", daemon.api, "--follow", "--most", "1") as following:
        following.until_said(r"info ")
        assert alarms(daemon, "shelve", "stale", "--for", "90s").returncode == 0
        following.until_said(r"alarm shelved for 90 s: No readings come: .* \(ordered from 127\.0\.0\.1\)")
        assert alarms(daemon, "unshelve", "stale").returncode == 0
        following.until_said(r"alarm shown in full again: No readings come")
        assert following.said.count("alarm shelved for 90 s") == 1


def test_without_a_daemon_events_are_those_of_the_state_folder(daemon: Daemon, tmp_path: Path) -> None:
    gone = triggerlog("events", str(daemon.file), "--daemon", "http://127.0.0.1:9", "--last", "1h")
    assert gone.returncode == 0, gone
    assert "no daemon at http://127.0.0.1:9" in gone.stderr
    assert f"These are the events in {daemon.file.parent / 'state'}:" in gone.stderr
    assert "taking readings at" in gone.stdout
    without = triggerlog("events", "--daemon", "http://127.0.0.1:9")
    assert (without.returncode, without.stdout) == (1, "")
    assert "no daemon at http://127.0.0.1:9" in without.stderr
