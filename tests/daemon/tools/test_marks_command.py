"""`triggerlog mark` and `triggerlog marks` against a real daemon."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from schemas.api.marks import Marks
from tests.support.processes import Daemon, running_daemon, triggerlog

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


def asked(command: str, daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    return triggerlog(command, str(daemon.file), "--daemon", daemon.api, *arguments)


def test_a_mark_is_made_listed_and_withdrawn(daemon: Daemon) -> None:
    span = ("--at", "2026-11-21T18:00", "--until", "2026-11-21T19:00:00+00:00", "--group", "bpm", "--author", "A. O.")
    made = asked("mark", daemon, "valve 3 closed", *span)
    found = re.fullmatch(r"2026-11-21T18:00:00Z valve 3 closed: marked as (\S+)\n", made.stdout)
    assert found, made
    assert asked("mark", daemon, "beam study began").returncode == 0
    listed = asked("marks", daemon)
    first, second = listed.stdout.splitlines()
    assert first == f"2026-11-21T18:00:00Z to 2026-11-21T19:00:00Z  valve 3 closed (group bpm, A. O.)  {found[1]}"
    assert "  beam study began" in second
    within = asked("marks", daemon, "--from", "2026-11-21T18:30", "--to", "2026-11-22", "--json")
    assert [str(mark.id) for mark in Marks.model_validate_json(within.stdout).marks] == [found[1]]
    assert "beam study" in asked("marks", daemon, "--last", "1h", "--most", "1").stdout
    assert asked("marks", daemon, "--withdraw", found[1]).stdout == f"{found[1]}: withdrawn\n"
    assert "valve" not in asked("marks", daemon).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["two\nlines"], "text: it has control characters"),
        (["x" * 201], "text: "),
        (["fine", "--at", "yesterday"], "--at: 'yesterday' is not a time"),
        (["fine", "--at", "2026-11-21", "--until", "2026-11-20"], "until_ns: it is not after time_ns"),
        (["fine", "--group", "bmp"], "there is no group 'bmp'"),
    ],
)
def test_what_is_no_mark_is_said_in_one_line(daemon: Daemon, arguments: list[str], said: str) -> None:
    refused = asked("mark", daemon, *arguments)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_mark_of_which_nobody_knows_whether_it_was_made_can_be_repeated(daemon: Daemon) -> None:
    failed = triggerlog("mark", str(daemon.file), "quench", "--daemon", "http://127.0.0.1:9")
    again = re.search(r"a repeat with (--id \S+ --at \d+) makes no second mark", failed.stderr)
    assert failed.returncode == 1
    assert again, failed
    first, second = (asked("mark", daemon, "quench", *again[1].split()) for _ in range(2))
    assert first.stdout == second.stdout
    assert first.stdout.endswith(f" quench: marked as {again[1].split()[1]}\n")
    assert asked("marks", daemon).stdout.count("quench") == 1


def test_without_a_daemon_or_a_mark_that_is_said(daemon: Daemon, tmp_path: Path) -> None:
    unknown = asked("marks", daemon, "--withdraw", str(uuid4()))
    assert unknown.returncode == 1
    assert "answers 404: id: there is no mark" in unknown.stderr
    gone = triggerlog("marks", "--daemon", "http://127.0.0.1:9")
    assert gone.returncode == 1
    assert "no daemon at http://127.0.0.1:9" in gone.stderr
