"""How much of what is shown where a terminal has fewer lines than there is to show."""

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

Line = list[Segment]


def lines_of(console: Console, options: ConsoleOptions, shown: RenderableType) -> list[Line]:
    """The lines that something takes at a terminal's width, as many as it needs."""
    return console.render_lines(shown, options.update(height=None), pad=False)


def cut(console: Console, options: ConsoleOptions, text: Text, most: int) -> list[Line]:
    """A text in so many lines at most; an ellipsis says that it goes on."""
    wrapped = list(text.wrap(console, options.max_width))
    if len(wrapped) > most:
        last = wrapped[most - 1]
        last.rstrip()
        last.truncate(options.max_width - 2)
        last.append(" …")
        wrapped = wrapped[:most]
    return [line for part in wrapped for line in lines_of(console, options, part)]


def fitting(
    console: Console,
    options: ConsoleOptions,
    texts: Sequence[Text],
    room: int,
    *,
    spared: int,
    more: Callable[[int], Text],
) -> list[Line]:
    """Texts below each other in the lines that there are, the first ones first: in full, in two lines, or in one.

    Args:
        console: what is printed on.
        options: of the console.
        texts: what is shown.
        room: lines that there are.
        spared: lines of these that are left free as long as every text has one.
        more: what stands in the last line where some are left out, by their number.
    """
    for lines in (len(texts) * room, 2, 1):
        shown = [cut(console, options, text, lines) for text in texts if room > 0]
        if sum(map(len, shown)) <= room - spared * (lines > 1):
            return [line for each in shown for line in each]
    some = shown[: room - 1]
    return [line for each in some for line in each] + cut(console, options, more(len(texts) - len(some)), 1)


def as_many_as_fit(
    console: Console, options: ConsoleOptions, room: int, most: int, made: Callable[[int], RenderableType]
) -> list[Line]:
    """The largest of the views that `made` gives for 1 to `most` that has room; nothing where none has."""
    for count in range(most, 0, -1):
        lines = lines_of(console, options, made(count))
        if len(lines) <= room:
            return lines
    return []
