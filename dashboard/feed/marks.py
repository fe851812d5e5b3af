"""Marks as the page shows them: a section of the stream, and lines and words in a figure."""

from collections.abc import Sequence
from typing import Any

from dashboard import zone
from dashboard.words import moment
from schemas.marks import Mark

SHOWN_MOST = 500
"""The newest marks, which the charts of all browsers have."""


def known_marks(marks: Sequence[Mark], waiting: Sequence[Mark]) -> list[tuple[Mark, bool]]:
    """The newest marks in order of time, and of each whether it waits for the database."""
    waits = {mark.id for mark in waiting}
    known = {mark.id: mark for mark in (*marks, *waiting)}
    ordered = sorted(known.values(), key=lambda mark: (mark.time_ns, str(mark.id)))[-SHOWN_MOST:]
    return [(mark, mark.id in waits) for mark in ordered]


def mark_section(known: Sequence[tuple[Mark, bool]]) -> dict[str, Any]:
    """The section of the stream from which charts draw marks."""
    return {"all": [_line(mark, waits=waits) for mark, waits in known]}


def _line(mark: Mark, *, waits: bool) -> dict[str, Any]:
    return {
        "t": mark.time_ns / 1e6,
        "until": None if mark.until_ns is None else mark.until_ns / 1e6,
        "text": mark.text,
        "group": mark.group,
        "words": words(mark),
        "waits": waits,
    }


def words(mark: Mark) -> str:
    """A mark in one line."""
    until = "" if mark.until_ns is None else f" to {moment(mark.until_ns // 10**6)}"
    about = f" (group {mark.group})" if mark.group else ""
    at = f"{moment(mark.time_ns // 10**6)}{until} {zone.label()}"
    return f"{at}: {mark.text}{about}{f', {mark.author}' if mark.author else ''}"
