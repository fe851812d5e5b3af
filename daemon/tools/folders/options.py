"""Arguments and options that the commands of folders share, and what follows from them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from daemon.client.api.folders import FoldersApi, folders_api
from daemon.client.api.reach import Reach, reach
from schemas.checking.dsn import Feature

TIME = "RFC 3339, UTC without a zone, or an integer such as ns since 1970-01-01 UTC"

FolderPath = Annotated[str, typer.Argument(metavar="PATH", help="Path of the folder.", show_default=False)]
AnyPath = Annotated[str, typer.Argument(metavar="PATH", help="Path of the folder or the set.", show_default=False)]
TagName = Annotated[str, typer.Argument(metavar="TAG", help="Name of the tag.", show_default=False)]
TagOption = Annotated[
    str | None, typer.Option(metavar="TAG", help="The version that this tag names.", show_default="HEAD, the newest")
]
Description = Annotated[str, typer.Option(help="What it is, in a line.", show_default=False)]

T = TypeVar("T")


def daemon_of(config: Path | None, daemon: str | None, token_file: Path | None, ca: Path | None) -> Reach:
    """Find out how to reach the daemon that serves folders.

    Raises:
        ConfigError, CommandFailed: as of `reach`.
    """
    return reach(config, daemon=daemon, token_file=token_file, ca=ca, feature=Feature.FOLDERS)


def asked(daemon: Reach, question: Callable[[FoldersApi], Awaitable[T]]) -> T:
    """Ask a daemon outside an event loop."""

    async def answer() -> T:
        async with folders_api(daemon) as api:
            return await question(api)

    return asyncio.run(answer())
