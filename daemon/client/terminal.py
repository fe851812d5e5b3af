"""The daemon's status as a terminal shows it: `triggerlog status`."""

import asyncio
import time
from collections.abc import Mapping

import httpx
from pydantic import ValidationError
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from daemon.client.reach import Reach
from daemon.client.readers_table import readers_table
from daemon.core.words import ms
from daemon.web.tls import why_untrusted
from schemas.api.status import Event, GroupStatus, State, Status, StoreStatus
from schemas.api.visits import VisitsStatus
from schemas.states import GovernorState

PATH = "/api/v1/status"
PATIENCE_S = 2.0

_STATES: Mapping[State, tuple[str, str]] = {
    State.STARTING: ("… starting", "yellow"),
    State.RUNNING: ("● running", "green"),
    State.STORE_AWAY: ("▲ database away, readings wait", "bold red"),
    State.STOPPING: ("■ stopping", "yellow"),
}
_SEVERITIES = {"info": "", "warning": "yellow", "error": "bold red"}


class DaemonGone(Exception):
    """The daemon does not answer; the message is one line for an operator."""


async def ask(client: httpx.AsyncClient, method: str, path: str, body: object = None) -> httpx.Response:
    """Ask the daemon something, or tell it to do something; `body` goes as JSON where there is any.

    Raises:
        DaemonGone: it does not answer, or refuses.
    """
    where = str(client.base_url).rstrip("/")
    try:
        answer = await client.request(method, path, json=body)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        untrusted = why_untrusted(error)
        if untrusted is not None:
            raise DaemonGone(f"{where}: {untrusted} (--daemon, --ca)") from None
        reason = str(error) or type(error).__name__
        raise DaemonGone(f"no daemon at {where} ({reason}); start it with `triggerlog run FILE`") from None
    if answer.is_success:
        return answer
    raise DaemonGone(_refusal(where, answer))


def _refusal(where: str, answer: httpx.Response) -> str:
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{where} answers {answer.status_code}; is it a triggerlog daemon?"
    mend = " (name the configuration file, or give --token-file or TRIGGERLOG_TOKEN)" * (answer.status_code == 401)
    return f"{where} answers {answer.status_code}: {detail}{mend}"


async def ask_status(client: httpx.AsyncClient) -> Status:
    """Ask the daemon how it is.

    Raises:
        DaemonGone: it does not answer, or what answers is no triggerlog daemon of this version.
    """
    answer = await ask(client, "GET", PATH)
    try:
        return Status.model_validate_json(answer.content)
    except ValidationError:
        where = str(client.base_url).rstrip("/")
        raise DaemonGone(f"{where} answers in a way this version does not know; compare the versions") from None


async def fetch(daemon: Reach) -> Status:
    """Ask once.

    Raises:
        DaemonGone: the daemon does not answer.
    """
    async with daemon.client(PATIENCE_S) as client:
        return await ask_status(client)


async def watch(daemon: Reach, every_s: float, console: Console) -> None:
    """Show the status over and over until cancelled; while the daemon is gone say so, and since when."""
    last: Status | None = None
    answered = time.monotonic()
    async with daemon.client(PATIENCE_S) as client:
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                try:
                    last, answered = await ask_status(client), time.monotonic()
                    view = overview(last, daemon.url)
                except DaemonGone as gone:
                    view = absence(last, str(gone), time.monotonic() - answered)
                live.update(view, refresh=True)
                await asyncio.sleep(every_s)  # the rhythm of the view that the operator asked for


def absence(last: Status | None, reason: str, since_s: float) -> RenderableType:
    """Say that the daemon is gone; what it said last is shown grey, so that no stale number looks live."""
    lines = [
        Text(f"✗ NO DATA for {since_s:.0f} s", "bold red"),
        Text(reason),
        Text("Trying again; Ctrl-C ends.", "dim"),
    ]
    notice = Panel(Group(*lines), border_style="red", box=box.ROUNDED)
    if last is None:
        return notice
    stale = overview(last, "last known")
    return Group(notice, _grey(stale))


def _grey(view: RenderableType) -> Text:
    console = Console(width=110, record=False, no_color=True, markup=False)
    with console.capture() as captured:
        console.print(view)
    return Text(captured.get(), "dim")


def overview(status: Status, where: str) -> RenderableType:
    """Lay out a whole status: the daemon, its database, its groups and readers, refusals, the last events."""
    parts: list[RenderableType] = [_header(status, where), _groups(status.groups)]
    if status.readers:
        parts.append(readers_table(status.readers))
        if status.governor is not None and status.governor.state is not GovernorState.OFF:
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
    held = " senders held back" if group.backpressure else ""
    lacking = f"▲ {group.missing_now}" if group.missing_now else "0"
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
        "backlog": Text(f"{group.backlog_mib:,.1f} MiB in memory{held}", "bold red" if held else ""),
        "journal": f"{group.journal_mib:,.1f} MiB on disk{_outlook(group)}",
        "complete, incomplete": f"{triggers.complete:,}, {triggers.incomplete:,}",
        "instruments missing now": Text(lacking, "yellow" if group.missing_now else ""),
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
    more = f" and {group.desynchronised_now - 1:,} more" if group.desynchronised_now > 1 else ""
    return f"≠ {first.instrument} {size}{more}"


def _at_risk(group: GroupStatus) -> str | Text:
    if group.at_risk_ms is None:
        return Text(f"all {group.readings.at_risk:,} readings", "yellow")
    return f"{group.readings.at_risk:,} readings, {group.at_risk_ms:g} ms" if group.at_risk_ms else "0"


def _refused(status: Status) -> list[str]:
    groups = [(f"{name}: ", group.readings.refused) for name, group in status.groups.items()]
    sources = [(f"{source.kind} {source.address}: ", source.refused) for source in status.sources]
    reasons = [f"{who}{reason} {times:,}" for who, refused in groups + sources for reason, times in refused.items()]
    dead = [f"{name}: dead {g.readings.dead:,}" for name, g in status.groups.items() if g.readings.dead]
    dead += [
        f"{n}: dead letters {g.dead_letters.readings:,}" for n, g in status.groups.items() if g.dead_letters.letters
    ]
    lost = [f"{s.kind} {s.address}: lost datagrams {s.lost_datagrams:,}" for s in status.sources if s.lost_datagrams]
    return [*(reason for reason in reasons if not reason.endswith(" 0")), *dead, *lost]


def _event(event: Event) -> Text:
    clock = time.strftime("%H:%M:%SZ", time.gmtime(event.time_ns / 1e9))
    return Text.assemble(
        (f"{clock} ", "dim"), (f"{event.severity:<8}", _SEVERITIES.get(event.severity, "")), event.text
    )


def duration(seconds: float) -> str:
    """Say a duration as a person does: `42 s`, `3 min 20 s`, `5 h 07 min`, `2 d 05 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02d} h"
