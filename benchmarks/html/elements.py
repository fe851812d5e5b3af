"""Elements that all reports have: sections, tiles, warnings, keys of a plot, lists of facts, plots with axes."""

from collections.abc import Iterable, Sequence

from benchmarks.html.axes import Axis, bottom, grid_x, grid_y, plot, side
from benchmarks.html.markup import Markup, join, tag


def section(heading: str, *content: Markup, name: str, note: Markup | str = "") -> Markup:
    """A part of the page, with a note under its heading."""
    return tag("section", tag("h2", heading), *_if(note, tag("p", note, class_="note")), *content, id=name)


def card(*content: str) -> Markup:
    """A panel with a border."""
    return tag("div", *content, class_="card")


def tile(heading: str, figure: str, *lines: str, unit: str = "", style: str = "") -> Markup:
    """A panel with one large figure, its unit, and lines of small print; without a figure only the lines."""
    big = tag("p", tag("b", figure), f" {unit}" if unit else "", class_="big")
    small = (tag("p", line, class_="soft") for line in lines)
    return tag("div", tag("h3", heading), *_if(figure, big), *small, class_=f"card tile {style}".strip())


def tiles(found: Sequence[Markup]) -> Markup:
    """Tiles side by side; empty without one."""
    return tag("div", *found, class_="tiles") if found else Markup()


def warnings(lines: Iterable[str]) -> Markup:
    """The warnings of a page; empty without one."""
    items = [tag("li", line) for line in lines]
    return tag("ul", *items, class_="warnings", aria_label="Warnings") if items else Markup()


def keys(meanings: Iterable[tuple[str, str]]) -> Markup:
    """The key of a plot: the classes of a swatch or a stroke, and what it means."""
    items = (tag("li", tag("i", class_=style), meaning) for style, meaning in meanings)
    return tag("ul", *items, class_="keys")


def definitions(facts: Iterable[tuple[str, str]], *, code: bool = False) -> Markup:
    """Names and what they are; `code` shows the names as settings."""
    rows = (join([tag("dt", tag("code", name) if code else name), tag("dd", value)]) for name, value in facts)
    return tag("dl", *rows)


def settings_card(heading: str, settings: Iterable[tuple[str, str]], *facts: tuple[str, str]) -> Markup:
    """A panel with the settings of a server, a run or a machine, below facts about it."""
    return card(tag("h3", heading), *_if(facts, definitions(facts)), definitions(settings, code=True))


def repeated_by(command: str) -> Markup:
    """The command that measures the same again."""
    return tag("p", "The command that repeats it: ", tag("code", command, class_="command"))


def chart(
    heading: str,
    legend: str,
    shapes: Iterable[Markup],
    across: tuple[Axis, Sequence[float]],
    up: tuple[Axis, Sequence[float]],
    *,
    label: str,
    unit: str = "",
    small: bool = False,
) -> Markup:
    """A panel with a plot between two axes, each given with the values to name.

    heading, legend: the line above the plot, and how it goes on. label: what is shown, for who cannot see it.
    unit: of the values below the plot.
    """
    (x, x_values), (y, y_values) = across, up
    drawn = plot(grid_x(x, x_values), grid_y(y, y_values), *shapes, label=label)
    inner = tag("div", side(y, y_values), tag("div", drawn, class_="plot"), bottom(x, unit, x_values), class_="axes")
    title = tag("h3", f"{heading} ", tag("span", legend, class_="soft"))
    return tag("div", title, inner, class_="card small" if small else "card")


def with_small(figure: str, small: str) -> Markup:
    """A figure with a smaller line below it, such as its interval; without one the figure alone."""
    return join([figure, *_if(small, tag("small", small))])


def _if(condition: object, element: Markup) -> tuple[Markup, ...]:
    return (element,) if condition else ()
