"""`python -m benchmarks.interference RECORD.json`: compute the result, and write it into the record and a report."""

import sys
from pathlib import Path

from benchmarks.interference.analysis import analysed
from benchmarks.interference.report import report
from benchmarks.report.model import Report
from benchmarks.report.render import report_command
from schemas.api.interference import Record


def reported(path: Path) -> tuple[Report, str]:
    """Make the report of a record, and the record with its result.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is no record.
    """
    record = Record.model_validate_json(path.read_bytes())
    record = record.model_copy(update={"result": analysed(record)})
    return report(record), record.model_dump_json(indent=1)


if __name__ == "__main__":
    sys.exit(report_command("benchmarks.interference", __doc__, reported))
