"""What is wrong with a tab's file, in words, for its own panel and for the log."""

import logging
import traceback
from pathlib import Path
from typing import Any

from dash import html

from dashboard.feed.client import DaemonUnavailable

log = logging.getLogger(__name__)

RESTART = "Correct the file, and restart the page. Its log has the whole traceback."


class OwnTabError(Exception):
    """The page refuses what a tab's file does; the message says what that is, and the fix."""


class Faults:
    """The faults of one file: each is logged once, though a callback may fail every second in every browser."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged: set[str] = set()

    def shown(self, problem: BaseException) -> Any:
        """The element that says what is wrong and what to do; a new fault is logged with its traceback."""
        if isinstance(problem, DaemonUnavailable):
            return _element("No answer.", f"{problem}.", "")
        words = self.words(problem)
        if words not in self._logged:
            self._logged.add(words)
            log.error("a tab is faulty: %s", words, exc_info=problem)
        return _element("This tab is faulty.", words, RESTART)

    def words(self, problem: BaseException) -> str:
        """File, line, function and message, as far as they are known, in one line."""
        said = str(problem).strip().partition("\n")[0]
        named = said if isinstance(problem, OwnTabError) else f"{type(problem).__name__}: {said}".removesuffix(": ")
        return f"{self._path.name}{self._place(problem)}: {named}"

    def _place(self, problem: BaseException) -> str:
        if isinstance(problem, SyntaxError) and problem.filename == str(self._path):
            return f", line {problem.lineno}"
        # The innermost line of the file itself: what a library does deeper down is in the log.
        for frame in reversed(traceback.extract_tb(problem.__traceback__)):
            if frame.filename == str(self._path):
                within = f" in {frame.name}" if frame.name != "<module>" else ""
                return f", line {frame.lineno}{within}"
        return ""


def _element(title: str, words: str, action: str) -> Any:
    return html.Div([html.Strong(title), " ", html.Code(words), " ", action], className="panel")
