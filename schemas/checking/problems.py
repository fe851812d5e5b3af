"""What is wrong with a configuration, field by field, in words an operator can act on.

pydantic finds the errors; here they become `groups[0].channels[1].dtype: what is wrong; the fix`. No message ever
holds a password: values are shown only with passwords taken out.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails, PydanticCustomError

from schemas.checking.fields import Place, bare, choices, constraint, keys, limits, path, place, sections_of


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong: the field by its path (`groups[0].name`), what is wrong with it, and the fix."""

    field: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return printable(f"{self.field}: {self.problem}; {self.fix}")


def printable(text: str) -> str:
    """A text in one line, without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class ConfigError(Exception):
    """The configuration cannot be used; `problems` says why, field by field."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def wrong(problem: str, fix: str, field: str = "") -> Problem:
    """Say what a validator found, with the field relative to what the validator looks at ("" is the thing itself)."""
    return Problem(field=field, problem=problem, fix=fix)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise all that a validator found at once, as the error pydantic expects of it; nothing when all is well.

    Raises:
        PydanticCustomError: there was a problem.
    """
    found = tuple(problems)
    if found:
        # A template, not an f-string: pydantic would take braces in a message for fields of its own.
        text = "\n".join(f"{p.field}{': ' if p.field else ''}{p.problem}; {p.fix}" for p in found)
        raise PydanticCustomError("refused", "{text}", {"text": text, "problems": found})


def suggestion(word: object, known: Iterable[str]) -> str:
    """Name the nearest of the known words, or else all of them."""
    names = list(known)
    near = get_close_matches(str(word), names, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"use one of {listed(names)}"


def listed(names: Iterable[str]) -> str:
    """Put names into one readable list."""
    return ", ".join(f"`{name}`" for name in names)


def without_passwords(text: str) -> str:
    """Take the passwords out of every URL in a text, so that it may be shown."""
    text = re.sub(r"(://[^:/?#\s]*):.*(?=@)", r"\1:***", text)
    return re.sub(r"(?i)([?&]password=)[^&#\s\"']*", r"\1***", text)


def problems(model: type[BaseModel], errors: Iterable[ErrorDetails]) -> list[Problem]:
    """Turn pydantic's errors into problems: paths as a person writes them, plain words, and each with its fix."""
    # pydantic calls a list too short when its items are wrong; those are named one by one already.
    real = [error for error in errors if not (error["type"] == "too_short" and len(error["input"] or ()) > 0)]
    return [problem for error in real for problem in _explained(place(model, error["loc"]), error, model)]


