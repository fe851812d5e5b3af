"""`python -m benchmarks.visits.run` (`make bench-visits`): measure all conditions by turns, keep JSON and report."""

import argparse
import math
import os
import platform
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from backends.base import StoreError
from benchmarks.report.model import counted, number
from benchmarks.report.render import render
from benchmarks.rounds.rounds import print_line
from benchmarks.servers.base import fdatasync_ms
from benchmarks.servers.small import Running, running
from benchmarks.visits.plan import SERVERS, Check, Comparison, Group, Measured, planned
from benchmarks.visits.report import comparison_report
from benchmarks.visits.turns import Turns, facts_of, finished, measure, set_up
from daemon.core.process.processor import processor
from schemas.checking.dsn import Backend
from schemas.visits.survey import Survey
from schemas.visits.tables import IndexMode

# --- checks before measuring -----------------------------------------------------------------------------------------

WRITTEN = {"DIAObject": "objects", "DIASource": "sources", "DIAForcedSource": "forced"}
"""Tables that only grow, and the counts of a visit that say by how much."""
TOLERANCE = 0.02
"""How far a run may be from the formula, as a fraction, beyond the chance of its sky."""


def written(run: Measured) -> dict[str, int]:
    """Rows that a run's visits wrote, by table."""
    return {table: sum(getattr(visit, count) for visit in run.run.visits) for table, count in WRITTEN.items()}


def tolerance(survey: Survey) -> float:
    """How far a run may be from the formula, as a fraction.

    The formula knows where a run looked, and not how many variables its sky has there: a small sky has few.
    """
    return TOLERANCE + 2 / math.sqrt(max(1, survey.variables_in_all))


def checked(runs: Sequence[Measured]) -> Iterator[Check]:
    """Compare the runs of a group with each other, with what they stored, and with the formula."""
    for alike in _alike(runs).values():
        yield from _same(alike)
    for run in runs:
        yield from _stored(run)


def _alike(runs: Sequence[Measured]) -> Mapping[tuple[object, ...], list[Measured]]:
    """Runs that have to write the same rows: tiles widen the area that is read, and so what is forced."""
    found: dict[tuple[object, ...], list[Measured]] = {}
    for run in runs:
        settings = run.run.settings
        found.setdefault((settings.survey.model_dump_json(), settings.tiles), []).append(run)
    return found


def _same(runs: Sequence[Measured]) -> Iterator[Check]:
    first, *others = runs
    visits = {visit.visit: visit for visit in first.run.visits}
    different = []
    for run in others:
        for visit in run.run.visits:
            other = visits.get(visit.visit)
            if other and any(getattr(visit, count) != getattr(other, count) for count in WRITTEN.values()):
                different.append(f"{run.backend} {run.condition} at visit {visit.visit}")
                break
    what = f"{first.group}, {first.run.settings.tiles} x {first.run.settings.tiles} tiles"
    if different:
        where = f"{first.backend} {first.condition}"
        yield Check(passed=False, result=f"{what}: rows differ from those of {where} in {'; '.join(different)}.")
    elif others:
        total = sum(written(first).values())
        result = f"{what}: all {len(runs)} conditions wrote the same {total:,} rows, visit by visit."
        yield Check(passed=True, result=result)


def _stored(run: Measured) -> Iterator[Check]:
    name = f"{run.group}, {run.backend} {run.condition}"
    counts = written(run)
    for table, rows in run.run.counts.items():
        if table not in counts:
            continue
        dropped = run.run.settings.index_mode is IndexMode.PARTITIONED and rows < counts[table]
        if rows != counts[table] and not dropped:
            result = f"{name}: {table} has {rows:,} rows, and {counts[table]:,} were written."
            yield Check(passed=False, result=result)
        expected = run.run.expected.get(table)
        if expected and abs(counts[table] / expected - 1) > tolerance(run.run.settings.survey):
            off = 100 * (counts[table] / expected - 1)
            result = f"{name}: {counts[table]:,} rows of {table} are {off:+.1f} % from the formula’s {expected:,.0f}."
            yield Check(passed=False, result=result)


