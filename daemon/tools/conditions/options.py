"""Arguments and options that the commands of conditions share, and what follows from them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from daemon.client.api.conditions import ConditionsApi, conditions_api
from daemon.client.api.reach import CONDITIONS, Reach, reach
from daemon.core.outcome import CommandFailed
from schemas.checking.dsn import Feature
from schemas.checking.problems import suggestion
from schemas.conditions.intervals import LARGEST, Intervals, Key

Tag = Annotated[str, typer.Argument(metavar="TAG", help="Name of a global tag.", show_default=False)]
Type = Annotated[str, typer.Argument(metavar="TYPE", help="Name of a payload type.", show_default=False)]
Major = Annotated[int, typer.Argument(metavar="MAJOR", help="First half of the key, e.g. a run.", show_default=False)]
Minor = Annotated[int, typer.Argument(metavar="MINOR", help="Second half of the key, e.g. a trigger.")]
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

T = TypeVar("T")


def server_of(config: Path | None, server: str | None, token_file: Path | None, ca: Path | None) -> Reach:
    """Find out how to reach the server of conditions.

    Raises:
        ConfigError, CommandFailed: as of `reach`.
    """
    return reach(config, daemon=server, token_file=token_file, ca=ca, server=CONDITIONS, feature=Feature.CONDITIONS)


def asked(server: Reach, question: Callable[[ConditionsApi], Awaitable[T]]) -> T:
    """Ask a server outside an event loop."""

    async def answer() -> T:
        async with conditions_api(server) as api:
            return await question(api)

    return asyncio.run(answer())


def key_of(major: int, minor: int, field: str = "MAJOR MINOR") -> Key:
    """A key that was given.

    Raises:
        CommandFailed: it is none.
    """
    for number in (major, minor):
        if not 0 <= number <= LARGEST:
            raise CommandFailed(f"{field}: {number} is no half of a key; give 0 to {LARGEST}")
    return Key(major, minor)


async def intervals_of(api: ConditionsApi, tag: str, of_type: str) -> Intervals:
    """The intervals that a tag has of a type.

    Raises:
        CommandFailed: it has none.
    """
    await api.tag(tag)
    lists = await api.lists(tag)
    if of_type not in lists:
        fix = suggestion(of_type, sorted(lists)) if lists else "attach something to it"
        raise CommandFailed(f"TYPE: {tag} has no list of type {of_type!r}; {fix}")
    return await api.intervals(lists[of_type])
