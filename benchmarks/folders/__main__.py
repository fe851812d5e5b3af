"""`python -m benchmarks.folders RECORD.json`: write the report of a benchmark of folders again."""

import sys
from pathlib import Path

from benchmarks.folders.record import Record
from benchmarks.folders.report.html import page
from benchmarks.html.command import report_command


def report(record: Path) -> tuple[str, None]:
    """The page of a record.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is no record.
    """
    return page(Record.model_validate_json(record.read_bytes())), None


def main() -> int:
    """Run the command line; return its exit code."""
    return report_command("benchmarks.folders", __doc__, report)


if __name__ == "__main__":
    sys.exit(main())