def syntax_problem(text: str, message: str) -> Problem:
    """Say where a text is not valid TOML; `message` is tomllib's, which has the place only in words."""
    found = re.search(r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", message)
    if found is None:
        return Problem(field="(file)", problem=f"not valid TOML: {message}", fix="see https://toml.io")
    number = int(found["line"]) if found["line"] else max(1, len(text.splitlines()))
    line = without_passwords(text.splitlines()[number - 1].strip()) if text else ""
    shown = "it is about a password" if "password" in line else line
    return Problem(field=f"(line {number})", problem=f"not valid TOML: {found['what']}", fix=f"fix this line: {shown}")


def too_long_a_number(text: str) -> Problem:
    """Say where a text has a number with more digits than can be read."""
    lines = text.splitlines()
    number = max(range(len(lines)), key=lambda at: sum(map(str.isdigit, lines[at])))
    return Problem(field=f"(line {number + 1})", problem="a number has too many digits", fix="write a smaller one")


def _explained(at: Place, error: ErrorDetails, model: type[BaseModel]) -> list[Problem]:
    context = error.get("ctx", {})
    if error["type"] == "refused":
        return [
            Problem(field=_joined(path(at.steps), p.field), problem=p.problem, fix=p.fix) for p in context["problems"]
        ]
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return [_tag(at, error)]
    if error["type"] == "extra_forbidden" and len(at.steps) > 1 and at.steps[-1] in keys(model):
        problem, fix = "it is a key of no section", "write it at the top of the file, before the first section"
    else:
        problem, fix = _words(at, error)
    return [Problem(field=path(at.steps), problem=problem, fix=fix)]


def _joined(outer: str, inner: str) -> str:
    if not inner:
        return outer
    if outer == "(file)":
        return inner
    return f"{outer}{inner}" if inner.startswith("[") else f"{outer}.{inner}"


def _tag(at: Place, error: ErrorDetails) -> Problem:
    kinds = [
        kind for section in sections_of(at.annotation) for kind in choices(section.model_fields["kind"].annotation)
    ]
    field = path((*at.steps, "kind"))
    if error["type"] == "union_tag_not_found":
        return Problem(field=field, problem="missing", fix=f"use one of {listed(kinds)}")
    tag = str(error["ctx"]["tag"])
    return Problem(field=field, problem=f"unknown kind {tag!r}", fix=suggestion(tag, kinds))


def _words(at: Place, error: ErrorDetails) -> tuple[str, str]:
    kind, value = error["type"], error["input"]
    shown = "the value" if at.secret else without_passwords(_shown(value))
    match kind:
        case "missing":
            example = at.field.examples[0] if at.field and at.field.examples else None
            words = "missing", f"give it: {_meaning(at)}" + (f", for example {example}" if example else "")
        case "extra_forbidden":
            words = "unknown key", _fix_of_unknown(at)
        case "enum" | "literal_error":
            words = f"{shown} is not known here", suggestion(value, choices(at.annotation))
        case "string_pattern_mismatch":
            words = f"{shown} cannot be used here", _pattern_words(at)
        case _ if kind.endswith("_type"):
            words = f"{shown} is not {_expected(at.annotation)}", _fix_of_type(at, value)
        case "finite_number":
            words = f"{shown} is not a finite number", f"use a number {limits(at.annotation, at.field)}".rstrip()
        case _ if allowed := limits(at.annotation, at.field):
            words = f"{shown} is out of range", f"use {'a number ' if 'above' in allowed else ''}{allowed}"
        case _:
            # Whatever else pydantic may find: its own words do, and what the field means is the fix.
            words = without_passwords(error["msg"]), f"give {_meaning(at)}"
    return words


def _meaning(at: Place) -> str:
    return (at.field.description if at.field and at.field.description else "see docs/configuration.md").rstrip(".")


def _fix_of_unknown(at: Place) -> str:
    word = str(at.steps[-1])
    known = list(keys(at.section)) if at.section else []
    if word in ("password", "passwd") and "password_env" in known:
        return "a password does not belong into this file: use `password_env` or `password_file`"
    return suggestion(word, known)


def _pattern_words(at: Place) -> str:
    words = constraint(at.annotation, at.field, "words")
    return f"use {words}" if words else f"it has to match {constraint(at.annotation, at.field, 'pattern')}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else repr(value[:57]) + "..."
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return f"an array of {len(value)}"
    return "the value" if value is None else str(value)[:60]


EXPECTED: dict[Any, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
"""The plain types of a configuration, in words."""


def _expected(annotation: Any) -> str:
    inner = bare(annotation)
    if get_origin(inner) is tuple:
        return "an array of tables" if sections_of(get_args(inner)[0]) else "an array"
    return "a table" if sections_of(inner) else EXPECTED.get(inner, "what belongs here")


def _fix_of_type(at: Place, value: Any) -> str:
    inner, name = bare(at.annotation), path(step for step in at.steps if isinstance(step, str))
    if isinstance(value, str) and any("name" in section.model_fields for section in sections_of(inner)):
        return f'write it as {{ name = "{without_passwords(value)[:60]}" }}'
    if sections_of(inner):
        return f"write it as a table: {f'[[{name}]]' if isinstance(at.steps[-1], int) else f'[{name}]'}"
    if get_origin(inner) is tuple:
        return f"write [[{name}]] for each" if sections_of(get_args(inner)[0]) else "write it in brackets: [ ... ]"
    if inner in (int, float) and isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return "write it without quotes"
    if inner is str:
        return "write it in quotes"
    return f"use {EXPECTED.get(inner, 'another value')}"


JSON_VALUES = 2_000_000
"""Values of a JSON text that are read: each takes up to 100 times its bytes."""


def has_too_many_values(content: bytes) -> bool:
    """Tell whether a JSON text has more than JSON_VALUES values, before it is read."""
    return content.count(b",") + content.count(b"{") + content.count(b"[") > JSON_VALUES
