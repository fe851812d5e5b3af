"""Finding out of many which the database refuses: it says so only of what it is offered together."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Why = TypeVar("Why")


async def find_refused(
    items: Sequence[T],
    offer: Callable[[Sequence[T]], Awaitable[Why | None]],
    most: int,
    note: Callable[[Why], None] = lambda why: None,
) -> list[tuple[int, Why]]:
    """Offer all items in their order; return those that are refused by themselves, by their index, and why.

    After a refusal half as many are offered together, after none twice as many: k refused ones of n take about
    2 k log2(n) offers, and n where all of them are.

    Args:
        items: what is offered.
        offer: offers some; returns why they are refused together, None where they are not.
        most: so many are offered at once at most.
        note: called with why, at once, for each that is refused by itself.
    """
    found: list[tuple[int, Why]] = []
    at, size = 0, most
    while at < len(items):
        some = items[at : at + size]
        why = await offer(some)
        if why is not None and len(some) > 1:
            size = len(some) // 2
            continue
        if why is not None:
            found.append((at, why))
            note(why)
        else:
            size = min(2 * size, most)
        at += len(some)
    return found
