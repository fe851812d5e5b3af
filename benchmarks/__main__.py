"""`python -m benchmarks` (`make bench`): measure, keep the JSON, print the report."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.report.terminal import markdown, print_report
from benchmarks.rounds.plan import MEASURES, PLANS
from daemon.tools.console import FILE_WIDTH, labelled, make_console
from schemas.checking.dsn import Backend, backend_of, wrong_dsn

FOLDER = Path(__file__).parent
KEPT = FOLDER.parent / ".benchmarks"
EPILOG = """\
examples:
  python -m benchmarks                        the writing, in less than ten minutes (make bench)
  python -m benchmarks --full                 and the reading, for longer: 2 hours, and 40 GB of disk for a while
  python -m benchmarks --only latency
  python -m benchmarks --only governor        with readers, held back and not; --only page: what the page costs
  python -m benchmarks --backend postgresql,mysql
  python -m benchmarks --dsn mysql://me@db:3306   your own server; what is made in it is removed again
  python -m benchmarks --folder /data/bench   on another disk
  python -m benchmarks --from FILE            the report of a run that was kept
  pytest-benchmark compare FILE FILE          two runs, side by side
"""


def main() -> int:
    """Run the command line; the exit code is pytest's."""
    options = _options()
    if options.report_from is None:
        kept = KEPT / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{options.plan}.json"
        kept.parent.mkdir(exist_ok=True)
        code = measure(options, kept)
        if code:
            return code
    else:
        kept = options.report_from
    found = json.loads(kept.read_text())
    console = make_console(file_width=FILE_WIDTH)
    print_report(found, console)
    console.print(labelled("kept", 14, kept), soft_wrap=True)
    if options.report is not None:
        options.report.write_text(markdown(found, _command(found["triggerlog"]["plan"], options.only)))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the daemon against the ceiling, and against the ways such data is written today.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", dest="plan", action="store_const", const="full", default="short", help="for longer")
    parser.add_argument("--plan", choices=sorted(PLANS), help="the set by its name; smoke only tries the benchmarks")
    parser.add_argument("--only", choices=MEASURES, help="one measure")
    parser.add_argument("--backend", type=_backends, metavar="NAMES", help="databases, e.g. postgresql,mysql; else all")
    parser.add_argument(
        "--dsn",
        type=_dsn,
        action="append",
        default=[],
        help="a server of yours to measure, instead of a throw-away one; repeat it",
    )
    parser.add_argument("--folder", type=Path, default=KEPT, help="folder on whose disk throw-away servers write")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report as Markdown, too")
    parser.add_argument("--from", dest="report_from", type=Path, metavar="FILE", help="report a run that was kept")
    options = parser.parse_args()
    named = [backend_of(dsn) for dsn in options.dsn]
    if len(set(named)) < len(named):
        parser.error("two DSNs name the same kind of database: measure one after the other")
    if options.backend and not set(named) <= set(options.backend):
        parser.error("a DSN names a database that --backend leaves out")
    return options


def _dsn(text: str) -> str:
    for problem in wrong_dsn(text):
        raise argparse.ArgumentTypeError(str(problem))
    return text


def _backends(text: str) -> list[Backend]:
    try:
        return [Backend(name) for name in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; there are {', '.join(Backend)}") from None


def measure(options: argparse.Namespace, kept: Path, plugins: Sequence[object] = ()) -> int:
    """Measure and keep the JSON; return pytest's exit code. options: plan, only, backend, dsn and folder."""
    files = [str(FOLDER / "measures" / f"test_{name}.py") for name in PLANS[options.plan].measures(options.only)]
    arguments = [
        *files,
        f"--rootdir={FOLDER.parent}",
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
    # A service manager or a shell that ends this ends it as Ctrl-C does: what was made in a server is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return int(pytest.main(arguments, plugins=list(plugins)))


def _command(plan: str, only: str | None) -> str:
    words = ["python -m benchmarks", {"short": "", "full": "--full"}.get(plan, f"--plan {plan}")]
    return " ".join([word for word in words if word] + ([f"--only {only}"] if only else []))


if __name__ == "__main__":
    sys.exit(main())
