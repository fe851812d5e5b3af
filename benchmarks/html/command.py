"""The command line of a report: the file of a record in, one HTML file out."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError


def report_command(package: str, description: str, report: Callable[[Path], tuple[str, str | None]]) -> int:
    """Run the command line of `python -m PACKAGE`; the exit code is 1, with a line on stderr, for another file.

    report: makes the text of the page from the file of a record, and the new content of the record where it changes.
    Each file is replaced as a whole.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("record", type=Path, help="the JSON file of a record")
    parser.add_argument("--output", "--html", type=Path, help="the HTML file; default: next to the record")
    options = parser.parse_args()
    record: Path = options.record
    try:
        page, changed = report(record)
        if changed is not None:
            _replace(record, changed)
        _replace(options.output or record.with_suffix(".html"), page)
    except (OSError, ValidationError, ValueError) as error:
        reason = str(error).replace("\n", "; ")
        sys.stderr.write(f"triggerlog: {record} cannot be reported: {reason}\n")
        return 1
    return 0


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
