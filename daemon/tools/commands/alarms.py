"""`triggerlog alarms`: what is wrong; acknowledge an alarm, shelve it, show it in full again."""

import time
from typing import Annotated

import typer

from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import reach
from daemon.client.terminal.alarms import alarm_lines
from daemon.core.moments import duration_ns
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.console import FILE_WIDTH, make_console
from daemon.tools.options import AsJson, CaFile, ConfigFile, DaemonUrl, TokenFile
from schemas.api.alarms import SHELVED_MOST_S, Alarms

app = typer.Typer(
    name="alarms",
    invoke_without_command=True,
    add_completion=False,
    epilog=examples("triggerlog alarms", "triggerlog alarms beam.toml --json"),
)

PATH = "/api/v1/alarms"

Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of an alarm, as the list has it.", show_default=False)]


@app.callback()
def list_(
    context: typer.Context,
    *,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List what is wrong and what to do about it; acknowledge or shelve alarms."""
    if context.invoked_subcommand is not None:
        # What stands before the command holds for it, too: an order must not go to another daemon.
        given = {"config": config, "daemon": daemon, "token_file": token_file, "ca": ca}
        context.default_map = {
            context.invoked_subcommand: {name: value for name, value in given.items() if value is not None}
        }
        return
    answer = ask_daemon(reach(config, daemon=daemon, token_file=token_file, ca=ca), "GET", PATH)
    if as_json:
        typer.echo(answer.text)
        return
    found = Alarms.model_validate_json(answer.content).root
    console = make_console(highlight=False, file_width=FILE_WIDTH)
    for line in alarm_lines(found, time.time_ns(), with_keys=True):
        console.print(line)
    if not found:
        typer.echo("There is no alarm.")


@app.command(epilog=examples("triggerlog alarms acknowledge store", "triggerlog alarms acknowledge --all beam.toml"))
def acknowledge(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Keys, as the list has them.", show_default=False)
    ] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All that nobody has dealt with.")] = False,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Mark alarms as seen, for everybody, until they end or become worse. This needs the API's token."""
    if bool(keys) == all_:
        raise CommandFailed("name the keys of alarms, or give --all" + "; not both" * all_)
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    ask_daemon(found, "POST", f"{PATH}/acknowledge", {} if all_ else {"keys": keys})
    typer.echo(f"{'all' if all_ else ', '.join(keys or ())}: acknowledged")


@app.command(epilog=examples("triggerlog alarms shelve instruments --for 2h beam.toml"))
def shelve(
    key: Key,
    *,
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="For 30m or 2h; a day at most.")],
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Put an alarm away for a time, for everybody and for Prometheus. This needs the API's token."""
    for_s = duration_ns(for_, "--for") / 1e9
    if for_s > SHELVED_MOST_S:
        raise CommandFailed(f"--for: {for_} is longer than a day; shelve it for 24h, and then again")
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    ask_daemon(found, "POST", f"{PATH}/shelve", {"key": key, "for_s": for_s})
    typer.echo(f"{key}: shelved for {for_}")


@app.command(epilog=examples("triggerlog alarms unshelve instruments beam.toml"))
def unshelve(
    key: Key,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Undo a shelf, or an acknowledgement: the alarm is shown in full again. This needs the API's token."""
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    ask_daemon(found, "POST", f"{PATH}/reactivate", {"key": key})
    typer.echo(f"{key}: shown in full again")
