"""HTML out of parts: whatever is not markup already is text, and is escaped."""

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is HTML already; only `tag`, `join` and `raw` make it."""

    __slots__ = ()


def tag(name: str, *content: str, **attributes: str | float | bool | None) -> Markup:
    """An element. `class_` is `class`, other `_` are `-`; an attribute that is None or False is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{written}>{join(content)}</{name}>")


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Put parts one after the other."""
    return Markup(text(between).join(text(part) for part in parts))


def text(part: str) -> Markup:
    """Text as HTML; what is HTML stays."""
    return part if isinstance(part, Markup) else Markup(escape(part))


def raw(html: str) -> Markup:
    """HTML of our own making, such as a style sheet."""
    return Markup(html)


def _value(value: str | float | bool) -> str:
    if value is True:
        return ""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
