"""`triggerlog readers`: reader workloads of a daemon; list them, start one, stop one."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import reach
from daemon.client.readers_table import readers_table
from daemon.core.outcome import examples
from daemon.tools.console import make_console
from daemon.tools.options import AsJson, CaFile, ConfigFile, DaemonUrl, TokenFile
from schemas.api.status import ReaderStatus
from schemas.config.workloads import MOST_CLIENTS, Workload, WorkloadKind

app = typer.Typer(
    name="readers",
    help="List, start or stop the reader workloads of a daemon.",
    no_args_is_help=True,
    add_completion=False,
)

PATH = "/api/v1/readers"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the workload.", show_default=False)]


def _help_of(field: str) -> str:
    """The description of a field of a workload."""
    return (Workload.model_fields[field].description or "").replace("`", "")


def _option(field: str, **more: Any) -> Any:
    return typer.Option(help=_help_of(field), show_default=Workload.model_fields[field].default is not None, **more)


@app.command("list", epilog=examples("triggerlog readers list", "triggerlog readers list --json | jq .displays.rate"))
def list_(
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the workloads that run: how often and how fast they are answered, and how many answers are in time."""
    answer = ask_daemon(reach(config, daemon=daemon, token_file=token_file, ca=ca), "GET", PATH)
    if as_json:
        typer.echo(answer.text)
        return
    found = {name: ReaderStatus.model_validate(status) for name, status in answer.json().items()}
    if not found:
        typer.echo("No reader workload runs.")
        return
    make_console().print(readers_table(found))


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
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
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
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    status = ReaderStatus.model_validate(ask_daemon(found, "POST", PATH, body).json())
    asked = f"visits {status.group}" if kind.is_of_visits else f"group {status.group}"
    typer.echo(f"{name}: {status.clients} clients ask {asked} for {status.kind}")


@app.command(epilog=examples("triggerlog readers stop displays", "triggerlog readers stop displays beam.toml"))
def stop(
    name: Name,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Stop a workload, and say what became of its questions. This needs the API's token."""
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    status = ReaderStatus.model_validate(ask_daemon(found, "DELETE", f"{PATH}/{quote(name, safe='')}").json())
    in_time = "" if status.efficiency is None else f" ({status.efficiency:.1%} of what was asked)"
    typer.echo(
        f"{name}: stopped after {status.cycles:,} answers with {status.rows:,} rows; "
        f"in time {status.in_time:,}{in_time}, failed {status.failed:,}, slipped by {status.slipped_s:,.1f} s in all"
    )
