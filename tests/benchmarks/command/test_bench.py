"""`triggerlog bench` as an operator runs it, against a real server."""

import asyncio
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from rich.console import Console

from benchmarks.command.bench import Refused, command, main, main_ways, print_choice, targets, with_password
from benchmarks.command.progress import Measure, TimeLeft, expected
from benchmarks.measures.contenders import measured
from benchmarks.rounds.plan import PLANS
from benchmarks.rounds.summary import run_of
from daemon.tools.console import minutes
from schemas.checking.dsn import Backend
from tests.benchmarks.report.test_html import Reader
from tests.support.kept_run import LATENCIES, POSTGRESQL, SERVERS, kept, server
from tests.support.processes import here, triggerlog

PG, MARIA = "postgresql://me@db.example:5432/test", "mysql://me@db.example:3306"


def options(*dsns: str, file: Path | None = None, backend: list[Backend] | None = None) -> Namespace:
    return Namespace(dsn=list(dsns), file=file, backend=backend)


class TestTargets:
    def test_nothing_named_is_a_throwaway_server_of_each(self) -> None:
        assert targets(options(), {}) == dict.fromkeys(Backend)
        assert targets(options(backend=[Backend.MYSQL]), {}) == {Backend.MYSQL: None}

    def test_only_what_is_named_is_measured(self) -> None:
        assert targets(options(MARIA, PG), {}) == {Backend.MYSQL: MARIA, Backend.POSTGRESQL: PG}

    def test_the_password_is_taken_from_the_environment(self) -> None:
        found = targets(options(PG), {"TRIGGERLOG_PASSWORD": "p@ss/word"})
        assert found == {Backend.POSTGRESQL: "postgresql://me:p%40ss%2Fword@db.example:5432/test"}

    @pytest.mark.parametrize(
        ("dsn", "with_it"),
        [
            ("postgresql://me@/db?host=/run/pg", "postgresql://me:x@/db?host=/run/pg"),
            ("mongodb://me@a:1,b:2/?replicaSet=r", "mongodb://me:x@a:1,b:2/?replicaSet=r"),
            ("mysql://me:own@db:3306", "mysql://me:own@db:3306"),
            ("mysql://db:3306", "mysql://db:3306"),
        ],
    )
    def test_a_password_goes_where_a_user_has_none(self, dsn: str, with_it: str) -> None:
        assert with_password(dsn, "x") == with_it
        assert with_password(dsn, None) == dsn

    def test_a_configuration_names_its_own_with_its_password(self, tmp_path: Path) -> None:
        (tmp_path / "word").write_text("s3cret\n")
        file = tmp_path / "beam.toml"
        group = '[[groups]]\nname = "bpm"\ncount = 2\nchannels = [{ name = "a", dtype = "float64" }]\n'
        file.write_text(f'{group}[database]\ndsn = "{MARIA}"\npassword_file = "word"\n')
        found = targets(options(PG, file=file), {"TRIGGERLOG_PASSWORD": "other"})
        assert found == {
            Backend.POSTGRESQL: "postgresql://me:other@db.example:5432/test",
            Backend.MYSQL: "mysql://me:s3cret@db.example:3306",
        }
        file.write_text(group)
        assert targets(options(file=file), {}) == {Backend.POSTGRESQL: None}, "the embedded server"

    @pytest.mark.parametrize(
        ("given", "line"),
        [
            (options(PG, PG), "two databases are postgresql: measure one after the other"),
            (options("oracle://me:s3cret@db"), "'oracle' is not a database this version knows"),
            (options(PG, backend=[Backend.MYSQL]), "--backend chooses among throw-away servers"),
        ],
    )
    def test_what_is_refused(self, given: Namespace, line: str) -> None:
        with pytest.raises(Refused, match=line) as refused:
            targets(given, {})
        assert "s3cret" not in str(refused.value)


