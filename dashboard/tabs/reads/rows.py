"""What the tab Reads says of a status: a row a workload, and the governor in words."""

from collections.abc import Mapping
from typing import Any

from dashboard.tabs.tables import Cell, Row, button, cell, row
from dashboard.words import NONE, count, lasted, number, time
from schemas.api.status import GovernorStatus, ReaderStatus

STATES = {"starting": "◔", "running": "●", "stopping": "◑", "failed": "✕"}
CEILINGS = ("commit_p99_ms", "backlog_triggers")
NO_CEILING = ("○ off", "No ceiling is set: every reader may ask.")


def workload_rows(readers: Mapping[str, ReaderStatus], *, is_dead: bool) -> list[Row]:
    """A row a workload; without data no rate looks as if it were of now."""
    return [_row(name, reader, is_dead=is_dead) for name, reader in readers.items()]


def running(readers: Mapping[str, ReaderStatus]) -> str:
    """How many of them run."""
    return f"{count(sum(one.state != 'failed' for one in readers.values()))} running" if readers else ""


def _row(name: str, reader: ReaderStatus, *, is_dead: bool) -> Row:
    def rate(value: float | None, *, over: bool = False) -> Cell:
        return cell(NONE, -1) if is_dead else cell(number(value), -1 if value is None else value, over=over)

    latency, state = reader.latency_ms, reader.state.value
    percent = None if reader.efficiency is None else 100 * reader.efficiency
    return row(
        name,
        name=name,
        asks=f"{reader.kind} of {reader.group}",
        state=cell(
            f"{STATES.get(state, '○')} {state}{f': {reader.problem}' if reader.problem else ''}",
            over=state == "failed" or bool(reader.problem),
        ),
        clients=cell(
            f"{count(reader.admitted)} of {count(reader.clients)}",
            reader.admitted,
            over=reader.admitted < reader.clients,
        ),
        rate=rate(reader.rate),
        rows=rate(reader.row_rate),
        p50=rate(latency.p50),
        p99=rate(latency.p99, over=latency.p99 is not None and latency.p99 > reader.deadline_ms),
        max=rate(latency.max),
        deadline=cell(number(reader.deadline_ms, 0), reader.deadline_ms),
        efficiency=cell(
            NONE if percent is None else f"{percent:.{1 if percent < 100 else 0}f} %",
            -1 if percent is None else percent,
        ),
        slipped=cell(lasted(reader.slipped_s) if reader.slipped_s else NONE, reader.slipped_s),
        failed=cell(count(reader.failed), reader.failed, over=reader.failed > 0),
        since=cell(time(reader.since_ns / 1e6), reader.since_ns),
        stop=button("Stop", f"Stop {name}"),
    )


def ceilings(governor: GovernorStatus | None) -> dict[str, Any]:
    """The ceilings in force by their names; None where there is none."""
    if governor is None or governor.state == "off":
        return dict.fromkeys(CEILINGS)
    return {name: getattr(governor, name) for name in CEILINGS}


def governor_words(governor: GovernorStatus | None) -> tuple[str, str]:
    """Whether the governor is on and what it keeps to, and what it does and why."""
    if governor is None or governor.state == "off":
        return NO_CEILING
    parts = []
    if governor.commit_p99_ms is not None:
        parts.append(f"commit p99 below {number(governor.commit_p99_ms)} ms")
    if governor.backlog_triggers is not None:
        parts.append(f"backlog below {count(governor.backlog_triggers)} triggers")
    return f"● on: {', '.join(parts)}", f"{governor.state.value}: {governor.reason}"
