"""Loads the files of `[dashboard] tabs`, each into a tab of the page: one that is faulty into a tab that says so."""

import importlib.util
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, html
from dash.development.base_component import Component

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.own_tabs.callbacks import (
    Callback,
    Callbacks,
    Faults,
    OwnTab,
    OwnTabError,
    Properties,
    outputs,
    refuse_global,
    refuse_synchronous,
    register,
)
from dashboard.own_tabs.questions import Questions
from dashboard.tabs.tab import Tab

PAGE = "the page"


class Names:
    """The ids of elements by their owner, and what callbacks set already.

    taken: ids of the page's own elements.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._owners = dict.fromkeys(taken, PAGE)
        self._set: set[str] = set()

    def claim(self, ids: Sequence[str], owner: str) -> None:
        """Take the ids of a layout for a tab. Raises OwnTabError: one is another's, or there twice."""
        for name, count in Counter(ids).items():
            if count > 1:
                raise OwnTabError(f"the id {name!r} is in the layout {count} times; give each element its own")
            has = self._owners.setdefault(name, owner)
            if has != owner:
                fix = f"choose another, such as '{owner}-{name}'"
                raise OwnTabError(f"the id {name!r} is taken by {has if has == PAGE else f'the tab {has}'}; {fix}")

    def claim_outputs(self, callbacks: Sequence[Callback], owner: str) -> None:
        """Take what the callbacks of a tab set. Raises OwnTabError: it is not the tab's, or is set twice."""
        for output in [output for callback in callbacks for output in outputs(callback)]:
            target = f"{output.component_id}.{output.component_property}"
            if self._owners.get(str(output.component_id), owner) != owner:
                raise OwnTabError(f"a callback sets {target}, which is the page's; set what is in the tab's own layout")
            if target in self._set and not output.allow_duplicate:
                raise OwnTabError(f"two callbacks set {target}; set it in one of them, or give allow_duplicate=True")
            self._set.add(target)


def load_tabs(paths: Iterable[Path], taken: Iterable[str]) -> list[Tab]:
    """A tab a file, in their order; what is wrong with a file is shown in its tab, and logged.

    taken: ids of the page's elements, which a file can neither have for its own nor change.
    """
    names = Names(taken)
    return [_Panel(path, names).tab() for path in paths]


def ids_of(layout: Any) -> list[str]:
    """The ids in a component and below it."""
    return [str(part.id) for part in (layout, *layout._traverse()) if getattr(part, "id", None)]


class _Panel:
    """The panel of a tab's file: an element a callback for what went wrong with it, and what the file lays out."""

    def __init__(self, path: Path, names: Names) -> None:
        self._key = path.stem
        self._names = names
        self._faults = Faults(path)
        self._fault: Any = None
        self._slots = 0
        self._own: OwnTab | None = None
        try:
            self._own = _loaded(path)
        except (Exception, SystemExit) as problem:  # a file that calls sys.exit must not end the page
            self._fault = self._faults.shown(problem)

    def tab(self) -> Tab:
        """The tab of the page."""
        title = (self._own and self._own.title) or self._key
        return Tab(key=self._key, title=title, layout=self._frame, callbacks=self._register)

    def _frame(self) -> list[Any]:
        if self._fault is not None:
            return [html.Div(self._fault, className="own-fault")]
        slots = [html.Div(id=self._slot(n), className="own-fault", role="alert") for n in range(self._slots)]
        again = html.Button("Try again", id=f"own-again-{self._key}", hidden=True)
        return [*slots, again, html.Div(id=f"own-{self._key}", className="own-tab")]

    def _slot(self, number: int) -> str:
        return f"own-fault-{self._key}-{number}"

    def _register(self, app: Dash, hub: Hub, api: DaemonApi) -> None:
        if self._own is None:
            return
        ask, given = Questions(hub, api), Callbacks()
        try:
            if self._own.callbacks is not None:
                with refuse_global():
                    self._own.callbacks(given, ask)
            self._names.claim_outputs(given.given, self._key)
        except (Exception, SystemExit) as problem:
            self._fault = self._faults.shown(problem)
            return
        again, place = f"own-again-{self._key}", f"own-{self._key}"
        failed: Properties = {again: {"hidden": False}, place: {"children": None}}
        for callback in [self._opening(self._own, ask), *given.given]:
            register(app, callback, self._faults, self._slot(self._slots), failed if self._slots == 0 else {})
            self._slots += 1

    def _opening(self, own: OwnTab, ask: Questions) -> Callback:
        """What lays out the tab is a callback, too: it fails as one does, and can be tried again."""

        async def lay_out(_: int | None) -> tuple[list[Any], bool]:
            parts = _parts(await own.layout(ask))
            self._names.claim(ids_of(html.Div(parts)), self._key)
            return parts, True

        place, again = f"own-{self._key}", f"own-again-{self._key}"
        to = (Output(place, "children"), Output(again, "hidden"), Input(again, "n_clicks"))
        return Callback(dependencies=to, options={}, function=lay_out, name="layout")


def _parts(laid_out: Any) -> list[Any]:
    """What a layout gives, as a list. Raises OwnTabError: of a text it would be its letters."""
    if isinstance(laid_out, Component):
        return [laid_out]
    if not isinstance(laid_out, list | tuple):
        raise OwnTabError(f"layout returns {type(laid_out).__name__}; return a list of Dash components")
    return list(laid_out)


@refuse_global()
def _loaded(path: Path) -> OwnTab:
    """What the file's `tab()` gives. Raises whatever the file does, and OwnTabError."""
    name = f"own_tab_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OwnTabError("it is no Python file; name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for what is defined in it
    spec.loader.exec_module(module)
    make = getattr(module, "tab", None)
    if not callable(make):
        raise OwnTabError("it has no function `tab()`; write one that returns an OwnTab")
    own = make()
    if not isinstance(own, OwnTab):
        raise OwnTabError(f"tab() returns {type(own).__name__}; return an OwnTab")
    if not isinstance(own.title, str | None):
        raise OwnTabError(f"the title is {type(own.title).__name__}; give it as str")
    if inspect.iscoroutinefunction(own.callbacks):
        raise OwnTabError("`callbacks` is called, and not awaited; write it as `def`")
    refuse_synchronous(own.layout)
    return own
