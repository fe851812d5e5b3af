"""`python -m benchmarks.tiers RECORD.json`: write the report of a benchmark of tiers again."""

import sys
from pathlib import Path

from benchmarks.report.model import Report
from benchmarks.report.render import report_command
from benchmarks.tiers.plan import Record
from benchmarks.tiers.report import report


def reported(record: Path) -> tuple[Report, None]:
    """Make the report of a record.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is no record.
    """
    return report(Record.model_validate_json(record.read_bytes())), None


if __name__ == "__main__":
    sys.exit(report_command("benchmarks.tiers", __doc__, reported))
