"""What the page says of a status in words; what changes with every frame stands in them as a live figure instead."""

from collections.abc import Sequence
from typing import Any

from dashboard import zone
from dashboard.feed.groups import WHOLE, worst_of
from dashboard.words import about, coarse, count, counted, moment, reasons, time
from schemas.api.alarms import AlarmStatus
from schemas.api.status import DeadLetterCounts, GroupStatus, ReaderStatus, Status
from schemas.marks import Mark
from schemas.states import STATE_LETTERS, AlarmSeverity, Attention, InstrumentState

GLYPHS = {AlarmSeverity.CRITICAL: "■", AlarmSeverity.WARNING: "▲", AlarmSeverity.NOTE: "●"}
(IDLE,) = (letter for letter, state in STATE_LETTERS.items() if state is InstrumentState.IDLE)
QUIET = {letter for letter, state in STATE_LETTERS.items() if state in (InstrumentState.SILENT, InstrumentState.NEVER)}


def group_words(status: Status, name: str, group: GroupStatus) -> dict[str, Any]:
    """Of a group, or of all of them as WHOLE, by the names that the tiles and the account of the readings use.

    quiet, idle, short, risky: an instrument is silent, no trigger came lately, the durability asked for is not met,
    something is at risk. slow, waits, misses: the worst groups of WHOLE.
    """
    readings = group.readings
    readers = [reader for reader in status.readers.values() if name in (WHOLE, reader.group)]
    asked = [group] if name != WHOLE else list(status.groups.values())
    return {
        "title": name or "All groups",
        **(worst_of(status) if name == WHOLE else {}),
        "grid": f"{name}: {counted(group.instruments, 'instrument')}, arrow keys move",
        "outlook": _outlook(group, is_away=not status.store.available),
        "written": f"{group.layout}, {group.durability}",
        "risky": group.at_risk_ms != 0,
        "all": "all " if group.at_risk_ms is None else "",
        "clients": _clients(readers),
        "refused": _because(readings.refused),
        "aside": _because(readings.aside),
        "dead": _dealt_with(group.dead_letters),
        "adds": readings.unaccounted == 0,
        "verdict": _verdict(group),
        "quiet": not QUIET.isdisjoint(group.states),
        "idle": IDLE in group.states,
        "tail": "p99" if group.commit_ms.is_p99_known else "longest",
        "few": not group.commit_ms.is_p99_known,
        "short": any(one.durability in status.store.shortfall for one in asked),
    }


def alarm_count(alarms: Sequence[AlarmStatus]) -> dict[str, Any]:
    """How many there are, as the header says it, and the title of the browser's tab while the page is live.

    severity: the gravest's of those that nobody has dealt with.
    """
    fresh = [alarm for alarm in alarms if alarm.attention is Attention.NEW]
    rest = len(alarms) - len(fresh)
    severity = fresh[0].severity.value if fresh else "none"
    glyph = f"{GLYPHS[fresh[0].severity]} " if fresh else ""
    text = f"{glyph}{counted(len(fresh), 'alarm')}{f', {rest} handled' if rest else ''}"
    acknowledged = sum(alarm.attention is Attention.ACKNOWLEDGED for alarm in alarms)
    quiet = [f"{acknowledged} acknowledged"] * bool(acknowledged) + [f"{rest - acknowledged} shelved"] * (
        rest > acknowledged
    )
    title = f"({len(fresh)}) triggerlog" if fresh else "triggerlog"
    return {"text": text, "severity": severity, "quiet": ", ".join(quiet), "title": title}


def alarm_line(alarm: AlarmStatus) -> dict[str, Any]:
    """An alarm with what its line says beside."""
    dealt = ""
    if alarm.shelved_until_ns is not None:
        dealt = f" · shelved until {time(alarm.shelved_until_ns / 1e6)}"
    elif alarm.acknowledged_ns is not None:
        dealt = f" · acknowledged at {time(alarm.acknowledged_ns / 1e6)}"
    is_new = alarm.attention is Attention.NEW
    return {
        "key": alarm.key,
        "severity": alarm.severity,
        "text": alarm.text,
        "action": alarm.fix,
        "since_ms": alarm.since_ns // 1_000_000,
        "attention": alarm.attention,
        "glyph": GLYPHS[alarm.severity],
        "dealt": dealt,
        "is_new": is_new,
        "is_quiet": not is_new,
        # Once per cause: its text changes with every figure in it.
        "news": f"{alarm.severity}: {alarm.text}.",
    }


def _outlook(group: GroupStatus, *, is_away: bool) -> str:
    """How long an outage may last, or how soon the backlog of one that is over is gone."""
    if group.drained_in_s:
        return f"drained in {about(coarse(group.drained_in_s))}"
    if group.full_in_s is None:
        return ""
    is_away = is_away or group.drained_in_s is None
    return f"{'full in' if is_away else 'room for'} {about(coarse(group.full_in_s))}"


def _clients(readers: Sequence[ReaderStatus]) -> str:
    """Clients that may ask, of all where that is not all; nothing without readers."""
    clients = sum(reader.clients for reader in readers)
    admitted = sum(reader.admitted for reader in readers)
    if not readers:
        return ""
    return count(clients) if admitted == clients else f"{admitted:,} of {clients:,}"


def _because(counts: dict[str, int]) -> str:
    found = reasons(counts)
    return f" ({found})" if found else ""


def _dealt_with(letters: DeadLetterCounts) -> str:
    counts = {"stored": letters.retried, "discarded": letters.discarded}
    parts = [f"{count:,} {what} since" for what, count in counts.items() if count]
    return f" ({', '.join(parts)})" if parts else ""


def _verdict(group: GroupStatus) -> str:
    readings = group.readings
    parts = [
        "✓ every reading is accounted for"
        if readings.unaccounted == 0
        else f"✕ {readings.unaccounted:,} not accounted for"
    ]
    lost = sum(readings.lost.values())
    if lost:
        parts.append(f"{lost:,} more lost on their way{_because(readings.lost)}")
    if group.triggers.skipped:
        parts.append(f"{group.triggers.skipped:,} trigger numbers never came")
    if group.dead_letters.readings:
        parts.append(f"{group.dead_letters.readings:,} in the dead letters")
    return " · ".join(parts)


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
