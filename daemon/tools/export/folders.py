"""Exports intervals of a folder: a snapshot, or a span of history, of all channels or some."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from backends.base import StoreError
from backends.folders.base import FoldersStore
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import asked_folders_store_of
from daemon.core.moments import moment
from daemon.core.outcome import CommandFailed
from daemon.tools.export.about import FolderAbout, Writer
from daemon.tools.export.exporting import BackgroundWriter
from daemon.tools.export.windows import AIM_BYTES
from schemas.checking.problems import suggestion
from schemas.conditions.intervals import LARGEST
from schemas.conditions.rules import ConditionsRefused
from schemas.readings import Array

Progress = Callable[[int, int, int], None]
"""Called with the channels that are done, all that are chosen, and the intervals written so far."""


@dataclass(frozen=True, kw_only=True)
class FolderChoice:
    """Which intervals of a folder: those that hold at a time, or some of since <= t < until.

    at: the time of a snapshot; None for a span. tag: None is the newest version. channels: numbers or names; None are
    all.
    """

    path: str
    since: int = 0
    until: int = LARGEST
    at: int | None = None
    tag: str | None = None
    channels: Sequence[str] | None = None


def folder_time(text: str, option: str) -> int:
    """Read a time of a folder: an integer, such as ns since 1970-01-01 UTC, or as `moment` reads it.

    Raises:
        CommandFailed: the text has another form, or folders have no such time.
    """
    time = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(LARGEST)) else moment(text, option)
    if time < 0:
        raise CommandFailed(f"{option}: {text} is before 1970, and folders have no such time; give a later one")
    return time


async def export_folder(
    loaded: LoadedConfig,
    choice: FolderChoice,
    writer_of: Callable[[FolderAbout], Writer],
    progress: Progress,
    *,
    give_up_s: float,
) -> tuple[int, FolderAbout]:
    """Write the chosen intervals, in the order of (channel, since); each channel's are of one moment.

    Returns:
        How many there are, and where they come from.

    Raises:
        CommandFailed: there is no such folder, channel, tag or interval.
        StoreError: the database does not answer.
        OSError: the file cannot be written.
    """
    store = asked_folders_store_of(loaded, give_up_s=give_up_s)
    try:
        about = await _about(store, loaded.config.logger, choice)
        with closing(writer_of(about)) as writer:
            count = await _write(store, about, writer, progress)
    except ConditionsRefused as refused:
        option = {"path": "folder", "until": "to", "since": "from"}.get(refused.field, refused.field)
        raise CommandFailed(f"--{option}: {refused.problem}; {refused.fix}") from None
    except StoreError as error:
        if error.is_away:
            raise
        schema = loaded.config.folders.schema_name
        fix = "name the one that a daemon with `serve = true` in [folders] has made"
        raise CommandFailed(f"folders.schema: {schema} cannot be read ({error}); {fix}") from None
    finally:
        await store.close()
    if not count:
        raise CommandFailed(f"{choice.path} has no such interval; no file was written")
    return count, about


async def _about(store: FoldersStore, logger: str, choice: FolderChoice) -> FolderAbout:
    return FolderAbout(
        logger=logger,
        folder=await store.folder(choice.path),
        channels=_chosen(await store.channels(choice.path), choice.channels),
        since=choice.since,
        until=choice.until,
        at=choice.at,
        tag=choice.tag,
    )


def _chosen(channels: Mapping[int, str], wanted: Sequence[str] | None) -> Mapping[int, str]:
    if wanted is None:
        return channels
    names = {name: number for number, name in channels.items()} | {str(number): number for number in channels}
    for name in wanted:
        if name not in names:
            raise CommandFailed(f"--channels: there is no {name!r}; {suggestion(name, sorted(names))}")
    numbers = sorted({names[name] for name in wanted})
    return {number: channels[number] for number in numbers}


async def _write(store: FoldersStore, about: FolderAbout, writer: Writer, progress: Progress) -> int:
    path, chosen = about.folder.path, list(about.channels)
    background = BackgroundWriter(writer)
    gathered, size, count = list[Array](), 0, 0
    try:
        if about.at is not None:
            found = await store.snapshot(path, about.at, about.tag)
            gathered = [found[np.isin(found["channel"], chosen)]]
            chosen = []
        for done, channel in enumerate(chosen, 1):
            gathered.append(await store.history(path, channel, about.since, about.until, about.tag))
            size += gathered[-1].nbytes
            if size >= AIM_BYTES:
                count += sum(map(len, gathered))
                await background.write(np.concatenate(gathered))
                gathered, size = [], 0
            progress(done, len(chosen), count)
        if any(map(len, gathered)):
            count += sum(map(len, gathered))
            await background.write(np.concatenate(gathered))
    finally:
        await background.done()
    return count
