"""`triggerlog bench`: measure the databases named, keep the figures, write the report and say what follows from it."""

import argparse
import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

import pytest
from pydantic import ValidationError
from pytest_benchmark.utils import get_commit_info
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from backends import open_store
from backends.base import StoreError
from benchmarks.command.choice import BASELINE, GOAL_HZ, advise, crash_safe, fastest, warn
from benchmarks.command.progress import BenchProgress
from benchmarks.command.report import report
from benchmarks.conditions.measure import scenarios_for
from benchmarks.conditions.scenarios import SCENARIOS
from benchmarks.load.workload import GROUP, LOGGER
from benchmarks.report.model import between, number, times
from benchmarks.report.render import render, text
from benchmarks.rounds.plan import MEASURES, PLANS
from benchmarks.rounds.summary import DAEMON, PAPER, UNVERSIONED, NoRun, Run, Way, run_of
from daemon.core.configuration import load_config
from daemon.tools.console import labelled, make_console
from schemas.batch import Layout
from schemas.checking.dsn import Backend, Feature, backend_of, require, supports, wrong_dsn
from schemas.checking.problems import without_passwords
from schemas.config import ConfigError, DatabaseConfig

PASSWORD = "TRIGGERLOG_PASSWORD"  # noqa: S105 - its name
"""Environment variable with the password of DSNs that name a user and have none."""
ROOT = Path(__file__).parents[2]
MAIN = (BASELINE, "daemon_rows", "daemon_arrays")
"""Ways that are shown where they were measured: where the paper began, and the daemon."""
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells have it."""


class Refused(Exception):
    """The command cannot do what was asked; the message is one line that says what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; every error is a line on stderr and exit code 1, never a traceback."""
    try:
        return _bench(_options(argv))
    except KeyboardInterrupt:
        return _stopped()
    except ConfigError as error:
        lines = [str(problem) for problem in error.problems]
    except (Refused, StoreError, NoRun, OSError) as error:
        lines = [str(error)]
    for line in lines:
        sys.stderr.write(f"triggerlog: {line}\n")
    return 1


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.command.bench", description="See triggerlog bench.")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--dsn", action="append", default=[])
    parser.add_argument("--backend", action="append", type=Backend, choices=list(Backend))
    parser.add_argument("--only", choices=MEASURES)
    parser.add_argument("--scenario", action="append", default=[], choices=list(SCENARIOS))
    parser.add_argument("--plan", choices=sorted(PLANS), default="short")
    parser.add_argument("--output", type=Path, default=Path("bench.html"))
    parser.add_argument("--folder", type=Path, default=Path(".benchmarks"))
    parser.add_argument("--from", dest="kept", type=Path)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args(argv)


def _bench(options: argparse.Namespace) -> int:
    if options.kept is not None:
        _report(options, options.kept)
        return 0
    _writable(options.output)
    kept = options.output.with_suffix(".json")
    before = _changed(kept)
    try:
        code = _measured(options, kept)
    except Refused as refused:
        if _changed(kept) == before:
            raise
        _report(options, kept)
        raise Refused(f"{refused}; the report has what was measured before") from None
    if code:
        return code
    _report(options, kept)
    return 0


def _changed(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def _report(options: argparse.Namespace, kept: Path) -> None:
    run = run_of(_read(kept))
    made = report(run, command(run))
    options.output.write_text(render(made), encoding="utf-8")
    if options.markdown is not None:
        options.markdown.write_text(text(made), encoding="utf-8")
    console = make_console(highlight=False)
    print_choice(run, console)
    for name, path in (("report", options.output), ("figures", kept)):
        console.print(labelled(name, 8, path.absolute()), soft_wrap=True)


def _read(path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"{path} cannot be read ({(error.strerror or str(error)).lower()})") from None
    except ValueError:
        raise Refused(f"{path} is not JSON; give the .json file of a report of `triggerlog bench`") from None
    if not isinstance(found, dict):
        raise NoRun(f"{path} has no figures of `triggerlog bench`; give the .json file of a report")
    return found


def _writable(path: Path) -> None:
    # Known now, and not after an hour of measuring.
    folder = path.absolute().parent
    if not folder.is_dir():
        raise Refused(f"there is no folder {folder} to write the report into; make it, or give another --output")
    if path.suffix == ".json":
        raise Refused(
            f"{path} is where the figures go; give the report another name, such as {path.with_suffix('.html')}"
        )
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise Refused(f"{path} cannot be written; give another --output")


# --- which databases -----------------------------------------------------------------------------------------------


def targets(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> dict[Backend, str | None]:
    """The databases to measure: their DSNs, with passwords, None for a throw-away server.

    Raises:
        Refused: a DSN is none, or two name the same kind of database.
        ConfigError: the FILE has something wrong with it.
    """
    named = [(dsn, environment.get(PASSWORD)) for dsn in options.dsn]
    found: dict[Backend, str | None] = {}
    if options.file is not None:
        loaded = load_config(options.file)
        if loaded.config.database.dsn is None:
            found[Backend.POSTGRESQL] = None  # the embedded server, which a throw-away one stands for
        else:
            named.append((loaded.config.database.dsn, loaded.password))
    for dsn, password in named:
        for problem in wrong_dsn(dsn):
            raise Refused(f"the DSN {problem}")
        backend = backend_of(dsn)
        if backend in found:
            raise Refused(f"two databases are {backend}: measure one after the other, each with an --output of its own")
        found[backend] = with_password(dsn, password)
    if found and options.backend:
        raise Refused("--backend chooses among throw-away servers: leave it out where a database is named")
    return found or dict.fromkeys(options.backend or list(Backend))


def with_password(dsn: str, password: str | None) -> str:
    """Put a password into a DSN that names a user and has none."""
    scheme, _, rest = dsn.partition("://")
    end = min((rest.find(mark) for mark in "/?#" if mark in rest), default=len(rest))
    user, at, hosts = rest[:end].rpartition("@")
    if password is None or not at or ":" in user:
        return dsn
    return f"{scheme}://{user}:{quote(password, safe='')}@{hosts}{rest[end:]}"


def check(dsn: str, folder: Path) -> None:
    """Check that a database accepts the connection, and that the user may make a schema; change nothing.

    Raises:
        StoreError: it does not; the message is one line.
    """

    async def look() -> None:
        store = open_store(
            DatabaseConfig.model_validate({"dsn": dsn, "schema": f"triggerlog_bench_{os.getpid()}"}),
            logger=LOGGER,
            groups={GROUP.name: GROUP},
            layouts={GROUP.name: Layout.ROWS},
            state_dir=folder,
        )
        try:
            await store.check()
        finally:
            await store.close()

    try:
        asyncio.run(look())
    except ValidationError as error:
        raise Refused(f"the DSN cannot be used: {error.errors(include_input=False)[0]['msg']}") from None


# --- measuring -----------------------------------------------------------------------------------------------------


class Plugin:
    """A plugin of pytest: it records the first error, and the commit of the source."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.left = False

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        """Record the first reason; later ones follow from it, such as a failed clean-up."""
        self.left = self.left or call.when == "teardown"
        if self.reason is None and call.excinfo is not None:
            self.reason = _one_line(call.excinfo.value)

    def pytest_benchmark_update_commit_info(self, commit_info: dict[str, object]) -> None:
        """Name our own commit: pytest-benchmark takes that of the folder the command was called in."""
        commit_info.clear()
        commit_info["id"] = UNVERSIONED
        if (ROOT / ".git").exists():
            with chdir(ROOT):
                commit_info.update(get_commit_info())  # type: ignore[no-untyped-call]


