"""What the models of the configuration say of their fields: the path, type, limits and choices of each.

Both the messages about a wrong configuration and the reference of a right one are made from this.
"""

import json
import re
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

Step = str | int


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a pattern asks of a text, in words; stands beside the pattern in the type."""

    words: str


def path(steps: Iterable[Step]) -> str:
    """Write steps as a path: ("groups", 0, "name") is `groups[0].name`; the whole file is `(file)`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{_key(step)}" for step in steps)
    return text.removeprefix(".") or "(file)"


def _key(step: str) -> str:
    """A key as TOML has it: one of other signs stands in quotes."""
    return step if re.fullmatch("[A-Za-z0-9_-]+", step) else json.dumps(step, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the configuration tree an error points to: the path a person writes, and what belongs there."""

    steps: tuple[Step, ...]
    section: type[BaseModel] | None  # the section the last step is looked up in
    field: FieldInfo | None  # what the last step is, where it names a field
    annotation: Any  # what belongs there

    @property
    def secret(self) -> bool:
        """Whether a value found here must not be shown."""
        return bool(self.steps) and bool(re.search("dsn|password", str(self.steps[-1])))


def place(model: type[BaseModel], location: Sequence[Step]) -> Place:
    """Follow the location of an error through the model; the tags of discriminated unions are no steps of a path."""
    here = Place(steps=(), section=None, field=None, annotation=model)
    for step in location:
        here = _next(here, step)
    return here


def _next(here: Place, step: Step) -> Place:
    if isinstance(step, int):
        return Place(steps=(*here.steps, step), section=None, field=here.field, annotation=_items(here.annotation))
    sections = sections_of(here.annotation)
    if len(sections) > 1:
        chosen = [section for section in sections if step in get_args(section.model_fields["kind"].annotation)]
        return Place(steps=here.steps, section=None, field=here.field, annotation=chosen[0])
    section = sections[0] if sections else None
    field = keys(section).get(step) if section else None
    return Place(steps=(*here.steps, step), section=section, field=field, annotation=field.annotation if field else Any)


def keys(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """Give the fields of a section by the key written in the file."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def bare(annotation: Any) -> Any:
    """Strip what pydantic wraps around a type: `Annotated`, and `| None`."""
    if get_origin(annotation) is typing.Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return bare(parts[0]) if len(parts) == 1 else annotation
    return annotation


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """List the sections a type stands for: one, or the alternatives of a union; none for a plain value."""
    inner = bare(annotation)
    parts = get_args(inner) if get_origin(inner) in (Union, UnionType) else (inner,)
    return [part for part in map(bare, parts) if isinstance(part, type) and issubclass(part, BaseModel)]


def _items(annotation: Any) -> Any:
    inner = bare(annotation)
    return get_args(inner)[0] if get_origin(inner) is tuple else Any


def choices(annotation: Any) -> list[str]:
    """List the values a type allows, when it names them one by one."""
    inner = bare(annotation)
    if get_origin(inner) is Literal:
        return [str(value) for value in get_args(inner)]
    if isinstance(inner, type) and issubclass(inner, Enum):
        return [str(member.value) for member in inner]
    return []


def constraint(annotation: Any, field: FieldInfo | None, name: str) -> Any:
    """Find a constraint (`ge`, `pattern`, `max_length`, ...) of a field, on the field or inside its type."""
    inside = [*get_args(annotation)[1:]] if get_origin(annotation) is typing.Annotated else []
    nested = [part.metadata for part in inside if isinstance(part, FieldInfo)]
    for rule in [*(field.metadata if field else []), *inside, *(rule for rules in nested for rule in rules)]:
        if (value := getattr(rule, name, None)) is not None:
            return value
    if get_origin(annotation) in (Union, UnionType):
        found = (constraint(part, None, name) for part in get_args(annotation))
        return next((value for value in found if value is not None), None)
    return None


def limits(annotation: Any, field: FieldInfo | None) -> str:
    """Say the limits of a number or of a length: `0 to 65535`, `above 0, at most 3600`; empty when there are none."""
    low, above, high = (constraint(annotation, field, name) for name in ("ge", "gt", "le"))
    least, most = (constraint(annotation, field, name) for name in ("min_length", "max_length"))
    if low is not None and high is not None:
        return f"{low} to {high}"
    if least is not None and most is not None:
        return f"{least} to {most} of them" if get_origin(bare(annotation)) is tuple else f"{least} to {most} letters"
    unit = "" if get_origin(bare(annotation)) is tuple else " letters"
    parts = [
        f"above {above}" if above is not None else "",
        f"at least {low}" if low is not None else "",
        f"at most {high}" if high is not None else "",
        f"at least {least}" if least is not None else "",
        f"at most {most}{unit}" if most is not None else "",
    ]
    return ", ".join(part for part in parts if part)


class Section(BaseModel):
    """A table of the file: unknown keys are refused, and a refused value is never shown: it may be a password."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)
