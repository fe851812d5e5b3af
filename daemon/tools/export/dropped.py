"""What of an export's span retention has dropped, and what was reduced."""

from collections.abc import Iterable
from contextlib import suppress

import typer

from backends.base import Decimating, Store, StoreError
from daemon.core.moments import rfc3339
from daemon.tools.export.about import About
from daemon.tools.export.span import Span
from schemas.decimation import Decimated
from schemas.retention import Dropped, overlapping, spans_of
from schemas.retention import Span as DroppedSpan


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
