"""`python -m benchmarks.visits RECORD.json`: the report of one run of visits, or of a comparison that was kept."""

import argparse
import json
import sys
from pathlib import Path

from pydantic import ValidationError

from benchmarks.visits import comparison, report
from benchmarks.visits.record import Comparison
from daemon.workloads.visits.archive import read_run


def main() -> int:
    """Run the command line; the exit code is 1, with a line on stderr, for a file that is no record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visits", description=__doc__)
    parser.add_argument("record", type=Path, help="kept by a run of visits, or by make bench-visits")
    parser.add_argument("--output", type=Path, metavar="FILE.html", help="beside the record if absent")
    options = parser.parse_args()
    html: Path = options.output or options.record.with_suffix(".html")
    try:
        text = page(options.record)
        new = html.with_name(f".{html.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(html)
    except (OSError, ValidationError, ValueError) as error:
        words = str(error).replace("\n", "; ")
        sys.stderr.write(f"triggerlog: {options.record} cannot be reported: {words}\n")
        return 1
    return 0


def page(record: Path) -> str:
    """The report of a record.

    Raises:
        OSError: it cannot be read.
        ValueError: it is neither a run nor a comparison.
    """
    kept = record.read_bytes()
    found = json.loads(kept)
    if isinstance(found, dict) and "kind" in found:
        return comparison.page(Comparison.model_validate_json(kept))
    return report.page(read_run(record))


if __name__ == "__main__":
    sys.exit(main())
