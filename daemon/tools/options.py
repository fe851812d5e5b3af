"""Options and arguments that several commands have."""

from pathlib import Path
from typing import Annotated, Any

import typer

from daemon.core.configuration import LoadedConfig, implied_file
from daemon.core.configuration.loading import NAME, VARIABLE
from daemon.core.outcome import CommandFailed
from schemas.checking.problems import suggestion
from schemas.config import GroupConfig

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
