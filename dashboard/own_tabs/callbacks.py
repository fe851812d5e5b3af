"""The callbacks of a tab's file: taken in, checked, and registered so that one that fails says so in its own tab."""

import asyncio
import inspect
import json
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dash
from dash import Dash, Output, _callback, dcc, html, set_props
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate
from plotly.basedatatypes import BaseFigure
from plotly.utils import PlotlyJSONEncoder

from dashboard.feed.client import DaemonUnavailable
from dashboard.own_tabs.questions import Questions
from dashboard.tabs.figures import GRAPH_HEIGHT, empty, graph_config

log = logging.getLogger(__name__)

LONGEST = 300
"""Characters of a message: Dash writes paragraphs, with all of the value that it refuses."""

RESTART = "Correct the file, and restart the page. Its log has the whole traceback."


class OwnTabError(Exception):
    """The page refuses what a tab's file does; the message says what that is, and the fix."""


class Faults:
    """The faults of one file: each is logged once, though a callback may fail every second in every browser."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged: set[tuple[type[BaseException], str]] = set()

    def shown(self, problem: BaseException, function: str = "") -> Any:
        """The element that says what is wrong and what to do; a new fault is logged with its traceback.

        function: name of the one that was called, for a problem that is none of the file's lines.
        """
        if isinstance(problem, DaemonUnavailable):
            return _element("No answer.", f"{problem}.", "")
        place = self._place(problem) or _within(function)
        words = f"{self._path.name}{place}: {_said(problem)}"
        # Not by the message: it may hold a value that differs each time.
        if (type(problem), place) not in self._logged:
            self._logged.add((type(problem), place))
            log.error("a tab is faulty: %s", words, exc_info=problem)
        return _element("This tab is faulty.", words, RESTART)

    def _place(self, problem: BaseException) -> str:
        if isinstance(problem, SyntaxError) and problem.filename == str(self._path):
            return f", line {problem.lineno}"
        # The innermost line of the file itself: what a library does deeper down is in the log.
        for frame in reversed(traceback.extract_tb(problem.__traceback__)):
            if frame.filename == str(self._path):
                return f", line {frame.lineno}{_within(frame.name)}"
        return ""


def _said(problem: BaseException) -> str:
    said = " ".join((problem.msg if isinstance(problem, SyntaxError) else str(problem)).split())[:LONGEST]
    return said if isinstance(problem, OwnTabError) else f"{type(problem).__name__}: {said}".removesuffix(": ")


def _within(function: str) -> str:
    return f" in {function}" if function not in ("", "<module>") else ""


def _element(title: str, words: str, action: str) -> Any:
    return html.Div([html.Strong(title), " ", html.Code(words), " ", action], className="panel")


LIMIT_S = 10.0
"""A callback that takes longer is ended: a browser has six connections to the page, and each waiting one takes one."""

GLOBALS: tuple[list[Any] | dict[str, Any], ...] = (
    _callback.GLOBAL_CALLBACK_LIST,
    _callback.GLOBAL_CALLBACK_MAP,
    _callback.GLOBAL_INLINE_SCRIPTS,
    _callback.GLOBAL_API_PATHS,
)
"""Where Dash has what was registered without an application."""

Function = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Callback:
    """A callback as the file gives it: Outputs, Inputs and States; options of Dash; the function, and its name."""

    dependencies: tuple[Any, ...]
    options: dict[str, Any]
    function: Function
    name: str


class Callbacks:
    """What `callbacks` of a file registers with: `app.callback`, as of Dash."""

    def __init__(self) -> None:
        self.given: list[Callback] = []

    def callback(
        self, *dependencies: Any, prevent_initial_call: bool = False, running: Any = None
    ) -> Callable[[Function], Function]:
        """Register an async function that is called back on, as `dash.callback` does.

        Raises OwnTabError where the function is not async, and what Dash raises of dependencies that do not fit.
        """
        options = {"prevent_initial_call": prevent_initial_call, "running": running}

        def take(function: Function) -> Function:
            refuse_synchronous(function)
            # Dash checks it here, where the traceback has the line of the file. The page gets all of them, or none.
            dash.callback(*dependencies, **options, callback_map={}, callback_list=[])(function)
            self.given.append(
                Callback(dependencies=dependencies, options=options, function=function, name=function.__name__)
            )
            return function

        return take


def refuse_synchronous(function: Callable[..., Any]) -> None:
    """See that a function is async. Raises OwnTabError."""
    if inspect.iscoroutinefunction(function):
        return
    code = getattr(function, "__code__", None)
    line = "" if code is None else f" (line {code.co_firstlineno})"
    name = getattr(function, "__name__", repr(function))
    raise OwnTabError(f"{name}{line} would hold up every browser while it runs; write it as `async def`")


@contextmanager
def refuse_global() -> Iterator[None]:
    """See that nothing is registered with Dash itself: it would be live, and nothing would guard the page from it.

    Raises OwnTabError.
    """
    lengths = [len(registered) for registered in GLOBALS]
    is_more = False
    try:
        yield
    finally:
        for registered, length in zip(GLOBALS, lengths, strict=True):
            while len(registered) > length:
                is_more = True
                registered.popitem() if isinstance(registered, dict) else registered.pop()
    if is_more:
        fix = "register in `callbacks(app, ask)`, by `@app.callback`"
        raise OwnTabError(f"it registers a callback with `dash.callback`, which nothing would guard; {fix}")


def outputs(callback: Callback) -> Iterator[Output]:
    """The Outputs of a callback, in whatever they are nested."""
    running = callback.options.get("running") or []
    yield from _outputs(callback.dependencies)
    yield from _outputs(running)


def _outputs(given: Any) -> Iterator[Output]:
    if isinstance(given, Output):
        yield given
    elif isinstance(given, dict):
        yield from _outputs(list(given.values()))
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _outputs(one)


Properties = dict[str, dict[str, Any]]
"""By id of an element."""


def see_children(callback: Callback, answer: Any) -> None:
    """See that a browser can show what goes into `children`: of anything else it empties the whole panel.

    Raises OwnTabError: there is a figure or a dict.
    """
    to = list(_outputs(callback.dependencies))
    answers = [answer] if len(to) == 1 else answer
    for output, value in zip(to, answers if isinstance(answers, list | tuple) else (), strict=False):
        for part in _parts(value) if output.component_property == "children" else ():
            if isinstance(part, BaseFigure | dict):
                fix = "put a figure into dcc.Graph, and a dict into str()"
                raise OwnTabError(f"a {type(part).__name__} is no child that a browser can show; {fix}")


def _parts(value: Any) -> Iterator[Any]:
    """A value of `children`, and what is below it."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _parts(one)
        return
    yield value
    if isinstance(value, Component) and hasattr(value, "children"):
        yield from _parts(value.children)


