"""Every command that the documents show is run: here, against a daemon, or by the test that is named here.

A command is a line of a `sh` block or an indented line that begins with a program, or, in a sentence, `make` or
`triggerlog` with something behind it. One that nobody runs fails `test_every_command_is_run`.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.main import get_command

from daemon.tools.cli import app
from tests.support.processes import LISTENERS, Daemon, free_port, running
from tests.support.servers import server_folder
from tests.test_documents import DOCUMENTS, ROOT

PROGRAM = re.compile(
    r"([A-Z_]+=\S+ )*(\.venv/bin/|/opt/triggerlog/\.venv/bin/)?(make|triggerlog|python|python3|curl) \S"
)
ANY_PROGRAM = re.compile(r"[.\w/]")


def commands_in(text: str) -> Iterator[str]:
    """Return the commands of a document, without comments and without the folder of the program."""
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = [line for line in blocks.replace("\\\n", " ").splitlines() if ANY_PROGRAM.match(line)]
    rest = re.sub(r"^(```+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    others = [*re.findall(r"^ {4}(\S.*)$", rest, re.MULTILINE), *re.findall(r"`([^`]+)`", rest)]
    for line in [*lines, *(" ".join(line.split()) for line in others if PROGRAM.match(" ".join(line.split())))]:
        command = " ".join(re.sub(r"(^|\s+)#.*", "", line).split())
        yield re.sub(r"^(\.venv/bin/|/opt/triggerlog/\.venv/bin/)", "", command)


SHOWN = {
    command: document.name
    for document in DOCUMENTS
    if document.parent.name != "decisions" and document.name != "CHANGELOG.md"
    for command in commands_in(document.read_text())
}

VERBATIM = (
    "check-config beam.toml",
    "schema beam.toml",
    "schema beam.toml --backend mysql",
    "simulate",
    "status beam.toml",
    "export beam.toml --last 30m --output beam.parquet",
    "export beam.toml --group bpm --from 2026-11-21T18:00 --to 2026-11-21T19:30 -o bpm.h5",
    "export beam.toml --instruments bpm_007,bpm_008 --channels x,y --last 2d -o two.csv.gz",
    "export beam.toml --run 12 --triggers 4000-4100 -o slip.csv",
    "folders add /magnets/current --column ampere:float64 --channel 1=Q1 --channel 2=Q2 beam.toml",
    "folders insert /magnets/current currents.csv beam.toml",
    "folders snapshot /magnets/current --at 2026-11-21T18:00",
    "folders history /magnets/current Q1 --since 2026-11-21 --json",
    "export beam.toml --folder /magnets/current --at 2026-11-21T18:00 -o currents.csv",
    "export beam.toml --folder /magnets/current --channels Q1,Q2 --last 7d -o two.parquet",
    "export beam.toml --folder /magnets/current --last 7d -o currents.parquet",
    'mark beam.toml "beam study began"',
    'mark beam.toml "valve 3 closed" --at 2026-11-21T18:00 --until 2026-11-21T18:20 --group bpm',
    "marks beam.toml --last 12h",
    "marks beam.toml --withdraw 6f1c8f0e-6d0b-4a3f-9f0a-0c6a5a1c2b3d",
    "readers start displays --kind newest --clients 10 --period 0.5 --deadline 0.2 beam.toml",
    "readers list",
    "readers stop displays beam.toml",
    "governor",
    "governor --commit-p99 50",
    "governor --off",
    "decimation plan beam.toml",
    "decimation list beam.toml",
    "retention plan beam.toml",
    "retention list beam.toml",
    "alarms beam.toml",
    "events beam.toml --last 12h --severity warning",
    "announce-run beam.toml --epoch 41",
    "announce-run beam.toml",
    "dead-letters list beam.toml",
    "dead-letters retry FILE",
    "dead-letters discard beam.toml --yes",
    "psql --program pg_dump beam.toml --format=custom --file=beam.dump --schema='triggerlog*'",
    "backup beam.toml beam.backup",
    "reconcile beam.toml",
)
"""Commands of triggerlog that run one after the other in a folder with a daemon; each has to succeed."""

SMALLER = {
    "simulate": "simulate --port {readings} --triggers 20 --rate 0",
    "status beam.toml": "status beam.toml --once",
    "export beam.toml --run 12 --triggers 4000-4100 -o slip.csv": (
        "export beam.toml --run 1 --triggers 1-10 -o slip.csv"
    ),
    "export beam.toml --folder /magnets/current --at 2026-11-21T18:00 -o currents.csv": (
        "export beam.toml --folder /magnets/current --at 2026-11-21T18:00 -o currents.csv --force"
    ),
    "export beam.toml --group bpm --from 2026-11-21T18:00 --to 2026-11-21T19:30 -o bpm.h5": (
        "export beam.toml --group bpm --from {yesterday} --to {tomorrow} -o bpm.h5"
    ),
    'mark beam.toml "beam study began"': 'mark beam.toml "beam study began" --id 6f1c8f0e-6d0b-4a3f-9f0a-0c6a5a1c2b3d',
}
"""What is run in the place of a command whose numbers are those of a site."""

PARSED = {"FILE": "beam.toml", "ID": "20261121-1800"}


def words_of(command: str) -> list[str]:
    return [PARSED.get(word, word) for word in shlex.split(command.removeprefix("triggerlog "))]


CONFIG = """
[[groups]]
name = "bpm"
count = 120
channels = [{ name = "x", unit = "mm" }, { name = "y", unit = "mm" }]

