"""One status of a daemon, laid out for a terminal."""

import time
from collections.abc import Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from daemon.client.readers_table import readers_table
from daemon.core.words import ms
from schemas.api.status import Event, GroupStatus, IntakeStatus, Status, StoreStatus
from schemas.api.visits import VisitsStatus
from schemas.states import DaemonState, GovernorState, SlipKind

_STATES: Mapping[DaemonState, tuple[str, str]] = {
    DaemonState.STARTING: ("… starting", "yellow"),
    DaemonState.RUNNING: ("● running", "green"),
    DaemonState.STORE_AWAY: ("▲ database away, readings wait", "bold red"),
    DaemonState.STOPPING: ("■ stopping", "yellow"),
}
_SEVERITIES = {"info": "", "warning": "yellow", "error": "bold red"}


def overview(status: Status, where: str) -> RenderableType:
    """Lay out a whole status: the daemon, its database, its groups and readers, refusals, the last events."""
    parts: list[RenderableType] = [_header(status, where)]
    if status.groups:
        parts.append(_groups(status.groups))
    parts += [
        Text(f"{name}: the journal is not written: {group.journal_problem}", "bold red")
        for name, group in status.groups.items()
        if group.journal_problem is not None
    ]
    parts += [_intake(name, intake) for name, intake in status.intakes.items() if intake.waiting or intake.problem]
    if status.readers:
        parts.append(readers_table(status.readers))
        if status.governor is not None and status.governor.state != GovernorState.OFF:
            parts.append(Text(f"governor: {status.governor.reason}"))
    if status.visits is not None:
        parts.append(_visits(status.visits))
    refused = _refused(status)
    if refused:
        parts.append(Text.assemble(("Refused  ", "bold"), (", ".join(refused), "yellow")))
    parts += [_event(event) for event in status.events[:5]]
    return Group(*parts)


def _visits(run: VisitsStatus) -> Text:
    text = Text.assemble(("Visits  ", "bold"), f"{run.state}, {run.done:,} of {run.visits:,} done")
    if run.mean_s is not None:
        text.append(f" · {run.mean_s:.3g} s a visit lately")
    if run.remaining_s:
        text.append(f" · about {duration(run.remaining_s)} left")
    if run.over_limit:
        text.append(f" · {run.over_limit:.1%} over {run.limit_s:g} s", "yellow")
    if run.problem is not None:
        text.append(f" · {run.problem}", "bold red")
    return text


def _header(status: Status, where: str) -> Panel:
    words, style = _STATES[status.state]
    first = Text.assemble((words, style), f"   up {duration(status.uptime_s)}   ")
    first.append(f"{status.cpu_percent:.0f} % of a core, {status.memory_mib:.0f} MiB", "dim")
    lines = [first, _store(status.store), *_sources(status)]
    title = Text.assemble((status.logger, "bold"), f" · triggerlog {status.version} · {where}")
    return Panel(Group(*lines), title=title, title_align="left", box=box.ROUNDED, border_style="dim")


def _store(store: StoreStatus) -> Text:
    text = Text.assemble((f"{store.backend} {store.version}", "bold"), f" · {store.durability} · {store.target}")
    if not store.available:
        text.append(f"\n✗ away for {store.away_s:.0f} s: {store.problem or 'no reason given'}", "bold red")
    if store.retries:
        text.append(f" · {store.retries:,} transactions tried again", "yellow")
    for durability, shortfall in store.shortfall.items():
        text.append(f"\n▲ durability {durability} is not kept: {shortfall}", "yellow")
    return text


def _sources(status: Status) -> list[Text]:
    return [
        Text(f"{source.kind} {source.address}: {source.connections} connections, {source.received:,} readings", "dim")
        for source in status.sources
    ]


def _intake(group: str, intake: IntakeStatus) -> Text:
    waiting = f"{intake.waiting:,} readings wait for the database to answer, " if intake.waiting else ""
    text = Text.assemble((f"{group}  ", "bold"), f"{waiting}{intake.log_mib:,.1f} MiB in the intake's log")
    if intake.problem is not None:
        text.append(f" · {intake.problem}", "bold red")
    return text


