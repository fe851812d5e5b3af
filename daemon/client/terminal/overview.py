"""The status of a daemon, laid out for a terminal, once or again and again."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from daemon.client.api.asking import STATUS_WITHIN_S, DaemonGone, ask_status
from daemon.client.api.reach import Reach
from daemon.client.terminal.tables import alarm_lines, readers_table
from daemon.core.words import duration, ms
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


EVENTS = 5
EVENT_LINES = 4
"""Lines that the newest events have of a small terminal, whatever else there is."""
FIGURE_LINES = 6
"""Lines that alarms leave to the figures if each alarm has one."""
LONG = 40
"""Lines from which on a terminal is not small."""
MORE_ALARMS = "… {} more alarms: `triggerlog alarms`"


Line = list[Segment]


def lines_of(console: Console, options: ConsoleOptions, shown: RenderableType) -> list[Line]:
    """The lines that something takes at a terminal's width, as many as it needs."""
    return console.render_lines(shown, options.update(height=None), pad=False)


def cut(console: Console, options: ConsoleOptions, text: Text, most: int) -> list[Line]:
    """A text in so many lines at most; an ellipsis says that it goes on."""
    wrapped = list(text.wrap(console, options.max_width))
    if len(wrapped) > most:
        last = wrapped[most - 1]
        last.rstrip()
        last.truncate(options.max_width - 2)
        last.append(" …")
        wrapped = wrapped[:most]
    return [line for part in wrapped for line in lines_of(console, options, part)]


def fitting(
    console: Console,
    options: ConsoleOptions,
    texts: Sequence[Text],
    room: int,
    *,
    spared: int,
    more: Callable[[int], Text],
) -> list[Line]:
    """Texts below each other in the lines that there are, the first ones first: in full, in two lines, or in one.

    Args:
        console: what is printed on.
        options: of the console.
        texts: what is shown.
        room: lines that there are.
        spared: lines of these that are left free as long as every text has one.
        more: what stands in the last line where some are left out, by their number.
    """
    for lines in (len(texts) * room, 2, 1):
        shown = [cut(console, options, text, lines) for text in texts if room > 0]
        if sum(map(len, shown)) <= room - spared * (lines > 1):
            return [line for each in shown for line in each]
    some = shown[: room - 1]
    return [line for each in some for line in each] + cut(console, options, more(len(texts) - len(some)), 1)


def as_many_as_fit(
    console: Console, options: ConsoleOptions, room: int, most: int, made: Callable[[int], RenderableType]
) -> list[Line]:
    """The largest of the views that `made` gives for 1 to `most` that has room; nothing where none has."""
    for count in range(most, 0, -1):
        lines = lines_of(console, options, made(count))
        if len(lines) <= room:
            return lines
    return []


