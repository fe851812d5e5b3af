"""`triggerlog readers` and `triggerlog governor`: reader workloads of a daemon, and what holds readers back."""

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import RenderableType

from daemon.client.terminal.tables import readers_table
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.answers import print_answer
from daemon.tools.options import App, AsJson, Connection
from schemas.api.status import GovernorStatus, ReaderStatus, Status
from schemas.config.workloads import MOST_CLIENTS, GovernorConfig, Workload, WorkloadKind

app = App(name="readers", help="List, start or stop the reader workloads of a daemon.", no_args_is_help=True)

PATH = "/api/v1/readers"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the workload.", show_default=False)]


def _option(field: str, **more: Any) -> Any:
    info = Workload.model_fields[field]
    return typer.Option(help=(info.description or "").replace("`", ""), show_default=info.default is not None, **more)


@app.command("list", epilog=examples("triggerlog readers list", "triggerlog readers list --json | jq .displays.rate"))
def list_(connection: Connection, as_json: AsJson = False) -> None:
    """Show the workloads that run: how often and how fast they are answered, and how many answers are in time."""
    answer = connection.ask("GET", PATH)

    def table() -> Iterator[RenderableType]:
        if found := {name: ReaderStatus.model_validate(status) for name, status in answer.json().items()}:
            yield readers_table(found)

    print_answer(as_json, answer.text, table, "No reader workload runs.")


@app.command(
    epilog=examples(
        "triggerlog readers start displays --kind newest --clients 10 --period 0.5 --deadline 0.2",
        "triggerlog readers start shift --kind history --stretch 7200 --step 60 beam.toml",
    )
)
def start(
    name: Name,
    *,
    kind: Annotated[WorkloadKind, _option("kind")],
    group: Annotated[str | None, _option("group")] = None,
    clients: Annotated[int, _option("clients", min=1, max=MOST_CLIENTS)] = 1,
    period: Annotated[float, _option("period_s", metavar="SECONDS")] = 1.0,
    offset: Annotated[float, _option("offset_s", metavar="SECONDS")] = 0.0,
    deadline: Annotated[float, _option("deadline_s", metavar="SECONDS")] = 1.0,
    readings: Annotated[int, _option("readings")] = 1000,
    triggers: Annotated[int, _option("triggers")] = 10_000,
    stretch: Annotated[float | None, _option("stretch_s", metavar="SECONDS")] = None,
    step: Annotated[float, _option("step_s", metavar="SECONDS")] = 60.0,
    radius: Annotated[float, _option("radius_deg", metavar="DEGREES")] = 0.1,
    connection: Connection,
) -> None:
    """Start a workload, in a process of its own. This needs the API's token."""
    body = {
        "name": name,
        "kind": kind,
        "group": group,
        "clients": clients,
        "period_s": period,
        "offset_s": offset,
        "deadline_s": deadline,
        "readings": readings,
        "triggers": triggers,
        "stretch_s": stretch,
        "step_s": step,
        "radius_deg": radius,
    }
    status = ReaderStatus.model_validate(connection.ask("POST", PATH, body).json())
    asked = f"visits {status.group}" if kind.is_of_visits else f"group {status.group}"
    typer.echo(f"{name}: {status.clients} clients ask {asked} for {status.kind}")


@app.command(epilog=examples("triggerlog readers stop displays", "triggerlog readers stop displays beam.toml"))
def stop(name: Name, connection: Connection) -> None:
    """Stop a workload, and say what became of its questions. This needs the API's token."""
    status = ReaderStatus.model_validate(connection.ask("DELETE", f"{PATH}/{quote(name, safe='')}").json())
    in_time = "" if status.efficiency is None else f" ({status.efficiency:.1%} of what was asked)"
    typer.echo(
        f"{name}: stopped after {status.cycles:,} answers with {status.rows:,} rows; "
        f"in time {status.in_time:,}{in_time}, failed {status.failed:,}, slipped by {status.slipped_s:,.1f} s in all"
    )


EPILOG = examples(
    "triggerlog governor",
    "triggerlog governor --commit-p99 50 beam.toml",
    "triggerlog governor --off",
)
GOVERNOR = "/api/v1/governor"


def _ceiling(field: str, **more: Any) -> Any:
    return typer.Option(help=GovernorConfig.model_fields[field].description, show_default="none", **more)


def governor(
    *,
    commit_p99: Annotated[float | None, _ceiling("commit_p99_ms", metavar="MS")] = None,
    backlog: Annotated[int | None, _ceiling("backlog_triggers", metavar="TRIGGERS")] = None,
    off: Annotated[bool, typer.Option("--off", help="Without a ceiling every reader may ask.")] = False,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Show or set the limits beyond which readers are held back.

    Setting needs the API's token. It holds until it is set again, the configuration changes, or the daemon ends.
    """
    is_set = commit_p99 is not None or backlog is not None
    if off and is_set:
        raise CommandFailed("--off and a ceiling exclude each other; give one of them")
    if off or is_set:
        ceilings = {"commit_p99_ms": commit_p99, "backlog_triggers": backlog}
        answer = connection.ask("POST", GOVERNOR, ceilings)
        now: GovernorStatus | None = GovernorStatus.model_validate_json(answer.content)
    else:
        answer = connection.ask("GET", "/api/v1/status")
        now = Status.model_validate_json(answer.content).governor
    if now is None:
        raise CommandFailed("the daemon does not say what its governor does; it is of another version")
    print_answer(as_json, now, lambda: [f"{now.state}: {now.reason}"])
