"""`python -m benchmarks.interference RECORD.json`: compute the result, and write it into the record and a report."""

import sys
from pathlib import Path

from benchmarks.html.command import report_command
from benchmarks.interference.report.document import page
from benchmarks.interference.statistics.analysis import analysed
from schemas.api.interference import Record


def report(path: Path) -> tuple[str, str]:
    """The page of a record, and the record with its result.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is no record.
    """
    record = Record.model_validate_json(path.read_bytes())
    record = record.model_copy(update={"result": analysed(record)})
    return page(record), record.model_dump_json(indent=1)


def main() -> int:
    """Run the command line; return its exit code."""
    return report_command("benchmarks.interference", __doc__, report)


if __name__ == "__main__":
    sys.exit(main())