def _groups(groups: Mapping[str, GroupStatus]) -> Table:
    """A column a group, so that many figures of a few groups fit a terminal of 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in groups:
        table.add_column(name, justify="right", overflow="fold")
    columns = [_figures(group) for group in groups.values()]
    for label in columns[0] if columns else ():
        table.add_row(label, *(column[label] for column in columns))
    return table


def _figures(group: GroupStatus) -> dict[str, str | Text]:
    triggers, readings = group.triggers, group.readings
    paused = " senders held back" if group.backpressure else ""
    missing = f"▲ {group.missing_now}" if group.missing_now else "0"
    return {
        "instruments": f"{group.instruments:,}",
        "layout, durability": f"{group.layout}, {group.durability}",
        "at risk": _at_risk(group),
        "run, newest trigger": f"{group.run}, {'–' if triggers.newest is None else triggers.newest}",
        "triggers/s closed": f"{triggers.rate:,.1f}",
        "triggers/s committed": f"{triggers.commit_rate:,.1f}",
        "readings/s committed": f"{readings.commit_rate:,.0f}",
        "commit p50, p99 (ms)": f"{ms(group.commit_ms.p50)}, {ms(group.commit_ms.p99)}",
        "triggers open, waiting": f"{triggers.open:,}, {triggers.waiting:,}",
        "backlog": Text(f"{group.backlog_mib:,.1f} MiB in memory{paused}", "bold red" if paused else ""),
        "journal": f"{group.journal_mib:,.1f} MiB on disk{_outlook(group)}",
        "complete, incomplete": f"{triggers.complete:,}, {triggers.incomplete:,}",
        "trigger numbers skipped": Text(f"{triggers.skipped:,}", "yellow" if triggers.skipped_lately.count else ""),
        "instruments missing now": Text(missing, "yellow" if group.missing_now else ""),
        "out of step": Text(_out_of_step(group), "bold yellow" if group.desynchronised_now else ""),
        "missing a trigger": f"{group.missing_a_trigger:,.2f}",
        "readings late, duplicate": f"{readings.late:,}, {readings.duplicate:,}",
    }


def _outlook(group: GroupStatus) -> str:
    if group.drained_in_s:
        return f", drained in {duration(group.drained_in_s)}"
    if group.full_in_s is None:
        return ""
    return f", {'full in' if group.drained_in_s is None else 'room for'} {duration(group.full_in_s)}"


def _out_of_step(group: GroupStatus) -> str:
    if not group.slips:
        return "0"
    first = group.slips[0]
    size = f"{first.triggers:+,} triggers" if first.triggers else f"{first.offset_ms:+,.1f} ms"
    size = "stuck" if first.kind is SlipKind.STUCK else size
    more = f" and {group.desynchronised_now - 1:,} more" if group.desynchronised_now > 1 else ""
    return f"≠ {first.instrument} {size}{more}"


def _at_risk(group: GroupStatus) -> str | Text:
    if group.at_risk_ms is None:
        return Text(f"all {group.readings.at_risk:,} readings", "yellow")
    return f"{group.readings.at_risk:,} readings, {group.at_risk_ms:g} ms" if group.at_risk_ms else "0"


def _refused(status: Status) -> list[str]:
    groups = [(f"{name}: ", group.readings.refused) for name, group in status.groups.items()]
    sources = [(f"{source.kind} {source.address}: ", source.refused) for source in status.sources]
    reasons = [f"{who}{reason} {n:,}" for who, refused in groups + sources for reason, n in refused.items() if n]
    for name, group in status.groups.items():
        readings, letters = group.readings, group.dead_letters
        reasons += [f"{name}: set aside, {reason} {n:,}" for reason, n in readings.aside.items() if n]
        reasons += [f"{name}: lost, {how} {n:,}" for how, n in readings.lost.items() if n]
        reasons += [f"{name}: dead letters {letters.readings:,}"] if letters.letters else []
        # What the letters do not show: it was damaged in the journal, or discarded.
        if group.dead_now and not letters.letters:
            reasons.append(f"{name}: dead since the start {readings.dead:,}, stored since {letters.retried:,}")
    lost = [f"{s.kind} {s.address}: lost datagrams {s.lost_datagrams:,}" for s in status.sources if s.lost_datagrams]
    return [*reasons, *lost]


def _event(event: Event) -> Text:
    clock = time.strftime("%H:%M:%SZ", time.gmtime(event.time_ns / 1e9))
    return Text.assemble(
        (f"{clock} ", "dim"), (f"{event.severity:<8}", _SEVERITIES.get(event.severity, "")), event.text
    )


def duration(seconds: float) -> str:
    """A duration as text: `42 s`, `3 min 20 s`, `5 h 07 min`, `2 d 05 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02d} h"