def register(app: Dash, callback: Callback, faults: Faults, slot: str, failed: Properties) -> None:
    """Register a callback with Dash.

    slot: id of the element that shows what went wrong the last time.
    failed: what else is set when it fails.
    """

    async def call(*given: Any, **named: Any) -> Any:
        answer = await callback.function(*given, **named)
        see_children(callback, answer)
        set_props(slot, {"children": None})
        return answer

    app.callback(*callback.dependencies, **callback.options)(call)
    *_, name = app.callback_map
    entry = app.callback_map[name]
    # Around all that Dash does: what a function returns may fit no Output, or be nothing that JSON has.

    def failing(problem: BaseException) -> str:
        return _answer({slot: {"children": faults.shown(problem, callback.name)}} | failed)

    entry["callback"] = _guarded(entry["callback"], failing)


def _guarded(call: Function, failing: Callable[[BaseException], str]) -> Function:
    async def guarded(*given: Any, **named: Any) -> Any:
        limit = asyncio.timeout(LIMIT_S)
        try:
            async with limit:
                return await call(*given, **named)
        except PreventUpdate:
            raise
        # sys.exit in a task would end the page.
        except (Exception, SystemExit) as problem:
            return failing(_too_long(problem) if limit.expired() else problem)

    return guarded


def _too_long(problem: BaseException) -> OwnTabError:
    fault = OwnTabError(f"no answer within {LIMIT_S:g} s; ask for less, or compute less at a time")
    # The place where it waited is the place of the fault.
    return fault.with_traceback((problem.__cause__ or problem).__traceback__)


def _answer(properties: Properties) -> str:
    """What Dash sends when a callback sets properties beside its Outputs, and none of these."""
    return json.dumps({"multi": True, "response": {}, "sideUpdate": properties}, cls=PlotlyJSONEncoder)


@dataclass(frozen=True, kw_only=True)
class OwnTab:
    """What `tab()` returns.

    layout: awaited when a browser first opens the tab; gives what is in its panel, a list of Dash components.
    callbacks: called once at the start of the page, to register what Dash calls back on, each by `@app.callback`.
    title: what a person reads; the name of the file, if it is None.
    """

    layout: Callable[[Questions], Awaitable[list[Any]]]
    callbacks: Callable[[Callbacks, Questions], None] | None = None
    title: str | None = None


def graph_panel(name: str, title: str, *, height: int = GRAPH_HEIGHT) -> Any:
    """A panel for a figure that a callback draws: `Output(name, "figure")`. height: in px."""
    graph = dcc.Graph(id=name, figure=empty(height), config=graph_config(), style={"height": f"{height}px"})
    return html.Figure([html.Figcaption(html.H2(title)), graph], className="panel")
