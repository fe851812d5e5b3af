"""What of an export's span retention has dropped, and what was reduced."""

from contextlib import suppress

import typer

from backends.base import Decimating, Store, StoreError, StoreUnavailable
from daemon.tools.export.about import About
from daemon.tools.export.span import Span
from schemas.retention import Span as DroppedSpan
from schemas.retention import overlapping, spans_of


async def dropped_of(store: Store, span: Span, group: str) -> tuple[DroppedSpan, ...]:
    """The stretches of a span whose readings are no more; where an older database tells none, that is said."""
    try:
        account = (await store.dropped())[group]
    except StoreUnavailable:
        raise
    except StoreError as error:
        typer.echo(f"triggerlog: the export does not know what was dropped by retention: {error}", err=True)
        return ()
    return overlapping(spans_of(each.period for each in account), span.start_ns, span.end_ns)


async def decimated_of(store: Store, span: Span, group: str) -> tuple[DroppedSpan, ...]:
    """The stretches of a span whose readings were reduced."""
    account = (await store.decimated())[group] if isinstance(store, Decimating) else ()
    return overlapping(spans_of(each.period for each in account), span.start_ns, span.end_ns)


async def see_meanwhile(store: Store, about: About) -> None:
    """Note what was dropped or reduced since the description was made: no window after that has all of it."""
    span, group = about.span, about.choice.group.name
    decimated = await decimated_of(store, span, group)
    about.meanwhile.decimated = tuple(each for each in decimated if each not in about.decimated)
    with suppress(StoreError):  # said before; one that is away is found by what is asked next, or is not needed
        account = spans_of(each.period for each in (await store.dropped())[group])
        dropped = overlapping(account, span.start_ns, span.end_ns)
        about.meanwhile.dropped = tuple(each for each in dropped if each not in about.dropped)
