"""What is wrong with a tab's file, in words, for its own panel and for the log."""

import logging
import traceback
from pathlib import Path
from typing import Any

from dash import html

from dashboard.feed.client import DaemonUnavailable

log = logging.getLogger(__name__)

LONGEST = 300
"""Characters of a message: Dash writes paragraphs, with all of the value that it refuses."""

RESTART = "Correct the file, and restart the page. Its log has the whole traceback."


class OwnTabError(Exception):
    """The page refuses what a tab's file does; the message says what that is, and the fix."""


class Faults:
    """The faults of one file: each is logged once, though a callback may fail every second in every browser."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged: set[tuple[type[BaseException], str]] = set()

    def shown(self, problem: BaseException, function: str = "") -> Any:
        """The element that says what is wrong and what to do; a new fault is logged with its traceback.

        function: name of the one that was called, for a problem that is none of the file's lines.
        """
        if isinstance(problem, DaemonUnavailable):
            return _element("No answer.", f"{problem}.", "")
        place = self._place(problem) or _within(function)
        words = f"{self._path.name}{place}: {_said(problem)}"
        # Not by the message: it may hold a value that differs each time.
        if (type(problem), place) not in self._logged:
            self._logged.add((type(problem), place))
            log.error("a tab is faulty: %s", words, exc_info=problem)
        return _element("This tab is faulty.", words, RESTART)

    def _place(self, problem: BaseException) -> str:
        if isinstance(problem, SyntaxError) and problem.filename == str(self._path):
            return f", line {problem.lineno}"
        # The innermost line of the file itself: what a library does deeper down is in the log.
        for frame in reversed(traceback.extract_tb(problem.__traceback__)):
            if frame.filename == str(self._path):
                return f", line {frame.lineno}{_within(frame.name)}"
        return ""


def _said(problem: BaseException) -> str:
    said = " ".join((problem.msg if isinstance(problem, SyntaxError) else str(problem)).split())[:LONGEST]
    return said if isinstance(problem, OwnTabError) else f"{type(problem).__name__}: {said}".removesuffix(": ")


def _within(function: str) -> str:
    return f" in {function}" if function not in ("", "<module>") else ""


def _element(title: str, words: str, action: str) -> Any:
    return html.Div([html.Strong(title), " ", html.Code(words), " ", action], className="panel")
