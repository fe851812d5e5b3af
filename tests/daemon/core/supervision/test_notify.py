"""What systemd is told, over real sockets: by the notifier alone, and by a daemon."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.core.supervision.notify import STATUS_MOST, Notifier
from tests.support.processes import GROUP, LISTENERS, running, until
from tests.support.service_manager import Ear

pytestmark = pytest.mark.slow

STOPPER = str(Path(__file__).parents[3] / "support" / "stopped_threads.py")
STUCK = "journal's keeper of group bpm"


@pytest.fixture(params=["path", "abstract"])
def ear(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ear]:
    listening = Ear(tmp_path / "notify" if request.param == "path" else None)
    yield listening
    listening.close()


# --- the notifier alone -------------------------------------------------------------------------------------------


def test_each_message_is_what_sd_notify_says(ear: Ear) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": ear.name})
    before = time.monotonic_ns() // 1000
    notifier.reloading()
    notifier.ready("running")
    notifier.status("two\nlines")
    notifier.extend(1.5)
    notifier.progress()
    notifier.stopping("stopping")
    ear.until_heard("STOPPING", "1")
    said = [lines for _, lines in ear.messages]
    assert said[0].pop("RELOADING") == "1"
    assert before <= int(said[0].pop("MONOTONIC_USEC")) <= time.monotonic_ns() // 1000
    assert said[1:] == [
        {"READY": "1", "STATUS": "running"},
        {"STATUS": "two lines"},
        {"EXTEND_TIMEOUT_USEC": "1500000"},
        {"WATCHDOG": "1"},
        {"STOPPING": "1", "STATUS": "stopping"},
    ]


def test_a_status_is_said_when_it_is_news_and_fits_a_line(ear: Ear) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": ear.name})
    for text in ("a", "a", "b", "x" * 10_000):
        notifier.status(text)
    notifier.progress()
    ear.until_heard("WATCHDOG")
    assert ear.heard("STATUS")[:2] == ["a", "b"]
    assert len(ear.heard("STATUS")[2]) == STATUS_MOST


def test_what_systemd_set_is_not_passed_on_to_children(ear: Ear) -> None:
    environment = {"NOTIFY_SOCKET": ear.name, "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    notifier = Notifier(environment)
    assert notifier.watchdog_s == 2.0
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("microseconds", "process", "expected"),
    [("", "", None), ("0", "", None), ("500000", "", 0.5), ("500000", "1", None), ("soon", "", None)],
)
def test_the_watchdog_is_for_whom_it_names(microseconds: str, process: str, expected: float | None) -> None:
    assert Notifier({"WATCHDOG_USEC": microseconds, "WATCHDOG_PID": process}).watchdog_s == expected


def test_without_a_service_manager_nothing_happens(caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier({})
    assert not notifier.is_wanted
    notifier.ready("running")
    notifier.progress()
    assert not caplog.records


def test_a_service_manager_that_is_gone_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    with caplog.at_level(logging.WARNING):
        notifier.progress()
        notifier.progress()
    assert [record.getMessage() for record in caplog.records] == [
        "the service manager does not take messages: No such file or directory"
    ]


def test_an_address_of_another_kind_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    assert not Notifier({"NOTIFY_SOCKET": "vsock:2:1234"}).is_wanted
    assert "neither a path nor an abstract socket" in caplog.text


# --- a daemon -----------------------------------------------------------------------------------------------------


def configured(folder: Path, more: str = "") -> Path:
    file = folder / "beam.toml"
    file.write_text(GROUP + LISTENERS.format(api=0) + more)
    return file


@contextmanager
def stopped_threads(process: int) -> Iterator[None]:
    """All threads of a process but its first stand still."""
    pipe, command = subprocess.PIPE, [sys.executable, STOPPER, str(process)]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as stopper:
        try:
            assert stopper.stdout is not None
            assert stopper.stderr is not None
            if stopper.stdout.readline() != "stopped\n":
                why = stopper.stderr.read()
                assert "not permitted" in why, why
                assert os.environ.get("CI") != "true", why
                pytest.skip(f"threads of other processes cannot be stopped here: {why}")
            yield
        finally:
            stopper.kill()


def test_a_daemon_says_when_it_is_ready_how_it_is_and_when_it_stops(ear: Ear, state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    with running("run", str(configured(state_dir)), NOTIFY_SOCKET=ear.name) as run:
        ear.until_heard("READY", "1")
        run.until_said("taking readings")  # said before that it is ready, and read by a thread of the test
        assert ear.heard("EXTEND_TIMEOUT_USEC"), "the start may take as long as the database does"
        assert ear.heard("WATCHDOG") == [], "nobody asked for it"
        ear.until_heard("STATUS", "running: 0 triggers/s in, 0 committed, 0 readings/s; 0 readings wait")
        before = len(ear.heard("EXTEND_TIMEOUT_USEC"))
        assert run.end(signal.SIGTERM) == 0, run.said
        assert ear.heard("STOPPING") == ["1"]
        assert len(ear.heard("EXTEND_TIMEOUT_USEC")) >= before + 2, "for the commits, and for the store's end"


def test_a_daemon_without_its_database_waits_and_says_so(ear: Ear, tmp_path: Path) -> None:
    away = '\n[database]\ndsn = "postgresql://nobody@127.0.0.1:1/none"\n'
    with running("run", str(configured(tmp_path, away)), NOTIFY_SOCKET=ear.name, WATCHDOG_USEC="4000000") as run:
        ear.until_heard("READY")
        ear.until_heard("STATUS", "database away, readings wait: waits for the database")
        ear.until_heard("WATCHDOG", times=3)
        assert run.end(signal.SIGTERM) == 0, run.said


def test_without_a_journal_it_is_not_ready_before_its_database(ear: Ear, tmp_path: Path) -> None:
    away = '\n[database]\ndsn = "postgresql://nobody@127.0.0.1:1/none"\n\n[journal]\nmax_mib = 0\n'
    with running("run", str(configured(tmp_path, away)), NOTIFY_SOCKET=ear.name, WATCHDOG_USEC="4000000") as run:
        ear.until_heard("STATUS", "starting: waits for the database")
        ear.until_heard("EXTEND_TIMEOUT_USEC", "60000000", times=3)
        ear.until_heard("WATCHDOG", times=3)
        assert ear.heard("READY") == []
        assert run.end(signal.SIGTERM) == 0, run.said


def test_the_watchdog_hears_nothing_while_the_pipeline_is_stuck(ear: Ear, state_dir: Path) -> None:
    """The journal's thread stands still as before a disk that hangs; the event loop and the database are well."""
    state_dir.mkdir(parents=True)
    with running("run", str(configured(state_dir)), NOTIFY_SOCKET=ear.name, WATCHDOG_USEC="2000000") as run:
        run.until_said("taking readings at ")
        ear.until_heard("WATCHDOG", times=5)
        with stopped_threads(run.process.pid):
            run.until_said(f"{STUCK} without progress for [0-9]+ s.*: the watchdog is not fed")
            fed = len(ear.heard("WATCHDOG"))
            # The loop goes on: the status is told again and again.
            silent_since = time.monotonic()
            until(lambda: time.monotonic() - silent_since > 2.0, "the watchdog's time has passed")
            assert len(ear.heard("WATCHDOG")) <= fed + 1
        run.until_said("what was stuck moves again, the watchdog is fed")
        ear.until_heard("WATCHDOG", times=fed + 3)
        assert run.end(signal.SIGTERM) == 0, run.said
