"""A report as one HTML file."""

from collections.abc import Iterable
from importlib.resources import files

from benchmarks.html.markup import Markup, raw, tag


def document(title: str, facts: str, sections: Iterable[Markup], *, date: str, command: str) -> str:
    """Write the whole file.

    Args:
        title: the heading.
        facts: one line under it, with what was measured and on what.
        sections: the parts of the page, in order; empty ones leave no trace.
        date: when it was measured, in UTC.
        command: the command that writes such reports.

    """
    head = tag(
        "head",
        raw('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        raw('<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'),
        tag("title", f"{title}: measured {date}"),
        tag("style", raw(files(__package__).joinpath("page.css").read_text(encoding="utf-8"))),
    )
    header = tag("header", tag("h1", title), tag("p", facts, class_="soft"))
    footer = tag("footer", f"{command} · one file without scripts, which loads nothing")
    return f"<!doctype html>\n{tag('html', head, tag('body', header, tag('main', *sections), footer), lang='en')}\n"
