"""`triggerlog status`, `events` and `alarms`: what a daemon does, what happened, and what is wrong."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer
from rich.text import Text

from daemon.client.api.asking import PATIENCE_S, DaemonGone, ask
from daemon.client.api.reach import Reach, file_of
from daemon.client.terminal.tables import alarm_lines
from daemon.core.configuration import load_config
from daemon.core.moments import duration_ns
from daemon.core.monitoring.event_log import read_events
from daemon.core.outcome import CommandFailed, examples, reason_of
from daemon.core.words import utc
from daemon.tools.answers import print_answer
from daemon.tools.console import FILE_WIDTH
from daemon.tools.options import App, AsJson, ConfigFile, Connection, Credentials
from schemas.api.alarms import SHELVED_MOST_S, Alarms
from schemas.api.control import EventList
from schemas.api.status import Event
from schemas.states import Severity

if TYPE_CHECKING:
    import httpx


EPILOG = {
    "status": examples(
        "triggerlog status",
        "triggerlog status --once",
        "triggerlog status --json | jq .groups.bpm.triggers",
        "triggerlog status beam.toml",
        "triggerlog status --daemon https://control-node-1:8120 --ca site-ca.crt --token-file token",
    ),
    "events": examples(
        "triggerlog events beam.toml --last 12h --severity warning",
        "triggerlog events --follow",
        "triggerlog events beam.toml --last 1h --json | jq -r .text",
    ),
}


def status(
    connection: Connection,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it once, as JSON of the API.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=60, metavar="SECONDS", help="Time between two updates.")] = 0.5,
) -> None:
    """Show the status of the daemon live: rates, latency, what waits, what is missing, what was refused."""
    # Imported here: the help is shown without the client and the tables.
    from daemon.client.api.asking import fetch  # noqa: PLC0415
    from daemon.client.terminal.overview import overview, watch  # noqa: PLC0415
    from daemon.tools.console import make_console  # noqa: PLC0415

    console = make_console()
    found = connection.reach()
    if not (once or as_json or not console.is_terminal):
        try:
            asyncio.run(watch(found, every, console))
        except KeyboardInterrupt:
            return
    answer = asyncio.run(fetch(found))
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
    else:
        console.print(overview(answer, found.url))


PATH = "/api/v1/events"
EVERY_S = 1.0
MOST = 10_000


def events(
    file: ConfigFile = None,
    *,
    last: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Those of the last 90s, 30m, 12h, 7d or 2w.")
    ] = None,
    severity: Annotated[Severity, typer.Option(help="Those that matter as much as this.")] = Severity.INFO,
    most: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="At most so many, the newest. [default: 100, with --last all]")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what happens, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print an event a line, as JSON.")] = False,
    credentials: Credentials,
) -> None:
    """Print what the daemon reported and which commands it was given, the oldest first.

    Where the daemon does not answer, they are read from the state folder that FILE names.
    """
    file = file_of(file, credentials.daemon)
    found = credentials.reach(file)
    start_ns = 0 if last is None else time.time_ns() - duration_ns(last, "--last")
    if most is None:
        most = 100 if last is None else MOST
    wanted = _Wanted(start_ns=start_ns, severity=severity, most=most)
    show = _json if as_json else _line
    try:
        asyncio.run(_from_daemon(found, wanted, show, follow=follow))
    except KeyboardInterrupt:
        return
    except DaemonGone as gone:
        if file is None or follow:
            raise
        _from_folder(file, gone, wanted, show)


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """Which events: from a time on (ns since 1970-01-01 UTC), that matter as much as this, at most so many."""

    start_ns: int
    severity: Severity
    most: int


async def _from_daemon(daemon: Reach, wanted: _Wanted, show: Callable[[Event], str], *, follow: bool) -> None:
    async with daemon.client(PATIENCE_S) as client:
        found = await _ask(client, wanted)
        _print(found, wanted, show)
        last = found.events
        while follow:
            await asyncio.sleep(EVERY_S)  # the rhythm of a view
            start_ns = last[-1].time_ns if last else wanted.start_ns
            newest = await _again(client, replace(wanted, start_ns=start_ns, most=MOST))
            fresh = [event for event in newest.events if event not in last]
            _print(EventList(events=fresh, cut=False), wanted, show)
            last = newest.events or last


async def _ask(client: "httpx.AsyncClient", wanted: _Wanted) -> EventList:
    query = {"start_ns": wanted.start_ns, "severity": wanted.severity.value, "last": wanted.most}
    answer = await ask(client, "GET", f"{PATH}?{urlencode(query)}")
    return EventList.model_validate_json(answer.content)


async def _again(client: "httpx.AsyncClient", wanted: _Wanted) -> EventList:
    """Ask until there is an answer; that the daemon is gone is printed once."""
    is_printed = False
    while True:
        try:
            return await _ask(client, wanted)
        except DaemonGone as gone:
            if not is_printed:
                typer.echo(f"triggerlog: {gone}; trying again, Ctrl-C ends", err=True)
            is_printed = True
            await asyncio.sleep(EVERY_S)


def _from_folder(file: Path, gone: DaemonGone, wanted: _Wanted, show: Callable[[Event], str]) -> None:
    state_dir = load_config(file, asks_database=False).state_dir
    try:
        every = read_events(state_dir)
    except OSError as error:
        raise CommandFailed(f"{gone}; and the events in {state_dir} cannot be read: {reason_of(error)}") from None
    typer.echo(f"triggerlog: {gone}. These are the events in {state_dir}:", err=True)
    found = [event for event in every if event.time_ns >= wanted.start_ns and event.severity in wanted.severity.or_more]
    _print(EventList(events=found[-wanted.most :], cut=len(found) > wanted.most), wanted, show)


def _print(found: EventList, wanted: _Wanted, show: Callable[[Event], str]) -> None:
    if found.cut:
        typer.echo(f"There may be earlier ones: these are the newest {wanted.most:,} (--most).", err=True)
    for event in found.events:
        typer.echo(show(event))


def _line(event: Event) -> str:
    return f"{utc(event.time_ns)} {event.severity:<7} {event.text}"


def _json(event: Event) -> str:
    return event.model_dump_json()


app = App(
    name="alarms",
    invoke_without_command=True,
    epilog=examples("triggerlog alarms", "triggerlog alarms beam.toml --json"),
)

ALARMS = "/api/v1/alarms"

Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of an alarm, as the list has it.", show_default=False)]


@app.callback()
def list_(context: typer.Context, *, connection: Connection, as_json: AsJson = False) -> None:
    """List what is wrong and what to do about it; acknowledge or shelve alarms."""
    if context.invoked_subcommand is not None:
        # What stands before the command holds for it, too: an order must not go to another daemon.
        given = {name: value for name, value in vars(connection).items() if value is not None}
        context.default_map = {context.invoked_subcommand: given}
        return
    answer = connection.ask("GET", ALARMS)
    print_answer(as_json, answer.text, lambda: _alarm_lines(answer.content), "There is no alarm.", width=FILE_WIDTH)


def _alarm_lines(answer: bytes) -> list[Text]:
    return alarm_lines(Alarms.model_validate_json(answer).root, time.time_ns(), with_keys=True)


@app.command(epilog=examples("triggerlog alarms acknowledge store", "triggerlog alarms acknowledge --all beam.toml"))
def acknowledge(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Keys, as the list has them.", show_default=False)
    ] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All that nobody has dealt with.")] = False,
    connection: Connection,
) -> None:
    """Mark alarms as seen, for everybody, until they end or become worse. This needs the API's token."""
    if bool(keys) == all_:
        raise CommandFailed("name the keys of alarms, or give --all" + "; not both" * all_)
    connection.ask("POST", f"{ALARMS}/acknowledge", {} if all_ else {"keys": keys})
    typer.echo(f"{'all' if all_ else ', '.join(keys or ())}: acknowledged")


@app.command(epilog=examples("triggerlog alarms shelve instruments --for 2h beam.toml"))
def shelve(
    key: Key,
    *,
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="For 30m or 2h; a day at most.")],
    connection: Connection,
) -> None:
    """Put an alarm away for a time, for everybody and for Prometheus. This needs the API's token."""
    for_s = duration_ns(for_, "--for") / 1e9
    if for_s > SHELVED_MOST_S:
        raise CommandFailed(f"--for: {for_} is longer than a day; shelve it for 24h, and then again")
    connection.ask("POST", f"{ALARMS}/shelve", {"key": key, "for_s": for_s})
    typer.echo(f"{key}: shelved for {for_}")


@app.command(epilog=examples("triggerlog alarms unshelve instruments beam.toml"))
def unshelve(key: Key, connection: Connection) -> None:
    """Undo a shelf, or an acknowledgement: the alarm is shown in full again. This needs the API's token."""
    connection.ask("POST", f"{ALARMS}/reactivate", {"key": key})
    typer.echo(f"{key}: shown in full again")
