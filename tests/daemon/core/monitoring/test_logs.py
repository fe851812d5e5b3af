"""daemon.core.monitoring.logs: plain lines for people, priorities for the journal."""

import os
import re
import subprocess
import sys
from pathlib import Path

SPEAK = """
import logging
from daemon.core.monitoring.logs import (LogLevel, start_logging)
start_logging(LogLevel.INFO)
log = logging.getLogger("triggerlog")
log.debug("not this")
log.info("one reading")
log.warning("first\\nsecond")
"""


def spoken(folder: Path, journal: bool) -> list[str]:
    """What is logged into a file; for the journal that file is what JOURNAL_STREAM names."""
    with (folder / "log").open("w+") as log:
        file = os.fstat(log.fileno())
        stream = f"{file.st_dev}:{file.st_ino}" if journal else f"{file.st_dev}:{file.st_ino + 1}"
        environment = {**os.environ, "JOURNAL_STREAM": stream}
        subprocess.run([sys.executable, "-c", SPEAK], stderr=log, env=environment, check=True, timeout=60)
        log.seek(0)
        return log.read().splitlines()


def test_lines_for_people_have_the_time_in_utc_and_the_level(tmp_path: Path) -> None:
    info, warning, rest = spoken(tmp_path, journal=False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    triggerlog: one reading", info)
    assert warning.endswith("WARNING triggerlog: first")
    assert rest == "second"


def test_lines_for_the_journal_have_a_priority_and_no_time(tmp_path: Path) -> None:
    assert spoken(tmp_path, journal=True) == ["<6>triggerlog: one reading", "<4>triggerlog: first", "<4>second"]
