"""`python -m benchmarks.visits RECORD.json`: writes the report of a run of visits, or of a comparison."""

import argparse
import json
import sys
from pathlib import Path

from pydantic import ValidationError

from benchmarks.visits.record import Comparison
from benchmarks.visits.report import comparison, run
from schemas.api.visits import VisitsRun


def main() -> int:
    """Run the command line; the exit code is 1, with a line on stderr, for a file that is no record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visits", description=__doc__)
    parser.add_argument("record", type=Path, help="written by a run of visits, or by make bench-visits")
    parser.add_argument("--output", type=Path, metavar="FILE.html", help="default: next to the record")
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
    return run.page(VisitsRun.model_validate_json(kept))


if __name__ == "__main__":
    sys.exit(main())
