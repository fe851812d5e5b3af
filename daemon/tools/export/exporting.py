"""Exports readings, or intervals of a folder: queries, selects and writes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, replace

import numpy as np
import typer

from backends.base import Decimating, Store, StoreError
from backends.columns.figuring import Figuring
from backends.decimation import parts_of, stretches_of
from backends.folders.base import FoldersStore
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import asked_folders_store_of
from daemon.core.moments import moment, rfc3339
from daemon.core.outcome import CommandFailed
from daemon.tools.export.about import About, FolderAbout, ReducedAbout, Writer
from daemon.tools.export.span import AIM_BYTES, Span, windows
from schemas.checking.problems import suggestion
from schemas.conditions.intervals import LARGEST
from schemas.conditions.rules import ConditionsRefused
from schemas.decimation import Decimated
from schemas.queries import Figures
from schemas.readings import Array
from schemas.retention import Dropped, overlapping, spans_of
from schemas.retention import Span as DroppedSpan

ROWS = 2**18
"""Readings that are written at once at least, except the last ones: small parts compress badly."""

Progress = Callable[[float, int], None]
"""Called with the fraction of the span that is done (0 to 1), and the readings written so far."""


@dataclass(kw_only=True)
class Written:
    """What was written: how many readings, and the times of the first and the last (ns since 1970-01-01 UTC).

    figures: rows of figures of what was reduced.
    """

    readings: int = 0
    figures: int = 0
    first_ns: int = 2**63 - 1
    last_ns: int = -(2**63)

    def add(self, readings: Array) -> None:
        """Count readings."""
        if len(readings):
            self.readings += len(readings)
            self.first_ns = min(self.first_ns, int(readings["time_ns"].min()))
            self.last_ns = max(self.last_ns, int(readings["time_ns"].max()))


async def export(
    store: Store, about: About, writer: Writer, progress: Progress, *, aim_bytes: int = AIM_BYTES
) -> Written:
    """Write the chosen readings; while one part is written the next is queried.

    Raises:
        StoreError: the database does not answer.
        OSError: the file cannot be written.
        PayloadUnusable: a calibration that is needed cannot be used.
    """
    choice, span = about.choice, about.span
    written, gathered, count = Written(), list[Array](), 0
    background = BackgroundWriter(writer)
    try:
        async with aclosing(windows(store, choice.group, span, aim_bytes=aim_bytes)) as found:
            async for window in found:
                chosen = choice.of(window.readings)
                written.add(chosen)
                gathered.append(chosen)
                count += len(chosen)
                if count >= ROWS:
                    await background.write(await _with_positions(about, np.concatenate(gathered)))
                    gathered, count = [], 0
                progress((window.end_ns - span.start_ns) / (span.end_ns - span.start_ns), written.readings)
        if count:
            await background.write(await _with_positions(about, np.concatenate(gathered)))
    finally:
        await background.done()
    return written


async def export_figures(store: Store, about: About, writer_of: Callable[[ReducedAbout], Writer]) -> int:
    """Write figures of what was reduced of the span; how many. Without any no writer is made.

    To be called after the readings were read: what is reduced meanwhile has figures then, and no reading is missing.
    Figures are of whole buckets of all readings; what is chosen by run or trigger, which they do not know, has none.

    Raises:
        StoreError: the database does not answer.
        OSError: the file cannot be written.
    """
    choice, span = about.choice, about.span
    group = choice.group
    if choice.run is not None or not (isinstance(store, Decimating) and isinstance(store, Figuring)):
        return 0
    account = (await store.decimated())[group.name]
    stretches = stretches_of(account, Figures(group=group, start_ns=span.start_ns, end_ns=span.end_ns, step_ns=1))
    if not stretches:
        return 0
    decimated = overlapping(spans_of(each.period for each in account), span.start_ns, span.end_ns)
    written = 0
    with closing(writer_of(ReducedAbout(readings=replace(about, decimated=decimated)))) as writer:
        for stretch in stretches:
            for start_ns, end_ns in parts_of(stretch, ROWS // group.size):
                figures = await store.figures(Figures(group=group, start_ns=start_ns, end_ns=end_ns, step_ns=1))
                if choice.instruments is not None:
                    figures = figures[np.isin(figures["instrument"], choice.instruments)]
                await asyncio.to_thread(writer.write, figures)
                written += len(figures)
    return written


async def _with_positions(about: About, readings: Array) -> Array:
    """Readings with what a calibration adds to them."""
    return readings if about.calibration is None else await about.calibration.with_positions(readings)


class BackgroundWriter:
    """Writes one part at a time in a thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._writing: asyncio.Task[None] | None = None

    async def write(self, block: Array) -> None:
        """Start to write a part, once the one before is written."""
        await self.done()
        self._writing = asyncio.create_task(asyncio.to_thread(self._writer.write, block))

    async def done(self) -> None:
        """Wait until all is written, also when cancelled: a thread goes on, and the file must not close below it."""
        if self._writing is not None:
            await asyncio.wait({self._writing})
            writing, self._writing = self._writing, None
            writing.result()


IntervalProgress = Callable[[int, int, int], None]
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
    progress: IntervalProgress,
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


async def _write(store: FoldersStore, about: FolderAbout, writer: Writer, progress: IntervalProgress) -> int:
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


async def dropped_of(store: Store, span: Span, group: str) -> tuple[DroppedSpan, ...]:
    """The stretches of a span whose readings are no more; where an older database tells none, that is said."""
    try:
        account = (await store.dropped())[group]
    except StoreError as error:
        if error.is_away:
            raise
        typer.echo(f"triggerlog: the export does not know what was dropped by retention: {error}", err=True)
        return ()
    return _within(account, span)


async def decimated_of(store: Store, span: Span, group: str) -> tuple[DroppedSpan, ...]:
    """The stretches of a span whose readings were reduced."""
    account = (await store.decimated())[group] if isinstance(store, Decimating) else ()
    return _within(account, span)


async def see_meanwhile(store: Store, about: About) -> None:
    """Note what was dropped or reduced since the description was made: no window after that has all of it."""
    span, group = about.span, about.choice.group.name
    decimated = await decimated_of(store, span, group)
    about.meanwhile.decimated = tuple(each for each in decimated if each not in about.decimated)
    with suppress(StoreError):  # said before; one that is away is found by what is asked next, or is not needed
        dropped = _within((await store.dropped())[group], span)
        about.meanwhile.dropped = tuple(each for each in dropped if each not in about.dropped)


def words_of(about: About) -> str:
    """What the command says of it, behind all else."""
    told = (
        ("dropped by retention", about.dropped),
        ("reduced", about.decimated),
        ("dropped by retention while this was read", about.meanwhile.dropped),
        ("reduced while this was read", about.meanwhile.decimated),
    )
    stretches = (
        (words, ", ".join(f"{rfc3339(each.start_ns)} to {rfc3339(each.end_ns)}" for each in spans))
        for words, spans in told
    )
    return "".join(f"; {words}: {of}" for words, of in stretches if of)


def _within(account: Iterable[Dropped | Decimated], span: Span) -> tuple[DroppedSpan, ...]:
    return overlapping(spans_of(each.period for each in account), span.start_ns, span.end_ns)
