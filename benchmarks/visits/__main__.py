"""`python -m benchmarks.visits RECORD.json`: writes the report of a run of visits, or of a comparison."""

import json
import sys

from benchmarks.html.command import report_command
from benchmarks.visits.record import Comparison
from benchmarks.visits.report import comparison, run
from schemas.api.visits import VisitsRun


def report(content: bytes) -> tuple[str, None]:
    """The page of a record.

    Raises:
        ValueError: it is neither a run nor a comparison.
    """
    found = json.loads(content)
    if isinstance(found, dict) and "kind" in found:
        return comparison.page(Comparison.model_validate_json(content)), None
    return run.page(VisitsRun.model_validate_json(content)), None


def main() -> int:
    """Run the command line; return its exit code."""
    return report_command("benchmarks.visits", __doc__, report)


if __name__ == "__main__":
    sys.exit(main())
