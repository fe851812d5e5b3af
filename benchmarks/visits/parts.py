"""What the report of one run and that of a comparison share: frame, facts, and figures in words."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from benchmarks.report.html.markup import Markup, join, raw, tag
from benchmarks.report.wording import number
from schemas.api.visits import Line
from schemas.config.visits import VisitsConfig


def frame(title: str, facts: str, sections: Sequence[Markup], footer: str) -> str:
    """A whole file: no script, and nothing from outside."""
    styles = [
        raw(files(package).joinpath("page.css").read_text(encoding="utf-8"))
        for package in ("benchmarks.report.html", "benchmarks.visits")
    ]
    head = tag(
        "head",
        raw('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        raw('<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'),
        tag("title", title),
        tag("style", *styles),
    )
    header = tag("header", tag("h1", title), tag("p", facts, class_="soft"))
    body = tag("body", header, tag("main", *sections), tag("footer", footer))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def section(heading: str, note: str, *content: Markup, name: str) -> Markup:
    """A part of a page, with a note under its heading."""
    noted = [tag("p", note, class_="note")] if note else []
    return tag("section", tag("h2", heading), *noted, *content, id=name)


def listing(heading: str, facts: Mapping[str, str]) -> Markup:
    """A card of names and what they are."""
    rows = [join([tag("dt", tag("code", name)), tag("dd", value)]) for name, value in facts.items()]
    return tag("div", tag("h3", heading), tag("dl", *rows), class_="card")


def settings_of(settings: VisitsConfig) -> dict[str, str]:
    """All settings of a run, those of the survey by their path."""
    return dict(_flat("", settings.model_dump(mode="json", by_alias=True)))


def _flat(path: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{path}{name}.", value)
        else:
            yield f"{path}{name}", "–" if value is None else str(value)


def seconds(value: float) -> str:
    """Seconds, below one in milliseconds: `84.0 ms`, `2.41 s`."""
    return f"{number(value)} s" if abs(value) >= 1 else f"{number(1e3 * value)} ms"


def figure(value: float) -> str:
    """A figure, without a sign where nothing of it is left."""
    words = number(value)
    return words.removeprefix("-") if not words.strip("-0.") else words


def slope(fit: Line | None) -> Markup:
    """A slope with its interval; nothing to be said without a line."""
    if fit is None:
        return join(["–"])
    around = f"{figure(fit.slope_low)} to {figure(fit.slope_high)}"
    return join([figure(fit.slope_per_1000), tag("small", around)])
