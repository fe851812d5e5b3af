"""`python -m benchmarks.tiers RECORD.json`: write the report of a benchmark of tiers again."""

import sys
from pathlib import Path

from benchmarks.html.command import report_command
from benchmarks.tiers.record import Record
from benchmarks.tiers.report.html import page


def report(record: Path) -> tuple[str, None]:
    """The page of a record.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is no record.
    """
    return page(Record.model_validate_json(record.read_bytes())), None


def main() -> int:
    """Run the command line; return its exit code."""
    return report_command("benchmarks.tiers", __doc__, report)


if __name__ == "__main__":
    sys.exit(main())