FOLDER = Path(__file__).parents[2] / "build" / "visits"
EPILOG = """\
examples:
  python -m benchmarks.visits.run                     all of it, within 40 minutes (make bench-visits)
  python -m benchmarks.visits.run --quick             tries the benchmark itself, in 3 minutes; its figures mean little
  python -m benchmarks.visits.run --only main         ours against the paper's modes
  python -m benchmarks.visits.run --backend postgresql,mysql
  python -m benchmarks.visits.run --scale 0.05 --visits 1200
  python -m benchmarks.visits FILE.json               the report of these figures again
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 1 when a check of the counts failed or nothing was measured."""
    options = _options(arguments)
    # As Ctrl-C: servers are stopped, and what they wrote is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output: Path = options.output or FOLDER / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{options.plan}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = (options.folder or output.parent).absolute() / f"servers-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        comparison = compare(options, folder)
    except StoreError as error:
        sys.stderr.write(f"triggerlog: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("triggerlog: stopped; no figures were written\n")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    output.write_text(comparison.model_dump_json(indent=1, by_alias=True), encoding="utf-8")
    output.with_suffix(".html").write_text(render(comparison_report(comparison)), encoding="utf-8")
    print_line(f"figures    {output}")
    print_line(f"report     {output.with_suffix('.html')}")
    return 0 if all(check.passed for check in comparison.checks) and comparison.measured else 1


def compare(options: argparse.Namespace, folder: Path) -> Comparison:
    """Measure everything, and check the counts.

    Raises:
        StoreError: a server does not start, or goes away.
    """
    began, date = time.monotonic(), time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    on = machine(folder)
    groups = planned(options.plan, options.backend, options.scale, options.visits)
    groups = [group for group in groups if options.only in (None, group.name)]
    runs: list[Measured] = []
    notes: list[str] = []
    limits: list[int] = []
    for index, group in enumerate(groups):
        # Only one group's servers run at a time.
        with running(folder / group.name, group.servers, print_line, SERVERS) as found:
            later = sum(60 * each.minutes for each in groups[index + 1 :])
            runs += _measured(group, found, folder, options, later, on)
        notes += found.notes
        limits += [found.memory_mib] if found.memory_mib else []
    checks = [check for group in groups for check in checked([run for run in runs if run.group == group.name])]
    for check in checks:
        print_line(f"{'checked' if check.passed else 'WRONG'}: {check.result}")
    return Comparison(
        date=date,
        seconds=time.monotonic() - began,
        plan=options.plan,
        seed=options.seed,
        command=f"make bench-visits{_arguments(options)}",
        machine=on,
        memory_limit_mib=limits[0] if limits else None,
        notes=tuple(dict.fromkeys(notes)),
        checks=tuple(checks),
        measured=tuple(runs),
    )


def _measured(
    group: Group, found: Running, folder: Path, options: argparse.Namespace, later: float, on: dict[str, str]
) -> list[Measured]:
    facts = {name: facts_of(server) for name, server in found.servers.items()}
    turns = set_up(group, found.servers, folder)
    if not turns:
        return []
    print_line(f"{group.title}: {len(turns)} conditions, {group.visits:,} visits each")
    printed_at = [0.0]

    def on_estimate(seconds: float) -> None:
        # A line a quarter of a minute is enough.
        if time.monotonic() - printed_at[0] > 15:
            printed_at[0] = time.monotonic()
            print_line(f"  about {counted(round((seconds + later) / 60), 'minute')} left")

    found.notes += measure(group, turns, seed=options.seed, print_line=print_line, on_estimate=on_estimate)
    runs = [finished(group, turn, facts[group.server_of(turn.condition)], on) for turn in turns]
    found.notes += [f"{turn.name} ({group.name}): {words}" for turn in turns for words in _problems(turn)]
    return [run for run in runs if run.run.visits]


def _problems(turn: Turns) -> Iterator[str]:
    if turn.problem:
        yield turn.problem
    if turn.unsettled:
        turns = counted(len(turn.unsettled), "turn")
        yield f"its server had not settled after {turns}, so that its work went on during others: {turn.unsettled[-1]}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.visits.run",
        description="Seconds a visit against visits, for every index mode, update, tiling and worker mode.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", dest="plan", action="store_const", const="quick", default="full", help="3 minutes")
    parser.add_argument("--only", choices=("main", "sweep", "tiny"), help="one group of conditions")
    parser.add_argument(
        "--backend", type=_backends, default=list(Backend), metavar="NAMES", help="e.g. postgresql,mysql"
    )
    parser.add_argument(
        "--scale", type=_fraction, help="of the survey, 0 < scale <= 1; else 0.02, and 0.01 in the sweep"
    )
    parser.add_argument("--visits", type=_positive, help="of the main comparison; the sweep does half as many")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which conditions take turns")
    parser.add_argument("--folder", type=Path, help="on whose disk the servers write; else that of the output")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.json",
        help="default: a new one under build/visits; the .html goes next to it",
    )
    return parser.parse_args(arguments)


def _arguments(options: argparse.Namespace) -> str:
    given = ["--quick"] if options.plan == "quick" else []
    for name in ("only", "scale", "visits"):
        if getattr(options, name) is not None:
            given += [f"--{name}", str(getattr(options, name))]
    if options.backend != list(Backend):
        given += ["--backend", ",".join(options.backend)]
    if options.seed != 1:
        given += ["--seed", str(options.seed)]
    return f' ARGS="{shlex.join(given)}"' if given else ""


def _backends(text: str) -> list[Backend]:
    try:
        return [Backend(name) for name in text.split(",")]
    except ValueError:
        known = ", ".join(Backend)
        raise argparse.ArgumentTypeError(f"{text!r} names no database; use some of {known}") from None


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is out of range; use 0 < scale <= 1")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is out of range; use 1 or more")
    return value


def machine(folder: Path) -> dict[str, str]:
    """Processor, cores, memory, load and disk, in words. folder: the disk that is meant is the one it is on."""
    return {
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "disk": f"an fdatasync of 8 KiB takes {number(fdatasync_ms(folder))} ms (median)",
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
