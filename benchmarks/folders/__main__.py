"""`python -m benchmarks.folders RECORD.json`: write the report of a benchmark of folders again."""

import sys
from pathlib import Path

from benchmarks.folders.plan import Record
from benchmarks.folders.report import report
from benchmarks.report.model import Report
from benchmarks.report.render import report_command


def reported(record: Path) -> tuple[Report, None]:
    """Make the report of a record.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is no record.
    """
    return report(Record.model_validate_json(record.read_bytes())), None


if __name__ == "__main__":
    sys.exit(report_command("benchmarks.folders", __doc__, reported))
