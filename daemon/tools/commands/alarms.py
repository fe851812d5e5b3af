"""`triggerlog alarms`: what is wrong; acknowledge an alarm, shelve it, show it in full again."""

import time
from typing import Annotated

import typer
from rich.text import Text

from daemon.client.terminal.tables import alarm_lines
from daemon.core.moments import duration_ns
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.console import FILE_WIDTH
from daemon.tools.options import App, AsJson, Connection, print_answer
from schemas.api.alarms import SHELVED_MOST_S, Alarms

app = App(
    name="alarms",
    invoke_without_command=True,
    epilog=examples("triggerlog alarms", "triggerlog alarms beam.toml --json"),
)

PATH = "/api/v1/alarms"

Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of an alarm, as the list has it.", show_default=False)]


@app.callback()
def list_(context: typer.Context, *, connection: Connection, as_json: AsJson = False) -> None:
    """List what is wrong and what to do about it; acknowledge or shelve alarms."""
    if context.invoked_subcommand is not None:
        # What stands before the command holds for it, too: an order must not go to another daemon.
        given = {name: value for name, value in vars(connection).items() if value is not None}
        context.default_map = {context.invoked_subcommand: given}
        return
    answer = connection.ask("GET", PATH)
    print_answer(as_json, answer.text, lambda: _lines(answer.content), "There is no alarm.", width=FILE_WIDTH)


def _lines(answer: bytes) -> list[Text]:
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
    connection.ask("POST", f"{PATH}/acknowledge", {} if all_ else {"keys": keys})
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
    connection.ask("POST", f"{PATH}/shelve", {"key": key, "for_s": for_s})
    typer.echo(f"{key}: shelved for {for_}")


@app.command(epilog=examples("triggerlog alarms unshelve instruments beam.toml"))
def unshelve(key: Key, connection: Connection) -> None:
    """Undo a shelf, or an acknowledgement: the alarm is shown in full again. This needs the API's token."""
    connection.ask("POST", f"{PATH}/reactivate", {"key": key})
    typer.echo(f"{key}: shown in full again")
