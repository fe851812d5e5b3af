"""`python -m benchmarks.visits RECORD.json`: writes the report of a run of visits, or of a comparison."""

import json
import sys
from pathlib import Path

from benchmarks.report.model import Report
from benchmarks.report.render import report_command
from benchmarks.visits.plan import Comparison
from benchmarks.visits.report import comparison_report, run_report
from daemon.workloads.visits.archive import read_run


def reported(record: Path) -> tuple[Report, None]:
    """Make the report of a record.

    Raises:
        OSError: it cannot be read.
        ValueError: it is neither a run nor a comparison.
    """
    content = record.read_bytes()
    found = json.loads(content)
    if isinstance(found, dict) and "kind" in found:
        return comparison_report(Comparison.model_validate_json(content)), None
    return run_report(read_run(record)), None


def main() -> int:
    """Run the command line; return its exit code."""
    return report_command("benchmarks.visits", __doc__, reported)


if __name__ == "__main__":
    sys.exit(main())