class TestTimeLeft:
    def test_the_plan_counts_until_a_step_is_done_and_what_it_took_then(self) -> None:
        time_left = TimeLeft({"a": Measure(steps=3, seconds=10), "b": Measure(steps=2, seconds=5)})
        assert time_left.seconds(0) == 40
        time_left.begin("a", 100)
        assert time_left.seconds(104) == 36
        assert time_left.seconds(150) == 30, "a step that takes longer than thought adds nothing to what is left"
        time_left.begin("a", 120)
        assert time_left.seconds(120) == 2 * 20 + 10
        time_left.begin("b", 140)
        assert time_left.seconds(140) == 20 + 10
        time_left.measures["b"].steps = 1
        time_left.end(141)
        assert time_left.seconds(141) == 20

    def test_it_is_never_less_than_nothing(self) -> None:
        time_left = TimeLeft({"a": Measure(steps=1, seconds=1)})
        for now in range(4):
            time_left.begin("a", now)
        assert time_left.seconds(9) == 0

    def test_what_is_left_out_has_no_steps(self) -> None:
        plan, backends = PLANS["full"], list(Backend)
        everything, latency = expected(plan, backends, None), expected(plan, backends, "latency")
        assert min(measure.steps for measure in everything.values()) > 0
        assert {name: measure.steps > 0 for name, measure in latency.items()} == {
            "warm-up": False,
            "throughput": False,
            "latency": True,
            "load": False,
            "outages": False,
            "governor": False,
            "page": False,
            "conditions": False,
        }
        assert expected(plan, [Backend.MYSQL], None)["load"].steps == 0
        assert expected(plan, [Backend.MYSQL], None)["outages"].steps == 0
        assert expected(plan, [Backend.MONGODB], "throughput")["throughput"].steps > 0
        assert expected(PLANS["short"], backends, None)["page"].steps == 0
        assert expected(PLANS["short"], backends, "page")["page"].steps > 0
        assert expected(PLANS["short"], backends, None)["conditions"].steps == 0
        few = expected(PLANS["short"], backends, "conditions", ["tiny"])["conditions"].steps
        assert 0 < few < expected(PLANS["short"], backends, "conditions")["conditions"].steps

    def test_a_time_is_read_as_minutes_and_seconds(self) -> None:
        assert (minutes(0), minutes(59.6), minutes(200)) == ("0:00", "1:00", "3:20")


class TestSaid:
    @pytest.mark.parametrize(
        ("report", "line"),
        [
            (kept(), "triggerlog bench"),
            (kept(plan="full"), "triggerlog bench --full"),
            (kept(plan="smoke"), "triggerlog bench --plan smoke"),
            (kept(LATENCIES), "triggerlog bench --only latency"),
            (
                kept(POSTGRESQL, {"postgresql": SERVERS["postgresql"]}),
                "triggerlog bench --only throughput --backend postgresql",
            ),
            (
                kept(None, {"mysql": server("mariadb", "11", own=False, target="mysql://me:***@db:3306")}),
                "triggerlog bench --dsn 'mysql://me@db:3306'",
            ),
        ],
    )
    def test_the_command_that_repeats_it(self, report: dict[str, Any], line: str) -> None:
        assert command(run_of(report)) == line

    def test_the_main_figures_and_the_choice(self) -> None:
        console = Console(width=110, record=True, file=io.StringIO(), color_system=None)
        run = run_of(kept())
        print_choice(run, console)
        said = console.export_text()
        for words in (
            "triggerlog, arrays",
            "16,660 to 17,340",
            "Highest rate, crash safe. ",
            "▲ “10 threads on one connection”",
        ):
            assert words in said
        slugs = [way.slug for way in main_ways(run, Backend.POSTGRESQL)]
        assert slugs == ["insert_each_table", "one_copy", "daemon_rows", "daemon_arrays"]


