"""`python -m benchmarks.tiers.run` (`make bench-tiers`): measure by turns, keep JSON, and write the report."""

import argparse
import os
import shlex
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import StoreError
from benchmarks.report.render import render, text
from benchmarks.rounds.rounds import print_line
from benchmarks.servers.daemon_process import DaemonFailed
from benchmarks.tiers.parts import beside, movers, planning, queries, sizes, spectra
from benchmarks.tiers.plan import BESIDE, MOVERS, ON_DISK, PARTS, PLANNING, QUERIES, SIZES, SPECTRA, Plan, Record
from benchmarks.tiers.report import report
from benchmarks.tiers.slow_disk.choice import KINDS, NoSlowDisk, SlowDisk, slow_disk
from benchmarks.tiers.tiered import TieredServer, disks_of, tiered
from daemon.core.process.processor import machine
from schemas.api.model import Model

FOLDER = Path(__file__).parents[2] / "build" / "tiers"
DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures of tiers, written by `--docs` -->", "<!-- end of the figures of tiers -->"
WIDTH = 100
EPILOG = """\
examples:
  python -m benchmarks.tiers.run                              all of it (make bench-tiers)
  python -m benchmarks.tiers.run --scale 0.05                 tries the benchmark itself; its figures mean little
  python -m benchmarks.tiers.run --only queries,movers
  python -m benchmarks.tiers.run --only planning -o FILE.json adds this part to the figures of FILE.json
  python -m benchmarks.tiers.run --docs                       writes the figures into docs/benchmarks.md, too
  python -m benchmarks.tiers.run --disk shim                  the slow disk of a machine without root
  python -m benchmarks.tiers FILE.json                        the report of these figures again
"""


@dataclass(frozen=True, kw_only=True)
class Part:
    """How a part is measured. field: of the record that it fills. cache_mib: of its server."""

    field: str
    measure: Callable[[TieredServer, Plan], Iterable[Model]]
    cache_mib: int
    settings: Mapping[str, str]


