"""How the daemon speaks of itself: plain lines on stderr."""

import logging
import os
import sys
import time
from enum import StrEnum

from daemon.web.rates import SeldomLines


class LogLevel(StrEnum):
    """How much is logged; each level holds those after it."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


# The numbers that sd-daemon(3) gives to syslog's priorities.
_PRIORITY = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class _JournalFormatter(logging.Formatter):
    """Lines for systemd's journal, which keeps time and priority itself."""

    def format(self, record: logging.LogRecord) -> str:
        # Every line gets the priority, or the journal would take the rest of a traceback for mere information.
        prefix = f"<{_PRIORITY.get(record.levelname, 6)}>"
        return "\n".join(prefix + line for line in super().format(record).splitlines())


def start_logging(level: LogLevel) -> None:
    """Log to stderr from now on, from `level` upwards."""
    handler = logging.StreamHandler(sys.stderr)
    if writes_to_journal():
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
    else:
        formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s")
        formatter.default_time_format = "%Y-%m-%dT%H:%M:%S"
        formatter.converter = time.gmtime
        formatter.datefmt = formatter.default_time_format
        handler.setFormatter(formatter)
    # Events that others can cause are limited by their kinds.
    handler.addFilter(SeldomLines("triggerlog"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # A line for every request and connection is noise beside what the daemon itself has to say.
    for name in ("httpx", "httpcore", "uvicorn", "websockets"):
        logging.getLogger(name).setLevel(logging.WARNING)


def writes_to_journal() -> bool:
    """Tell whether stderr leads into systemd's journal, by the device and inode that systemd.exec(5) promises."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    if not (device.isdecimal() and inode.isdecimal()):
        return False
    try:
        here = os.fstat(sys.stderr.fileno())
    except OSError:  # stderr is closed, or not a file
        return False
    return (here.st_dev, here.st_ino) == (int(device), int(inode))