def benched(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program that `triggerlog bench` becomes, in this process."""
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()) as failed:
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), failed.getvalue())


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a command that failed as it should."""
    assert done.returncode == 1, done
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("triggerlog: ")
    return lines[0]


class TestRefused:
    def test_help_has_examples(self) -> None:
        assert "triggerlog bench --from bench.json" in here("bench", "--help").stdout.partition("Examples")[2]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--from", "nowhere.json"], "nowhere.json cannot be read (no such file or directory)"),
            (["--from", "pyproject.toml"], "pyproject.toml is not JSON"),
            (["--output", "/nowhere/at/all.html"], "there is no folder /nowhere/at to write the report into"),
            (["--output", "figures.json"], "figures.json is where the figures go"),
            (["--dsn", "oracle://me:s3cret@db"], "'oracle' is not a database this version knows"),
            (["--full", "--plan", "smoke"], "two different sets"),
            (["nowhere.toml"], "nowhere.toml"),
        ],
    )
    def test_a_line_that_names_the_mend(self, arguments: list[str], words: str) -> None:
        # The command refuses one of them itself, and becomes the program for the others; one is tried with all of that.
        run = {"--full": partial(here, "bench"), "nowhere.toml": partial(triggerlog, "bench")}.get(
            arguments[0], benched
        )
        line = refused(run(*arguments))
        assert words in line
        assert "s3cret" not in line

    def test_what_is_no_kept_run(self, tmp_path: Path) -> None:
        (tmp_path / "other.json").write_text("{}")
        line = refused(benched(f"--from={tmp_path / 'other.json'}", f"--output={tmp_path / 'x.html'}"))
        assert "this version of `triggerlog bench` did not write that file" in line
        assert not (tmp_path / "x.html").exists()

    def test_nobody_listens(self, tmp_path: Path) -> None:
        line = refused(benched("--dsn", "postgresql://me:s3cret@127.0.0.1:1/db", f"--output={tmp_path / 'x.html'}"))
        assert "127.0.0.1:1" in line
        assert "s3cret" not in line


@pytest.fixture
async def database(postgresql_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgresql_dsn)
    # Other tests leave theirs in the same server.
    for name in await schemas(connection):
        await connection.execute(f"DROP SCHEMA {name} CASCADE")
    yield connection
    await connection.close()


async def schemas(database: asyncpg.Connection) -> list[str]:
    found = await database.fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'triggerlog_bench%'")
    return [row["nspname"] for row in found]