[folders]
serve = true
"""
CURRENTS = "channel,since,ampere\n1,1763596800000000000,118.5\n2,1763596800000000000,90.25\n"


def test_commands_succeed_against_a_daemon() -> None:
    """And each of them is still in the documents."""
    assert [command for command in VERBATIM if f"triggerlog {command}" not in SHOWN] == []
    with server_folder() as folder:
        file = folder / "beam.toml"
        file.write_text(CONFIG + LISTENERS.format(api=free_port()))
        (folder / "currents.csv").write_text(CURRENTS)
        with running("run", str(file)) as run:
            daemon = Daemon(run, file)
            now = datetime.now(UTC)
            days = {name: f"{now + timedelta(days=k):%Y-%m-%d}" for name, k in {"yesterday": -1, "tomorrow": 1}.items()}
            for command in VERBATIM:
                words = words_of(SMALLER.get(command, command).format(readings=daemon.readings, **days))
                if words[0] in ("readers", "governor", "folders") and "beam.toml" not in words:
                    words.append("beam.toml")
                with running(*words, cwd=folder) as done:
                    assert done.ended(120) == 0, f"{words}: {done.said}"
            assert run.end() == 0, run.said


# --- measures and mutants, run small ------------------------------------------------------------------------------

DRIVERS = "benchmarks.strategies.postgresql.compare_drivers"

SMALL = {
    'make bench ARGS="--only latency"': "triggerlog bench --plan smoke --only latency --backend postgresql",
    'make bench ARGS="--only load"': "triggerlog bench --plan smoke --only load --backend postgresql",
    f"python -m {DRIVERS}": f"python -m {DRIVERS} 0.05",
    'make fuzz ARGS="--only daemon --seed 7"': "python -m tests.fuzz --only daemon --minutes 0.2 --within 120 --seed 7",
}
"""What is shown, and what is run in its place. How long it takes is set by a plan and not by the machine."""


@pytest.mark.slow
@pytest.mark.parametrize("shown", SMALL)
def test_a_measure_runs_at_a_small_scale(shown: str, tmp_path: Path) -> None:
    assert shown in SHOWN
    program, *words = shlex.split(SMALL[shown])
    start = [sys.executable] if program == "python" else [sys.executable, "-m", "daemon"]
    output = ["--folder", str(tmp_path), "-o", str(tmp_path / "bench.html")] if "bench" in words else []
    done = subprocess.run([*start, *words, *output], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- by whom everything is run ------------------------------------------------------------------------------------

HERE = "tests/test_documents_commands.py"
NIGHTLY = "tests/nightly.py"
CLI = "tests/daemon/tools"
RUN_BY = {
    r"triggerlog run .*": ("tests/test_packaging.py", '"run"'),
    r"triggerlog dashboard .*": ("tests/page/test_page_of_a_daemon.py", '"dashboard"'),
    r"triggerlog demo.*|make run": (f"{CLI}/test_cli.py", '"demo"'),
    r"triggerlog drill.*": (f"{CLI}/drill/test_drill.py", '"drill"'),
    r"triggerlog (install-units|check-config /etc/\S+)": ("tests/systemd/test_units.py", '"install-units"'),
    r"triggerlog config-reference": ("tests/test_packaging.py", '"config-reference"'),
    r"triggerlog export .* --calibrated .*": (f"{CLI}/export/test_export_calibrated.py", "--calibrated"),
    r"triggerlog conditions (serve|-h).*": ("tests/daemon/conditions", "conditions"),
    r"triggerlog conditions .*": (f"{CLI}/conditions/test_conditions_command.py", '"attach"'),
    r"triggerlog interference.*": (f"{CLI}/test_interference_command.py", "interference"),
    r"triggerlog visits .*": (f"{CLI}/test_visits_command.py", '"run"'),
    r"triggerlog snapshots .*": ("tests/daemon/workloads/snapshots/test_command_line.py", "snapshots"),
    r"triggerlog tiers .*": ("tests/end_to_end/test_tiers.py", '"tiers"'),
    r"triggerlog (alarms|events) .*": (f"{CLI}/test_alarms_command.py", '"acknowledge"'),
    r"triggerlog dead-letters .*": (f"{CLI}/dead_letters/test_command.py", '"export"'),
    r"triggerlog psql .*": (f"{CLI}/test_psql_command.py", "pg_dump"),
    r"triggerlog restore .*": ("tests/end_to_end/test_backup.py", '"restore"'),
    r"triggerlog reconcile .*": (f"{CLI}/reconcile/test_command.py", "--removed"),
    r"triggerlog simulate .*": (f"{CLI}/simulate/test_simulate.py", "slip"),
    r"triggerlog status --daemon .*": ("tests/daemon/api/test_access.py", "token"),
    r"triggerlog bench .*": ("tests/benchmarks/command/test_bench.py", '"bench"'),
    r"curl .*calibrated=true.*": ("tests/end_to_end/test_calibrated.py", "calibrated"),
    r"curl .*payloadiovs.*": ("tests/daemon/conditions", "payloadiovs"),
    r"curl .*": ("tests/daemon/api/test_access.py", "Bearer"),
    r"make (setup|lint|test|test-old-readings|test-beside|test-page|test-benchmarks)": (".ci/run", "make test"),
    r"TRIGGERLOG_TEST_MONGODB_URL=\S+ make test|TMPDIR=\S+ make test|make test ARGS=.*": (".ci/run", "make test"),
    r"make bench ARGS=.*--only latency.*": (HERE, "--only latency"),
    r"make bench ARGS=.*--only (outages|throughput).*": ("tests/benchmarks/measures/test_outages.py", "smoke"),
    r"make bench ARGS=.*--only conditions.*": ("tests/benchmarks/conditions/test_measure.py", "smoke"),
    r"make bench ARGS=.*--only (governor|page).*": (NIGHTLY, '"governor"'),
    r"make bench ARGS=.*": ("tests/benchmarks/command/test_bench.py", "--markdown"),
    r"make bench-visits ARGS=.*": ("tests/benchmarks/visits/test_visits.py", "--quick"),
    r"make bench-folders ARGS=.*": (NIGHTLY, "make bench-folders"),
    r"make bench-tiers ARGS=.*|python -m benchmarks\.tiers\.run .*": (NIGHTLY, "make bench-tiers"),
    r"python -m benchmarks\.(folders|tiers|visits) FILE.json": ("tests/benchmarks", "main("),
    r"python -m benchmarks\.interference RECORD.json": ("tests", "benchmarks.interference"),
    r"make simulate-faults ARGS=.*": ("tests/simulation/test_simulation.py", "play(plan)"),
    r"make simulate-mutants ARGS=.*": (NIGHTLY, "make simulate-mutants"),
    r"make nightly ARGS=.*": ("tests/test_nightly.py", 'main(["good"]'),
    r"make test-crashes ARGS=.*": (NIGHTLY, "make test-crashes"),
    r"TRIGGERLOG_SOAK_S=600 make soak": (NIGHTLY, "make soak"),
    r"make [a-z-]+": ("tests/test_nightly.py", "test_every_target_is_run_by_ci_or_by_night"),
    r"systemctl .*|git clone .*": (NIGHTLY, "make test-systemd"),
}
"""By a pattern of commands: the file, or a folder of files, that runs them, and a word of it. The first that fits."""

NOT_OURS = r"(cat|mariadb|mariadb-dump|mariadb-backup|mongodump|mongorestore|openssl|tar|mv|cp|chown) .*"
"""Tools of others, shown with the names of a site."""


def is_run_here(command: str) -> bool:
    verbatim = {command.replace("FILE", "beam.toml") for command in VERBATIM}
    return command.removeprefix("triggerlog ").replace("FILE", "beam.toml") in verbatim or command in SMALL


def run_by(command: str) -> str | None:
    """Return the pattern that says who runs a command."""
    return next((pattern for pattern in RUN_BY if re.fullmatch(pattern, command)), None)


def named(text: str) -> bool:
    """Return true where a sentence names a command, and shows none of its arguments."""
    return (
        re.fullmatch(r"triggerlog [a-z-]+( [a-z|]+)?|triggerlog LOGGER reader|triggerlog [a-z-]+ --[a-z]+", text)
        is not None
    )


def test_every_command_is_run() -> None:
    left = [
        f"{document}: {command}"
        for command, document in SHOWN.items()
        if not (is_run_here(command) or named(command) or re.fullmatch(NOT_OURS, command) or run_by(command))
    ]
    assert left == [], "add each to VERBATIM or SMALL, which run it, or to RUN_BY"


def test_whoever_is_said_to_run_a_command_does() -> None:
    used = {run_by(command) for command in SHOWN}
    assert [pattern for pattern in RUN_BY if pattern not in used] == [], "no document shows such a command"
    for place, word in RUN_BY.values():
        path = ROOT / place
        files = path.rglob("*.py") if path.is_dir() else [path]
        assert any(word in file.read_text() for file in files), f"{word!r} in {place}"


def test_every_command_of_triggerlog_has_the_options_that_are_shown() -> None:
    root = get_command(app)
    for command in SHOWN:
        if not command.startswith("triggerlog ") or named(command) or command.endswith(("-h", "--help")):
            continue
        for part in command.split(" && ")[:1]:
            name, *words = words_of(part)
            found = root.commands[name]
            while words and words[0] in getattr(found, "commands", ()):
                found = found.commands[words.pop(0)]
            assert found.make_context(name, words), command
