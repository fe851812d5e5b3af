"""Options and arguments that several commands have; those of a connection to a daemon are one parameter."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.core.configuration import LoadedConfig, implied_file
from daemon.core.configuration.loading import NAME, VARIABLE
from daemon.core.outcome import CommandFailed
from schemas.checking.dsn import Feature
from schemas.checking.problems import suggestion
from schemas.config import GroupConfig

if TYPE_CHECKING:
    import httpx

    from daemon.client.api.reach import Reach

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


def _implied() -> Path:
    found = implied_file()
    if found is None:
        raise CommandFailed(f"FILE: name the configuration, or set {VARIABLE}, or go to the folder of {NAME}")
    return found


_FILE: dict[str, Any] = {"metavar": "FILE", "show_default": f"{VARIABLE}, or ./{NAME}"}
File = Annotated[Path, typer.Option("--config", default_factory=_implied, help="The configuration.", **_FILE)]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="The daemon's configuration: says where it listens, and its token.", **_FILE),
]
Dsn = Annotated[
    str | None,
    typer.Option(help="The database. [default: CONFIG's, or a PostgreSQL of its own below --folder]"),
]
PasswordEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable that holds the DSN's password.")
]
NamedFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A daemon's configuration.", show_default=False)
]
"""For a command that does something else where none is named."""
DaemonUrl = Annotated[
    str | None,
    typer.Option(
        "--daemon",
        envvar="TRIGGERLOG_DAEMON",
        metavar="URL",
        help="The daemon's control API. [default: FILE's, or http://127.0.0.1:8120]",
        show_default=False,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="File that holds the API's token; or put the token into TRIGGERLOG_TOKEN.",
        show_default=False,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar="TRIGGERLOG_CA",
        metavar="PATH",
        help="Certificate (PEM) of the authority that signed the daemon's. [default: those that the system trusts]",
        show_default=False,
    ),
]
ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="TRIGGERLOG_CONDITIONS",
        metavar="URL",
        help="The server of conditions. [default: --config's, or http://127.0.0.1:8123]",
        show_default=False,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credentials:
    """The options of a command that says otherwise which configuration it is about."""

    daemon: DaemonUrl = None
    token_file: TokenFile = None
    ca: CaFile = None

    def reach(self, config: Path | None) -> "Reach":
        """Find the daemon; raises as `daemon.client.api.reach.reach` does."""
        return _reach(config, self.daemon, self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """The options that say where a daemon is, and what it trusts: a parameter of this type stands for all of them."""

    config: ConfigFile = None
    daemon: DaemonUrl = None
    token_file: TokenFile = None
    ca: CaFile = None

    def reach(self, feature: Feature | None = None) -> "Reach":
        """Find the daemon; raises as `daemon.client.api.reach.reach` does."""
        return _reach(self.config, self.daemon, self, feature=feature)

    def ask(self, method: str, path: str, body: object = None, **patience: float) -> "httpx.Response":
        """Ask the daemon one question; raises DaemonGone where it does not answer, or refuses."""
        from daemon.client.api.asking import ask_daemon  # noqa: PLC0415 - every help is shown without it

        return ask_daemon(self.reach(), method, path, body, **patience)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedConnection(Connection):
    """The options of a command that does something else where no daemon is named."""

    config: NamedFile = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionsConnection:
    """The options that say where a server of conditions is."""

    config: ConfigFile = None
    server: ServerUrl = None
    token_file: TokenFile = None
    ca: CaFile = None

    def reach(self) -> "Reach":
        """Find the server; raises as `daemon.client.api.reach.reach` does."""
        from daemon.client.api.reach import CONDITIONS  # noqa: PLC0415

        return _reach(self.config, self.server, self, server=CONDITIONS, feature=Feature.CONDITIONS)


def _reach(
    config: Path | None, address: str | None, given: Credentials | Connection | ConditionsConnection, **more: Any
) -> "Reach":
    # Imported here: commands that ask no daemon start without it.
    from daemon.client.api.reach import reach  # noqa: PLC0415

    return reach(config, daemon=address, token_file=given.token_file, ca=given.ca, **more)


class App(typer.Typer):
    """A command with commands below it, or one command by itself; their parameters may be connections."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(add_completion=False, **settings)

    def command(self, *names: Any, **settings: Any) -> Callable[[Any], Any]:
        """Add a command."""
        return _adding(super().command(*names, **settings))

    def callback(self, **settings: Any) -> Callable[[Any], Any]:
        """Say what is done without a command, or before it."""
        return _adding(super().callback(**settings))


def _adding(add: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def added(function: Callable[..., Any]) -> Callable[..., Any]:
        add(_expanded(function))
        return function

    return added


def _expanded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Put in the place of each parameter that is a dataclass its fields, which are options."""
    given = inspect.signature(function)
    annotations: dict[str, Any] = {name: each.annotation for name, each in given.parameters.items()}
    groups = {name: each for name, each in annotations.items() if dataclasses.is_dataclass(each)}
    if not groups:
        return function
    parameters: list[inspect.Parameter] = []
    for name, each in given.parameters.items():
        if name not in groups:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        parameters += [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for field in dataclasses.fields(groups[name])
        ]

    @wraps(function)
    def expanded(**options: Any) -> Any:
        for name, group in groups.items():
            fields = {field.name: options.pop(field.name) for field in dataclasses.fields(group)}
            options[name] = annotations[name](**fields)
        return function(**options)

    expanded.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    return expanded


def groups_of(loaded: LoadedConfig, group: str | None) -> dict[str, GroupConfig]:
    """The groups with triggers by name, or the one that `--group` names.

    Raises:
        CommandFailed: there is none.
    """
    sections = {section.name: section for section in loaded.config.trigger_groups}
    if not sections:
        raise CommandFailed(f"{loaded.path} has no group with triggers; all of them report into folders")
    if group is None:
        return sections
    folders = {section.name: section.folder for section in loaded.config.groups if section.folder is not None}
    if group in folders:
        raise CommandFailed(f"--group: {group!r} reports on change, and has no triggers; look into {folders[group]}")
    if group not in sections:
        raise CommandFailed(f"--group: {loaded.path} has no group {group!r}; {suggestion(group, sections)}")
    return {group: sections[group]}


def changes_of(texts: list[str]) -> dict[str, Any]:
    """`survey.scale=0.02` as {"survey": {"scale": 0.02}}; what it may be the daemon says.

    Raises:
        CommandFailed: one is not of that form.
    """
    import orjson  # noqa: PLC0415

    body: dict[str, Any] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        if not equals or not field:
            raise CommandFailed(f"--set: {text!r} is no setting; write it like survey.scale=0.02")
        at = body
        *tables, name = field.strip().split(".")
        for table in tables:
            at = at.setdefault(table, {})
        try:
            at[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            at[name] = value
    return body