def _one_line(error: BaseException) -> str:
    words = str(error).strip().partition("\n")[0]
    return words if isinstance(error, StoreError) else f"{type(error).__name__}: {words.rstrip('.')}"


def _measured(options: argparse.Namespace, kept: Path) -> int:
    found = targets(options)
    if options.only == Feature.CONDITIONS and not any(supports(backend, Feature.CONDITIONS) for backend in found):
        require(next(iter(found)), Feature.CONDITIONS)
    for dsn in found.values():
        if dsn is not None:
            check(dsn, options.folder)
    options.backend = list(found)
    options.dsn = [dsn for dsn in found.values() if dsn is not None]
    plugin, output = Plugin(), io.StringIO()
    with BenchProgress(PLANS[options.plan], options.backend, options.only, options.scenario), redirect_stdout(output):
        try:
            code = measure(options, kept, [plugin])
        except Exception as error:
            # What pytest does not catch is, after Ctrl-C, the end of its servers.
            _failed(plugin.reason or _one_line(error), options.dsn, left=True)
    if code == pytest.ExitCode.INTERRUPTED:
        return _stopped()
    if code:
        _failed(plugin.reason or _last(output.getvalue()), options.dsn, left=plugin.left)
    return 0


def measure(options: argparse.Namespace, kept: Path, plugins: Sequence[object] = ()) -> int:
    """Measure and keep the JSON; return pytest's exit code. options: plan, only, backend, dsn and folder."""
    arguments = [
        str(ROOT / "benchmarks" / "measures" / "test_measures.py"),
        f"-k={' or '.join(f'test_{name}' for name in PLANS[options.plan].measures(options.only))}",
        f"--rootdir={ROOT}",
        "--capture=no",
        "--quiet",
        "--quiet",
        "--no-header",
        "--exitfirst",
        "--tb=short",
    ]
    arguments += ["--benchmark-enable", "--benchmark-quiet", f"--benchmark-json={kept}", "--timeout=0"]
    # After a failure it warns that there is nothing to keep, which hides the failure when warnings are errors.
    arguments += ["-W", "ignore::pytest_benchmark.logger.PytestBenchmarkWarning"]
    arguments += [f"--plan={options.plan}", f"--folder={options.folder}"]
    arguments += [f"--backend={backend}" for backend in options.backend or ()]
    arguments += [f"--dsn={dsn}" for dsn in options.dsn]
    arguments += [f"--scenario={each}" for each in options.scenario]
    # A service manager or a shell that ends this ends it as Ctrl-C does: what was made in a server is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return int(pytest.main(arguments, plugins=list(plugins)))


