"""Callbacks of Dash without a server or a browser: what a tab declares is called as if something was pressed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dash._callback_context import context_value
from dash._utils import AttributeDict, stringify_id


class Declared:
    """Stands for the application: keeps the functions of its callbacks, by name."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def callback(self, *_: Any, **__: Any) -> Callable[[Any], Any]:
        def keep(function: Any) -> Any:
            return self.found.setdefault(function.__name__, function)

        return keep

    def clientside_callback(self, *_: Any, **__: Any) -> None:
        """What a script does is not called."""


@contextmanager
def told_of(element: Any, value: Any, name: str = "n_clicks") -> Iterator[dict[str, Any]]:
    """A callback is told of a property of an element; yields the properties that it sets, by id."""
    props: dict[str, Any] = {}
    triggered = [{"prop_id": f"{stringify_id(element)}.{name}", "value": value}]
    before = context_value.set(AttributeDict(triggered_inputs=triggered, updated_props=props))
    try:
        yield props
    finally:
        context_value.reset(before)
