"""`triggerlog governor`: what holds readers back; show it, set its ceilings, turn it off."""

from typing import Annotated, Any

import typer

from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import reach
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.options import AsJson, CaFile, ConfigFile, DaemonUrl, TokenFile
from schemas.api.status import GovernorStatus, Status
from schemas.config.readers import GovernorConfig

EPILOG = examples(
    "triggerlog governor",
    "triggerlog governor --commit-p99 50 beam.toml",
    "triggerlog governor --off",
)
PATH = "/api/v1/governor"


def _option(field: str, **more: Any) -> Any:
    return typer.Option(help=GovernorConfig.model_fields[field].description, show_default="none", **more)


def governor(
    *,
    commit_p99: Annotated[float | None, _option("commit_p99_ms", metavar="MS")] = None,
    backlog: Annotated[int | None, _option("backlog_triggers", metavar="TRIGGERS")] = None,
    off: Annotated[bool, typer.Option("--off", help="Without a ceiling every reader may ask.")] = False,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show or set the limits beyond which readers are held back.

    Setting needs the API's token. It holds until it is set again, the configuration changes, or the daemon ends.
    """
    is_set = commit_p99 is not None or backlog is not None
    if off and is_set:
        raise CommandFailed("--off and a ceiling exclude each other; give one of them")
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    if off or is_set:
        ceilings = {"commit_p99_ms": commit_p99, "backlog_triggers": backlog}
        answer = ask_daemon(found, "POST", PATH, ceilings)
        now: GovernorStatus | None = GovernorStatus.model_validate_json(answer.content)
    else:
        answer = ask_daemon(found, "GET", "/api/v1/status")
        now = Status.model_validate_json(answer.content).governor
    if now is None:
        raise CommandFailed("the daemon does not say what its governor does; it is of another version")
    typer.echo(now.model_dump_json() if as_json else f"{now.state}: {now.reason}")