def _stopped() -> int:
    sys.stderr.write("triggerlog: stopped: servers are shut down, and nothing is left in the databases\n")
    return INTERRUPTED


def _failed(reason: str, dsns: Sequence[str], *, left: bool) -> NoReturn:
    # The reason may be a message of a driver, which may quote the DSN.
    for dsn in dsns:
        reason = reason.replace(dsn, without_passwords(dsn))
    where = "; schemas named triggerlog_bench_... may be left in the databases, to be dropped by hand" if left else ""
    raise Refused(f"the benchmarks ended: {reason}{where}")


def _last(output: str) -> str:
    lines = [line.strip(" !=") for line in output.splitlines() if line.strip(" !=")]
    return lines[-1] if lines else "pytest gives no reason"


# --- the summary on the terminal -------------------------------------------------------------------------------------


def print_choice(run: Run, console: Console) -> None:
    """Print the main figures, the advice and the warnings."""
    if run.ways:
        console.print(_table(run))
    for advice in advise(run):
        words = Text.assemble((f"{advice.need}. ", "bold"), advice.text)
        console.print(Padding(words, (0, 0, 1, 0)))
    for warning in warn(run):
        console.print(Text.assemble(("▲ ", "yellow"), (warning + ".", "yellow")))


def _table(run: Run) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("", "way", "triggers/s", "", f"times {GOAL_HZ:g} Hz", "crash safe"):
        right = column in ("triggers/s", f"times {GOAL_HZ:g} Hz")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for server in run.servers.values():
        name = server.name
        for way in main_ways(run, server.backend):
            rate = way.rate
            safe = "yes" if crash_safe(run, way) else "no"
            table.add_row(name, way.title, number(rate.median), between(rate), times(rate.median / GOAL_HZ), safe)
            name = ""
    return table


def main_ways(run: Run, backend: Backend) -> list[Way]:
    """The paper's baseline, the best crash safe way that commits each trigger alone, and the daemon; slowest first."""
    return sorted({way.slug: way for way in _main(run, backend)}.values(), key=lambda way: way.rate.median)


def _main(run: Run, backend: Backend) -> Iterator[Way]:
    ways = run.ways_of(backend)
    yield from (way for way in ways if way.slug in MAIN)
    alone = [way for way in ways if way.kind == PAPER and crash_safe(run, way)]
    if alone:
        yield max(alone, key=lambda way: way.rate.median)
    best = fastest(run, backend)
    if best is not None:
        yield best
    if not any(way.slug in MAIN and way.kind == DAEMON for way in ways):
        yield from (way for way in ways if way.kind == DAEMON)


# --- the command that repeats it -----------------------------------------------------------------------------------


ONLY = {"load": "CPU a trigger", "outages": "drain", "governor": "governor", "page": "page"}
"""Measures, and a group of the record that only the measure has."""


def command(run: Run) -> str:
    """What repeats a run, without passwords."""
    return " ".join(["triggerlog bench", *_words(run)])


def _words(run: Run) -> Iterator[str]:
    yield from {"short": [], "full": ["--full"]}.get(run.plan, [f"--plan {run.plan}"])
    measured = {"latency": run.latencies} | {name: run.groups.get(group) for name, group in ONLY.items()}
    measured["conditions"] = run.conditions
    if run.ways and not run.latencies:
        yield "--only throughput"
    elif not run.ways:
        yield from [f"--only {name}" for name, found in measured.items() if found][:1]
    yield from _scenarios(run)
    if all(server.own for server in run.servers.values()):
        if len(run.servers) < len(Backend):
            yield from (f"--backend {backend}" for backend in run.servers)
    else:
        yield from (f"--dsn '{_without(server.target)}'" for server in run.servers.values() if not server.own)


def _scenarios(run: Run) -> Iterator[str]:
    """Those of conditions, where they are others than those of the plan."""
    for backend in run.servers:
        found = dict.fromkeys(each.scenario for each in run.conditions if each.backend is backend)
        if found and tuple(found) != scenarios_for(backend, PLANS[run.plan], ()):
            yield from (f"--scenario {name}" for name in found)
            return


def _without(target: str) -> str:
    return target.replace(":***@", "@")


if __name__ == "__main__":
    sys.exit(main())