async def bench(*arguments: str, timeout_s: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(triggerlog, "bench", *arguments, timeout_s=timeout_s, **environment)


async def test_a_wrong_password_is_one_line_before_anything_runs(
    database: asyncpg.Connection, postgresql_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.execute("DROP ROLE IF EXISTS bench_guest; CREATE ROLE bench_guest LOGIN PASSWORD 'right'")
    hba = Path(await database.fetchval("SHOW hba_file"))
    before = hba.read_text()  # noqa: ASYNC240
    hba.write_text(f"local all bench_guest scram-sha-256\nhost all bench_guest all scram-sha-256\n{before}")  # noqa: ASYNC240
    try:
        await database.execute("SELECT pg_reload_conf()")
        dsn = postgresql_dsn.replace("postgres@", "bench_guest@")
        await until_refused(dsn)
        report = tmp_path / "report.html"
        wrong = refused(await bench("--dsn", dsn, "-o", str(report), TRIGGERLOG_PASSWORD="s3cret"))
        assert 'password authentication failed for user "bench_guest"' in wrong
        assert "s3cret" not in wrong
        monkeypatch.setenv("TRIGGERLOG_PASSWORD", "right")
        right = refused(await asyncio.to_thread(benched, "--dsn", dsn, f"--output={report}"))
        assert "user 'bench_guest' may not create schema 'triggerlog_bench_" in right
        assert not report.exists()
        assert await schemas(database) == []
    finally:
        hba.write_text(before)  # noqa: ASYNC240
        await database.execute("SELECT pg_reload_conf()")


def test_a_wrong_password_for_mariadb_is_one_line(
    mariadb_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIGGERLOG_PASSWORD", "s3cret")
    dsn = mariadb_dsn.replace("root@", "nobody@")
    line = refused(benched("--dsn", dsn, f"--output={tmp_path / 'x.html'}"))
    assert "Access denied for user 'nobody'" in line
    assert dsn in line
    assert "s3cret" not in line


async def until_refused(dsn: str) -> None:
    """Until the server has read its file again."""
    async with asyncio.timeout(60):
        while True:
            try:
                connection = await asyncpg.connect(dsn, password="wrong")
            except asyncpg.InvalidPasswordError:
                return
            await connection.close()


@pytest.mark.slow
async def test_it_measures_a_server_and_leaves_nothing_in_it(
    database: asyncpg.Connection, postgresql_dsn: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    folder = f"--folder={tmp_path / 'bench'}"
    arguments = ["--plan=smoke", "--only=throughput", "--dsn", postgresql_dsn, folder]
    done = await bench(*arguments, "-o", str(report), timeout_s=500)
    assert done.returncode == 0, done.stderr
    assert await schemas(database) == []
    assert f"report   {report}" in done.stdout
    assert "Highest rate, crash safe." in done.stdout
    read = Reader(report.read_text())
    assert "triggerlog, arrays" in read.text
    assert "Distributions of 1/dt" in read.text
    assert "triggerlog bench --plan smoke --only throughput --dsn" in read.text
    run = run_of(json.loads(report.with_suffix(".json").read_text()))
    assert not run.servers[Backend.POSTGRESQL].own
    assert {way.slug for way in run.ways} == {c.slug for c in measured(Backend.POSTGRESQL, PLANS["smoke"])}
    assert all(sum(way.counts) > 0 for way in run.ways)

    again = tmp_path / "again.html"
    from_kept = benched(
        "--from", str(report.with_suffix(".json")), "--output", str(again), "--markdown", str(again) + ".md"
    )
    assert from_kept.returncode == 0, from_kept.stderr
    assert again.read_text() == report.read_text()
    assert "**Ways on PostgreSQL" in Path(f"{again}.md").read_text()  # noqa: ASYNC240


@pytest.mark.slow
async def test_ctrl_c_ends_it_with_one_line_and_nothing_left(
    database: asyncpg.Connection, postgresql_dsn: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    arguments = ["--plan=short", "--only=latency", "--dsn", postgresql_dsn, f"--folder={tmp_path / 'bench'}"]
    with Terminal("bench", *arguments, "-o", str(report)) as terminal:
        await asyncio.to_thread(terminal.until, lambda said: "window 1, postgresql-" in said and "left" in said)
        assert len(await schemas(database)) >= 1, "it is under way"
        children = psutil.Process(terminal.process.pid).children(recursive=True)
        assert children, "a daemon is measured"
        terminal.interrupt()
        await asyncio.to_thread(terminal.until, lambda said: "triggerlog: stopped" in said)
        assert await asyncio.to_thread(terminal.process.wait, 60) == 130
    assert "Traceback" not in terminal.said
    assert await schemas(database) == []
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert not report.exists()
    assert list((tmp_path / "bench").iterdir()) == []


class Terminal:
    """A command at a terminal of its own, as an operator has it."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "COLUMNS": "160", "LINES": "40", "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "daemon", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        self.said = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._ours)

    def interrupt(self) -> None:
        """What Ctrl-C does: the command and all it has started are told."""
        os.killpg(self.process.pid, signal.SIGINT)

    def until(self, said: Callable[[str], bool], timeout_s: float = 150) -> None:
        """Read until something was said."""
        deadline = time.monotonic() + timeout_s
        while not said(self.said):
            assert time.monotonic() < deadline, self.said[-2000:]
            if select.select([self._ours], [], [], 0.1)[0]:
                self.said += os.read(self._ours, 65536).decode(errors="replace")