MEASURED: Mapping[str, Part] = {
    QUERIES: Part(field="asked", measure=queries.queries, cache_mib=queries.CACHE_MIB, settings=queries.SETTINGS),
    MOVERS: Part(field="moved", measure=movers.movers, cache_mib=movers.CACHE_MIB, settings={}),
    BESIDE: Part(field="blocks", measure=beside.beside, cache_mib=beside.CACHE_MIB, settings={}),
    PLANNING: Part(
        field="planned", measure=planning.planning, cache_mib=planning.CACHE_MIB, settings=planning.SETTINGS
    ),
    SIZES: Part(field="sizes", measure=sizes.sizes, cache_mib=sizes.CACHE_MIB, settings={}),
    SPECTRA: Part(field="searched", measure=spectra.spectra, cache_mib=spectra.CACHE_MIB, settings={}),
}
STOPS = (signal.SIGINT, signal.SIGTERM)
FAILURES = (
    *(StoreError, DaemonFailed),
    *(queries.WrongAnswer, beside.CountsWrong, spectra.WrongHits),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 1 when something did not do what was asked."""
    options = _options(arguments)
    for number in STOPS:
        signal.signal(number, _stop)
    output: Path = options.output or FOLDER / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = (options.folder or output.parent).absolute() / f"servers-{os.getpid()}"
    folder.mkdir(parents=True)
    left_out = False
    try:
        for part in options.only:
            try:
                _keep(_measured(part, options, folder), output)
            except NoSlowDisk as error:
                left_out = True
                print_line(f"{part} is left out: {error}")
    except FAILURES as error:
        sys.stderr.write(f"triggerlog: {error}\n")
        return 1
    except KeyboardInterrupt:
        rest = f"{output} has what was measured until then" if output.exists() else "nothing was measured"
        sys.stderr.write(f"triggerlog: stopped; {rest}\n")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if output.exists():
        _say_where(output, is_for_docs=options.docs)
    return int(left_out)


def _stop(_number: int, _frame: object) -> None:
    """Stop servers, undo the slow disk, and remove what was written: a second Ctrl-C does not come into that."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _measured(part: str, options: argparse.Namespace, folder: Path) -> Record:
    """One part, with a server of its own."""
    plan, how = Plan.of(options.scale, options.rounds), MEASURED[part]
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    began = time.monotonic()
    print_line(f"{part}, scale {plan.scale:g}")
    with ExitStack() as stack:
        disk: SlowDisk | None = None
        disks = []
        if part in ON_DISK:
            disk = stack.enter_context(slow_disk(folder, options.disk, print_line))
            disks.append(disks_of(part, disk, folder))
        found = stack.enter_context(tiered(folder / part, disk, how.cache_mib, how.settings))
        facts = found.server.facts()
        figures: Any = tuple(how.measure(found, plan))
    print_line(f"{part} took {time.monotonic() - began:.0f} s")
    return Record(
        date=date,
        machine=machine(),
        server=f"PostgreSQL {facts.version}",
        commands={part: f"python -m benchmarks.tiers.run --only {part}{_arguments(options)}"},
        scales={part: plan.scale},
        disks=tuple(disks),
        notes=(disk.note,) if disk is not None and disk.note else (),
        **{how.field: figures},
    )


def _keep(found: Record, output: Path) -> None:
    """Add a part to a file, and write its report."""
    if output.exists():
        found = Record.model_validate_json(output.read_bytes()).and_then(found)
    output.write_text(found.model_dump_json(by_alias=True), encoding="utf-8")
    output.with_suffix(".html").write_text(render(report(found)), encoding="utf-8")
    output.with_suffix(".md").write_text(text(report(found)), encoding="utf-8")


def _say_where(output: Path, *, is_for_docs: bool) -> None:
    print_line(f"figures    {output}")
    print_line(f"report     {output.with_suffix('.html')}, {output.with_suffix('.md')}")
    if is_for_docs:
        write_docs(Record.model_validate_json(output.read_bytes()))
        print_line(f"docs       {DOCUMENT}")


def write_docs(record: Record) -> None:
    """Write the figures into the document."""
    DOCUMENT.write_text(with_figures(DOCUMENT.read_text(encoding="utf-8"), record), encoding="utf-8")


def with_figures(document: str, record: Record) -> str:
    """Return the text of a document with the figures of a record between the marks.

    Raises:
        ValueError: it does not have the marks.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} with {END} after it")
    where = "`make bench-tiers` writes a report with all figures."
    return f"{before}{BEGIN}\n\n{where}\n\n{_wrapped(text(report(record), heading=False))}\n{END}{after}"


def _wrapped(markdown: str) -> str:
    """Markdown with lines that fit; those of tables stay."""
    return "".join(f"{line if line.startswith('|') else _filled(line)}\n" for line in markdown.splitlines())


def _filled(line: str) -> str:
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _arguments(options: argparse.Namespace) -> str:
    words: list[str] = []
    if options.scale != Plan.scale:
        words += ["--scale", f"{options.scale:g}"]
    if options.rounds is not None:
        words += ["--rounds", str(options.rounds)]
    if options.disk is not None:
        words += ["--disk", options.disk]
    return f" {shlex.join(words)}" if words else ""


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tiers.run",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_parts, default=PARTS, help=f"parts, with commas between: {', '.join(PARTS)}")
    parser.add_argument("--scale", type=_scale, default=Plan.scale, help="of all sizes, above 0 (%(default)s)")
    parser.add_argument("--rounds", type=_count, help="of questions that take turns; by default 5, of a small scale 1")
    parser.add_argument("--disk", choices=KINDS, help="which slow disk; by default the first that can be had")
    parser.add_argument("--docs", action="store_true", help="write the figures of the file into docs/, too")
    parser.add_argument("-o", "--output", type=Path, help="JSON file; parts that it has are replaced")
    parser.add_argument("--folder", type=Path, help="where the servers write; its disk is the fast one")
    return parser.parse_args(arguments)


def _parts(words: str) -> tuple[str, ...]:
    found = tuple(words.split(","))
    if not set(found) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(PARTS)}")
    return found


def _scale(word: str) -> float:
    value = float(word)
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"{word} is out of range; use 0 < scale <= 100")
    return value


def _count(word: str) -> int:
    value = int(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{word} is out of range; use 1 or more")
    return value


if __name__ == "__main__":
    sys.exit(main())
