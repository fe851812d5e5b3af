"""`python -m benchmarks.interference RECORD.json`: compute the result, and write it into the record and a report."""

import argparse
import sys
from pathlib import Path

from pydantic import ValidationError

from benchmarks.interference.report.document import page
from benchmarks.interference.statistics.analysis import analysed
from schemas.api.interference import Record


def main() -> int:
    """Run the command line; the exit code is 1, with a line on stderr, for a file that is no record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interference", description=__doc__)
    parser.add_argument("record", type=Path, help="the record of an experiment; its result is written into it")
    parser.add_argument("--html", type=Path, help="where the report goes; default: next to the record")
    options = parser.parse_args()
    try:
        report(options.record, options.html or options.record.with_suffix(".html"))
    except (OSError, ValidationError, ValueError) as error:
        words = str(error).replace("\n", "; ")
        sys.stderr.write(f"triggerlog: {options.record} cannot be reported: {words}\n")
        return 1
    return 0


def report(kept: Path, html: Path) -> Record:
    """Write the result into a record, and the report; each is there whole, or as it was before.

    Raises:
        OSError: a file cannot be read or written.
        ValidationError: it is no record.
    """
    record = Record.model_validate_json(kept.read_bytes())
    record = record.model_copy(update={"result": analysed(record)})
    for path, text in ((kept, record.model_dump_json(indent=1)), (html, page(record))):
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    return record


if __name__ == "__main__":
    sys.exit(main())
