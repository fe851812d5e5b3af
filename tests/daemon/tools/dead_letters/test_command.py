"""`triggerlog dead-letters`: the folder as an operator sees it, and files that are there already."""

import csv
import json
import re
import shutil
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar

import numpy as np
import pytest

from daemon.client.api.asking import DaemonBusy, ask_daemon
from daemon.client.api.reach import Reach
from daemon.core.configuration import load_config
from daemon.pipeline.closed_blocks import aside_parts
from daemon.pipeline.dead_letters import DeadLetters, Outcome, Reason, folder_of
from daemon.pipeline.files import Amount
from daemon.tools.dead_letters.causes import lines_of
from daemon.tools.dead_letters.export import export_npz
from daemon.tools.dead_letters.retry import Retry
from daemon.tools.reconcile.survey import Survey
from schemas.batch import Aside, ClosedBlock
from schemas.readings import InstrumentGroup
from schemas.states import AsideReason
from tests.support.batches import batch_of, readings_of
from tests.support.disks import REAL
from tests.support.memory.store import MemoryStore
from tests.support.one_group import group_in, write_one_group
from tests.support.processes import free_port, here


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration; `kept` is what its daemon keeps."""
    return write_one_group(tmp_path, channels=("x", "y"))


def letters_of(file: Path) -> DeadLetters:
    """The dead letters, opened as a daemon does."""
    letters = DeadLetters(folder_of(file.parent / "state", "bpm"), group_in(file), REAL)
    assert letters.open() == []
    return letters


async def keep_another(letters: DeadLetters, group: InstrumentGroup) -> Amount:
    """Keep one more; return how much there is then."""
    block = batch_of(group, 1, readings_of(group, np.array([9]), np.array([3000]), np.random.default_rng(2)))
    await letters.keep(letters.address([(block, Reason("out of range"))], 2))
    return letters.amount


@pytest.fixture
async def kept(file: Path) -> DeadLetters:
    """Two dead letters, as a daemon that runs holds them: a trigger, and two readings that were set aside."""
    group = group_in(file)
    rng = np.random.default_rng(1)
    readings = readings_of(group, np.array([7, 8]), np.array([1000, 2000]), rng)
    block = batch_of(group, 1, readings[:1])
    aside = Aside(
        readings=readings[1, :2], run=np.array([0, 4], np.int32), reason=np.full(2, int(AsideReason.CONFLICT), np.uint8)
    )
    letters = letters_of(file)
    parts = [
        (part, Reason("another is there")) for part, _ in aside_parts(ClosedBlock(**{**block.parts, "aside": aside}))
    ]
    await letters.keep(letters.address([(block, Reason("out of range")), *parts], 1))
    return letters


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", ["letters.npz", "letters.csv"])
def test_an_export_overwrites_nothing_unless_it_is_told_to(file: Path, tmp_path: Path, name: str) -> None:
    to = tmp_path / name
    to.write_text("the only copy of something")
    done = here("dead-letters", "export", str(file), "--to", str(to))
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "is there already" in line
    assert "--force" in line
    assert to.read_text() == "the only copy of something"
    assert here("dead-letters", "export", str(file), "--to", str(to), "--force").returncode == 0
    assert to.stat().st_size > 100


@pytest.mark.usefixtures("kept")
def test_what_was_set_aside_is_listed_and_exported(file: Path, tmp_path: Path) -> None:
    listed = [line.partition(";")[0] for line in here("dead-letters", "list", str(file)).stdout.splitlines()]
    assert listed[0] == "bpm: 1 letter, 1 trigger, 3 readings"
    assert "bpm: 1 letter, 2 readings (for no trigger that is known)" in listed
    assert "total: 2 letters, 1 trigger, 5 readings (2 of them for no trigger that is known)" in listed
    trigger, aside = json.loads(here("dead-letters", "list", str(file), "--json").stdout)
    assert (trigger["run"], trigger["trigger"], trigger["readings"], trigger["aside"]) == (1, 7, 3, False)
    assert (aside["run"], aside["trigger"], aside["readings"], aside["aside"]) == (None, None, 2, True)
    shown = here("dead-letters", "list", str(file)).stdout
    assert "another is there" in " ".join(shown.split())
    assert shown.splitlines()[-2:] == [
        f"Fix the cause, then: triggerlog dead-letters retry {file}",
        f"What was set aside no database takes: triggerlog dead-letters export {file} writes it to a file",
    ]
    here("dead-letters", "export", str(file), "--to", str(tmp_path / "a.csv"))
    rows = list(csv.reader((tmp_path / "a.csv").read_text().splitlines()))[1:]
    assert [row[:3] for row in rows] == [
        ["1", "7", "0"],
        ["1", "7", "1"],
        ["1", "7", "2"],
        ["0", "8", "0"],
        ["4", "8", "1"],
    ]
    here("dead-letters", "export", str(file), "--to", str(tmp_path / "a.npz"))
    with np.load(tmp_path / "a.npz") as found:
        assert found["bpm/readings"]["run"].tolist() == [1, 1, 1, 0, 4]
        assert found["bpm/letter"].tolist() == [0, 0, 0, 1, 1]
        assert len(found["bpm/ledger"]) == 1


@pytest.mark.usefixtures("kept")
def test_discarding_says_what_a_retry_may_store_and_then_deletes_all(file: Path) -> None:
    refused = here("dead-letters", "discard", str(file))
    assert refused.stderr == (
        "triggerlog: this would delete 5 readings for good, 3 of which `retry` may still store;"
        " add --yes to delete them\n"
    )
    for said in ("5 readings of 1 trigger", "nothing was"):
        done = here("dead-letters", "discard", str(file), "--yes")
        assert (done.returncode, done.stdout) == (0, f"bpm: {said} discarded\n")
    assert here("dead-letters", "list", str(file)).stdout == "There are no dead letters.\n"


async def test_letters_are_listed_by_their_cause(file: Path) -> None:
    """A line a cause with the amounts and spans, whatever the database said of each row."""
    group = group_in(file)
    letters = letters_of(file)
    rng = np.random.default_rng(3)
    for number in range(1, 1001):
        block = batch_of(group, number, readings_of(group, np.array([number]), np.array([number * 1000]), rng))
        cause = "refuses: check (23514)" if number % 10 else "refuses: out of range at row ... (22003)"
        await letters.keep(letters.address([(block, Reason(cause, f"Failing row contains ({number})."))], number))
    shown = here("dead-letters", "list", str(file)).stdout.splitlines()
    kept = r"kept \S+ \S+Z( to \S+ \S+Z)?"
    expected = [
        rf"bpm: 900 letters, 900 triggers, 2,700 readings; triggers 1 to 999 of run 1; {kept}",
        r"    refuses: check \(23514\)",
        r"    for example trigger 1 of run 1: Failing row contains \(1\)\.",
        rf"bpm: 100 letters, 100 triggers, 300 readings; triggers 10 to 1000 of run 1; {kept}",
        r"    refuses: out of range at row \.\.\. \(22003\)",
        r"    for example trigger 10 of run 1: Failing row contains \(10\)\.",
        r"total: 1,000 letters, 1,000 triggers, 3,000 readings",
        r"Fix the cause, then: triggerlog dead-letters retry .*",
    ]
    assert [bool(re.fullmatch(pattern, line)) for pattern, line in zip(expected, shown, strict=True)] == [True] * 8
    one = json.loads(here("dead-letters", "list", str(file), "--json").stdout)[16]
    assert (one["reason"], one["detail"]) == ("refuses: check (23514)", "Failing row contains (17).")


async def test_the_total_counts_the_triggers_of_each_group(file: Path) -> None:
    """The same numbers are other triggers there: runs are those of a group."""
    group = group_in(file)
    letters = letters_of(file)
    block = batch_of(group, 1, readings_of(group, np.array([7]), np.array([1000]), np.random.default_rng(3)))
    await letters.keep(letters.address([(block, Reason("out of range"))], 1))
    folder = file.parent / "state" / "dead-letters"
    shutil.copytree(folder / "bpm", folder / "toroid")
    other = DeadLetters(folder / "toroid", group, REAL)
    other.look()
    *_, total = lines_of([("bpm", letters.pending), ("toroid", other.pending)])
    assert total == "total: 2 letters, 2 triggers, 6 readings"


@pytest.mark.parametrize("command", [["list"], ["export", "--to", "{to}"], ["discard"]])
async def test_who_only_reads_leaves_the_files_to_the_daemon(
    file: Path, tmp_path: Path, kept: DeadLetters, command: list[str]
) -> None:
    name, *options = (word.format(to=tmp_path / "a.csv") for word in command)
    done = here("dead-letters", name, str(file), *options)
    assert done.returncode == (name == "discard"), done.stderr
    assert await keep_another(kept, group_in(file)) == letters_of(file).amount


async def test_a_reconciliation_without_an_answer_of_the_daemon_leaves_the_files_to_it(
    file: Path, kept: DeadLetters
) -> None:
    loaded = load_config(file)
    section = loaded.config.groups[0]
    survey = Survey(
        loaded,
        MemoryStore({"bpm": section.group()}),
        daemon=Reach(url=f"http://127.0.0.1:{free_port()}", token=None),
        within_s=1,
    )
    assert (await survey.of_group(section, lambda name: None)).dead == kept.amount
    assert await keep_another(kept, group_in(file)) == letters_of(file).amount


class Busy(BaseHTTPRequestHandler):
    """A daemon's API that lets every other request wait for longer than the command does."""

    asked: ClassVar[list[str]] = []
    held = Event()

    def _answer(self) -> None:
        self.asked.append(self.command)
        count = len(self.asked)
        if count % 2:
            self.held.wait(60)
            return
        outcome = Outcome(letters=9, committed=count, readings=3 * count, running=count < 6)
        body = json.dumps({"bpm": asdict(outcome)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - so the base class names them

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_daemon_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.tools.dead_letters.retry.PATIENCE_S", 1.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        Thread(target=server.serve_forever).start()
        daemon = Reach(url=f"http://127.0.0.1:{server.server_port}", token=None)
        try:
            with pytest.raises(DaemonBusy, match=r"the daemon at \S+ does not answer in time"):
                ask_daemon(daemon, "GET", "/", patience_s=1.0)
            Busy.asked.clear()
            retry = Retry()
            retry.by_daemon(daemon, "/api/v1/dead-letters/retry")
        finally:
            Busy.held.set()
            server.shutdown()
    assert Busy.asked == ["POST", "POST", "GET", "GET", "GET", "GET"]
    assert (retry.outcomes["bpm"].committed, retry.outcomes["bpm"].running) == (6, False)


def test_a_group_may_have_any_name_in_an_archive(file: Path, tmp_path: Path) -> None:
    like = group_in(file)
    groups = [replace(like, name=name) for name in ("about", "file", "bpm", "bpm_ledger")]
    letters = [(group, DeadLetters(tmp_path / group.name, group, REAL)) for group in groups]
    assert export_npz(tmp_path / "a.npz", letters).readings == 0
    with np.load(tmp_path / "a.npz") as found:
        assert set(json.loads(str(found["about"]))) == {"about", "file", "bpm", "bpm_ledger"}
        assert [len(found[f"{group.name}/readings"]) for group in groups] == [0, 0, 0, 0]