class Overview:
    """A whole status: the daemon and its database, alarms, groups and readers, refusals, the last events.

    A live one fills no more lines than the terminal has, which would cut off what is below: the alarms come first, then
    the newest events, and then as many figures as have room.
    """

    def __init__(self, status: Status, where: str, *, is_live: bool) -> None:
        self._status = status
        self._where = where
        self._is_live = is_live

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out."""
        if not self._is_live:
            yield from self._in_full()
            return
        # rich gives a live view no height, though it cuts at that of the terminal.
        height = console.height if options.height is None else options.height
        for line in self._in_lines(console, options, height):
            yield from line
            yield Segment.line()

    def _in_full(self) -> Iterator[RenderableType]:
        status = self._status
        yield _header(status, self._where)
        yield from alarm_lines(status.alarms, status.time_ns)
        if status.groups:
            yield _groups(status.groups)
        yield from _notes(status)
        yield from map(_event, status.events[:EVENTS])

    def _in_lines(self, console: Console, options: ConsoleOptions, height: int) -> list[Line]:
        status = self._status
        header = lines_of(console, options, _header(status, self._where, is_short=height < LONG))
        room = height - len(header)
        alarms = alarm_lines(status.alarms, status.time_ns)
        shown = fitting(
            console,
            options,
            alarms,
            max(1, room - EVENT_LINES),
            spared=FIGURE_LINES,
            more=lambda count: Text(MORE_ALARMS.format(count), "bold"),
        )
        room -= len(shown)
        events = _events(console, options, status, min(EVENT_LINES, room))
        room -= len(events)
        figures: list[Line] = []
        if status.groups:
            figures = as_many_as_fit(console, options, room, len(_IMPORTANT), partial(_groups, status.groups))
            room -= len(figures)
        notes: list[Line] = []
        for note in _notes(status):
            lines = lines_of(console, options, note)
            if len(lines) <= room:
                notes += lines
                room -= len(lines)
        events = _events(console, options, status, len(events) + room)
        return [*header, *shown, *figures, *notes, *events]


def overview(status: Status, where: str, *, is_live: bool = False) -> Overview:
    """Lay out a whole status of the daemon at this address."""
    return Overview(status, where, is_live=is_live)


def _notes(status: Status) -> Iterator[RenderableType]:
    """What is said of some daemons only: a journal that is not written, readers, visits, refusals."""
    for name, group in status.groups.items():
        if group.journal_problem is not None:
            yield Text(f"{name}: the journal is not written: {group.journal_problem}", "bold red")
    for name, intake in status.intakes.items():
        if intake.waiting or intake.problem:
            yield _intake(name, intake)
    if status.readers:
        yield readers_table(status.readers)
        if status.governor is not None and status.governor.state != GovernorState.OFF:
            yield Text(f"governor: {status.governor.reason}")
    if status.visits is not None:
        yield _visits(status.visits)
    refused = _refused(status)
    if refused:
        yield Text.assemble(("Refused  ", "bold"), (", ".join(refused), "yellow"))


def _events(console: Console, options: ConsoleOptions, status: Status, room: int) -> list[Line]:
    """As many of the newest events as have room, each in two lines at most."""
    lines: list[Line] = []
    for event in status.events[:EVENTS]:
        more = cut(console, options, _event(event), min(2, room - len(lines))) if room > len(lines) else []
        lines += more
    return lines


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


def _header(status: Status, where: str, *, is_short: bool = False) -> Panel:
    """is_short: of many sources only how many there are."""
    words, style = _STATES[status.state]
    first = Text.assemble((words, style), f"   up {duration(status.uptime_s)}   ")
    first.append(f"{status.cpu_percent:.0f} % of a core, {status.memory_mib:.0f} MiB", "dim")
    sources = _sources(status)
    if is_short and len(sources) > 1:
        readings = sum(source.received for source in status.sources)
        sources = [Text(f"{len(sources)} sources, {readings:,} readings", "dim")]
    lines = [first, _store(status.store, is_short=is_short), *sources]
    title = Text.assemble((status.logger, "bold"), f" · triggerlog {status.version} · {where}")
    return Panel(Group(*lines), title=title, title_align="left", box=box.ROUNDED, border_style="dim")


def _store(store: StoreStatus, *, is_short: bool = False) -> Text:
    """is_short: an alarm says the rest."""
    text = Text.assemble((f"{store.backend} {store.version}", "bold"), f" · {store.durability} · {store.target}")
    if not store.available:
        text.append(f"\n✗ away for {store.away_s:.0f} s: {store.problem or 'no reason given'}", "bold red")
    if store.retries:
        text.append(f" · {store.retries:,} transactions tried again", "yellow")
    for durability, shortfall in () if is_short else store.shortfall.items():
        text.append(f"\n▲ durability {durability} is not kept: {shortfall}", "yellow")
    return text


def _sources(status: Status) -> list[Text]:
    return [
        Text(f"{source.kind} {source.address}: {source.connections} connections, {source.received:,} readings", "dim")
        for source in status.sources
    ]


def _intake(group: str, intake: IntakeStatus) -> Text:
    waiting = f"{intake.waiting:,} readings wait for the database to answer, " if intake.waiting else ""
    text = Text.assemble((f"{group}  ", "bold"), f"{waiting}{intake.log_mib:,.1f} MiB in the journal")
    if intake.waiting and intake.unsynced:
        text.append(f" · {intake.unsynced:,} not on the disk yet")
    if intake.problem is not None:
        text.append(f" · {intake.problem}", "bold red")
    return text


_IMPORTANT = (
    "triggers/s committed",
    "commit p50, p99 (ms)",
    "triggers open, waiting",
    "instruments missing now",
    "journal",
    "backlog",
    "at risk",
    "trigger numbers skipped",
    "out of step",
    "readings/s committed",
    "triggers/s closed",
    "run, newest trigger",
    "complete, incomplete",
    "missing a trigger",
    "readings late, duplicate",
    "instruments",
    "layout, durability",
)
"""The figures of a group, in the order in which they are worth a line of a small terminal."""


def _groups(groups: Mapping[str, GroupStatus], most: int = len(_IMPORTANT)) -> Table:
    """A column a group, so that many figures of a few groups fit a terminal of 80 columns.

    most: so many figures at most, the most important ones.
    """
    wanted = _IMPORTANT[:most]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=most == len(_IMPORTANT))
    table.add_column("")
    for name in groups:
        table.add_column(name, justify="right", overflow="fold")
    columns = [_figures(group) for group in groups.values()]
    for label in columns[0] if columns else ():
        if label in wanted:
            table.add_row(label, *(column[label] for column in columns))
    return table


def _figures(group: GroupStatus) -> dict[str, str | Text]:
    triggers, readings, latency = group.triggers, group.readings, group.commit_ms
    slowest = ms(latency.p99) if latency.is_p99_known else f"longest {ms(latency.max)}"
    paused = " senders held back" if group.backpressure else ""
    missing = f"▲ {group.missing_now}" if group.missing_now else "–" if group.missing_now is None else "0"
    return {
        "instruments": f"{group.instruments:,}",
        "layout, durability": f"{group.layout}, {group.durability}",
        "at risk": _at_risk(group),
        "run, newest trigger": f"{group.run}, {'–' if triggers.newest is None else triggers.newest}",
        "triggers/s closed": f"{triggers.rate:,.1f}",
        "triggers/s committed": f"{triggers.commit_rate:,.1f}",
        "readings/s committed": f"{readings.commit_rate:,.0f}",
        "commit p50, p99 (ms)": f"{ms(latency.p50)}, {slowest}",
        "triggers open, waiting": f"{triggers.open:,}, {triggers.waiting:,}",
        "backlog": Text(f"{group.backlog_mib:,.1f} MiB in memory{paused}", "bold red" if paused else ""),
        "journal": f"{group.journal_mib:,.1f} MiB on disk{_outlook(group)}",
        "complete, incomplete": f"{triggers.complete:,}, {triggers.incomplete:,}",
        "trigger numbers skipped": Text(f"{triggers.skipped:,}", "yellow" if triggers.skipped_lately.count else ""),
        "instruments missing now": Text(missing, "yellow" if group.missing_now else ""),
        "out of step": Text(_out_of_step(group), "bold yellow" if group.desynchronised_now else ""),
        "missing a trigger": "–" if group.missing_a_trigger is None else f"{group.missing_a_trigger:,.2f}",
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
    size = first.kind.value if first.kind in (SlipKind.STUCK, SlipKind.IRREGULAR) else size
    more = f" and {group.desynchronised_now - 1:,} more" if group.desynchronised_now > 1 else ""
    return f"≠ {first.instrument} {size}{more}"


def _at_risk(group: GroupStatus) -> str | Text:
    if group.at_risk_ms is None:
        return Text(f"all {group.readings.at_risk:,} readings", "yellow")
    return f"{group.readings.at_risk:,} readings, {group.at_risk_ms:g} ms" if group.at_risk_ms else "0"


def _refused(status: Status) -> list[str]:
    groups = [(f"{name}: ", group.readings.refused) for name, group in status.groups.items()]
    groups += [(f"{name}: ", intake.refused) for name, intake in status.intakes.items()]
    sources = [(f"{source.kind} {source.address}: ", source.refused) for source in status.sources]
    reasons = [f"{who}{reason} {n:,}" for who, refused in groups + sources for reason, n in refused.items() if n]
    for name, intake in status.intakes.items():
        reasons += [f"{name}: lost, {how} {n:,}" for how, n in intake.lost.items() if n]
    for name, group in status.groups.items():
        readings, letters = group.readings, group.dead_letters
        reasons += [f"{name}: set aside, {reason} {n:,}" for reason, n in readings.aside.items() if n]
        reasons += [f"{name}: lost, {how} {n:,}" for how, n in readings.lost.items() if n]
        reasons += [f"{name}: dead letters {letters.readings:,}"] if letters.letters else []
        if group.dead_now and not letters.letters:
            reasons.append(f"{name}: {group.dead_now:,} readings in neither the database nor the dead letters")
    lost = [f"{s.kind} {s.address}: lost datagrams {s.lost_datagrams:,}" for s in status.sources if s.lost_datagrams]
    return [*reasons, *lost]


def _event(event: Event) -> Text:
    clock = time.strftime("%H:%M:%SZ", time.gmtime(event.time_ns / 1e9))
    return Text.assemble(
        (f"{clock} ", "dim"), (f"{event.severity:<8}", _SEVERITIES.get(event.severity, "")), event.text
    )


async def watch(daemon: Reach, every_s: float, console: Console) -> None:
    """Show the status again and again until cancelled; while the daemon is gone, show that, and since when."""
    last: Status | None = None
    answered = time.monotonic()
    async with daemon.client(STATUS_WITHIN_S) as client:
        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                try:
                    last, answered = await ask_status(client), time.monotonic()
                    view: RenderableType = overview(last, daemon.url, is_live=True)
                except DaemonGone as gone:
                    view = absence(last, str(gone), time.monotonic() - answered)
                live.update(view, refresh=True)
                await asyncio.sleep(every_s)  # the rhythm of the view that the operator asked for


class Absence:
    """The daemon is gone; its last status is grey, so that no stale number looks live."""

    def __init__(self, last: Status | None, reason: str, since_s: float) -> None:
        lines = [
            Text(f"✗ NO DATA for {since_s:.0f} s", "bold red"),
            Text(reason),
            Text("Trying again; Ctrl-C ends.", "dim"),
        ]
        self._notice = Panel(Group(*lines), border_style="red", box=box.ROUNDED)
        self._stale = None if last is None else overview(last, "last known", is_live=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out, in as many lines as there are."""
        notice = lines_of(console, options, self._notice)
        for line in notice:
            yield from line
            yield Segment.line()
        if self._stale is not None:
            height = console.height if options.height is None else options.height
            stale = console.render(self._stale, options.update(height=max(0, height - len(notice))))
            yield from Segment.apply_style(Segment.strip_styles(stale), Style(dim=True))


def absence(last: Status | None, reason: str, since_s: float) -> Absence:
    """Show that the daemon is gone, for so many seconds and for this reason."""
    return Absence(last, reason, since_s)
