"""What an operator has to be told, from a status snapshot: gravest first, nothing when all is well."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from dashboard.slips import words
from schemas.status import STATE_LETTERS, GroupStatus, InstrumentState, State, Status

CLEAR_AFTER_S = 3.0
"""A cause has to be gone for so long before its alarm goes: one that flickers would train people to look away."""


class Severity(IntEnum):
    """How grave an alarm is; the gravest first."""

    CRITICAL = 0  # readings are being lost, or soon will be
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One line of the alarm strip."""

    key: str  # the cause: the same key is the same alarm
    severity: Severity
    text: str  # what is wrong
    action: str  # what to do


def alarms(status: Status) -> list[Alarm]:
    """Every alarm a snapshot gives rise to, gravest first; many instruments failing together are one alarm."""
    causes = (_store, _rejected, _held_back, _durability, _desynchronised, _instruments, _latency)
    found = [alarm for cause in causes for alarm in cause(status)]
    return sorted(found, key=lambda alarm: alarm.severity)


class AlarmBoard:
    """Alarms with a memory: since when, and a while of quiet before one goes."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._seen: dict[str, tuple[float, Alarm]] = {}

    def update(self, status: Status) -> list[dict[str, Any]]:
        """Take in a snapshot; return the alarms in force as plain dicts with `since_ms`, gravest first."""
        now_s = status.time_ns / 1e9
        for alarm in alarms(status):
            began = now_s - status.store.away_s if alarm.key == "store" else now_s
            self._since.setdefault(alarm.key, began)
            self._seen[alarm.key] = (now_s, alarm)
        for key in [key for key, (seen, _) in self._seen.items() if now_s - seen >= CLEAR_AFTER_S]:
            del self._seen[key], self._since[key]
        in_force = sorted((alarm for _, alarm in self._seen.values()), key=lambda a: (a.severity, self._since[a.key]))
        return [
            asdict(alarm) | {"severity": alarm.severity.name.lower(), "since_ms": round(self._since[alarm.key] * 1e3)}
            for alarm in in_force
        ]


def _store(status: Status) -> Iterator[Alarm]:
    store = status.store
    if store.available and status.state is not State.STORE_AWAY:
        return
    starting = status.state is State.STARTING
    why = f": {store.problem}" if store.problem else ""
    look = (
        "it is tried again by itself; if it stays away, see `journalctl -u triggerlog` and the free space of the disk"
        if store.embedded
        else f"check that {store.target} answers ({_probe(store.backend)}network, free space); "
        "it is tried again by itself"
    )
    yield Alarm(
        key="store",
        severity=Severity.NOTE if starting else Severity.CRITICAL,
        text=f"{'Waiting for the database' if starting else 'Database away'}{why}",
        action=f"Readings wait {_waiting(status)}; {look}.",
    )


PROBES: dict[str, str] = {
    "postgresql": "pg_isready",
    "mysql": "mysqladmin ping",
    "mariadb": "mariadb-admin ping",
    "mongodb": "mongosh --eval 'db.hello()'",
    "ferretdb": "mongosh --eval 'db.hello()'",
}
"""The command that asks a database whether it answers, by the product."""


def _probe(backend: str) -> str:
    return f"`{PROBES[backend]}`, " if backend in PROBES else ""


def _waiting(status: Status) -> str:
    triggers = sum(group.triggers.waiting for group in status.groups.values())
    journal = sum(group.journal_mib for group in status.groups.values())
    memory = sum(group.backlog_mib for group in status.groups.values())
    where, mib = ("the journal", journal) if journal else ("memory", memory)
    return f"in {where} ({triggers:,} triggers, {mib:,.0f} MiB{_room(status)})"


def _room(status: Status) -> str:
    times = [group.full_in_s for group in status.groups.values() if group.full_in_s is not None]
    if not times:
        return ""
    seconds = min(times)
    for unit, name, least in ((86_400, "days", 172_800), (3600, "h", 6000), (60, "min", 100)):
        if seconds >= least:
            return f", room for {seconds / unit:,.0f} {name} more"
    return f", room for {seconds:.0f} s more"


def _rejected(status: Status) -> Iterator[Alarm]:
    lying = sum(group.dead_letters.readings for group in status.groups.values())
    dead = sum(group.readings.dead - group.dead_letters.retried for group in status.groups.values())
    if lying:
        yield Alarm(
            key="dead",
            severity=Severity.CRITICAL,
            text=f"{lying:,} readings lie in the dead letters: the database rejected them for good",
            action="`triggerlog dead-letters list FILE` tells why; mend the cause, then `dead-letters retry FILE`.",
        )
    elif dead > 0:
        yield Alarm(
            key="dead",
            severity=Severity.CRITICAL,
            text=f"{dead:,} readings were rejected by the database for good",
            action="They are kept in the state folder; the last events say why.",
        )


def _held_back(status: Status) -> Iterator[Alarm]:
    held = [name for name, group in status.groups.items() if group.backpressure]
    if held:
        yield Alarm(
            key="backpressure",
            severity=Severity.CRITICAL,
            text=f"Senders are held back ({', '.join(held)}): as much waits for the database as may",
            action="TCP senders wait and lose nothing, datagrams are refused. See what slows the database.",
        )


def _durability(status: Status) -> Iterator[Alarm]:
    """Where the server keeps less than is asked of it.

    A warning, not critical: nothing is being lost, and nothing will be until the server crashes. It is an operator's
    task for today, and must not stand above what loses readings now.
    """
    by_line: dict[str, list[str]] = {}
    for durability, line in status.store.shortfall.items():
        by_line.setdefault(line, []).append(durability)
    for line, asked in by_line.items():
        what, _, mend = line.rpartition("; ")
        groups = [name for name, group in status.groups.items() if group.durability in asked]
        yield Alarm(
            key=f"durability {asked[0]}",
            severity=Severity.WARNING,
            text=f"Durability {' and '.join(asked)} is not kept ({', '.join(groups)}): {what or mend}",
            action=f"{mend[:1].upper()}{mend[1:]}. Until then a crash of the server may take readings it acknowledged.",
        )


NAMED = 3
"""Instruments out of step that the alarm names."""


def _desynchronised(status: Status) -> Iterator[Alarm]:
    """A warning: nothing is lost, but until it is mended readings stand in a trigger that is not theirs."""
    count = sum(group.desynchronised_now for group in status.groups.values())
    slips = [slip for group in status.groups.values() for slip in group.slips]
    if not count:
        return
    named = "; ".join(f"{slip.instrument} is {words(slip)}" for slip in slips[:NAMED])
    more = f"; and {count - NAMED:,} more" if count > NAMED else ""
    numbers = any(slip.triggers for slip in slips)
    yield Alarm(
        key="desynchronised",
        severity=Severity.WARNING,
        text=f"{count:,} instrument{'s' if count != 1 else ''} out of step: {named}{more}",
        action="Set its trigger counter right; until then its readings stand in the wrong triggers."
        if numbers
        else "Set its clock right; its trigger numbers are those of the others or cannot be checked.",
    )


def _instruments(status: Status) -> Iterator[Alarm]:
    counts = dict.fromkeys((InstrumentState.SILENT, InstrumentState.NEVER, InstrumentState.MISSING), 0)
    for group in status.groups.values():
        for letter, state in STATE_LETTERS.items():
            if state in counts:
                counts[state] += group.states.count(letter)
    if not any(counts.values()):
        return
    stale = status.limits.get("stale_s")
    said = {
        InstrumentState.SILENT: "silent" if stale is None else f"silent for more than {stale:g} s",
        InstrumentState.NEVER: "never heard",
        InstrumentState.MISSING: "missing from some of the last triggers",
    }
    parts = [f"{n} {said[state]}" for state, n in counts.items() if n]
    gone = counts[InstrumentState.SILENT] + counts[InstrumentState.NEVER]
    yield Alarm(
        key="instruments",
        severity=Severity.WARNING if gone else Severity.NOTE,
        text=f"Instruments: {', '.join(parts)}",
        action="Choose a marked cell of the grid to see when it was last heard."
        if gone
        else "The ledger holds which trigger lacks which.",
    )


def _latency(status: Status) -> Iterator[Alarm]:
    budget = status.limits.get("commit_p99_ms")
    if budget is None:
        return
    over = {name: p99 for name, group in status.groups.items() if (p99 := _p99(group)) is not None and p99 > budget}
    if over:
        worst = ", ".join(f"{name} {p99:.3g} ms" for name, p99 in over.items())
        yield Alarm(
            key="latency",
            severity=Severity.WARNING,
            text=f"Commit p99 over its budget of {budget:g} ms: {worst}",
            action="Look at the backlog: if it grows too, the database cannot keep up.",
        )


def _p99(group: GroupStatus) -> float | None:
    return group.commit_ms.p99
