"""`python -m benchmarks.visits RECORD.json`: writes the report of a run of visits, or of a comparison."""

import json
import sys
from pathlib import Path

from benchmarks.html.command import report_command
from benchmarks.visits.record import Comparison
from benchmarks.visits.report import comparison, run
from daemon.workloads.visits.archive import read_run


def report(record: Path) -> tuple[str, None]:
    """The page of a record.

    Raises:
        OSError: it cannot be read.
        ValueError: it is neither a run nor a comparison.
    """
    content = record.read_bytes()
    found = json.loads(content)
    if isinstance(found, dict) and "kind" in found:
        return comparison.page(Comparison.model_validate_json(content)), None
    return run.page(read_run(record)), None


def main() -> int:
    """Run the command line; return its exit code."""
    return report_command("benchmarks.visits", __doc__, report)


if __name__ == "__main__":
    sys.exit(main())
