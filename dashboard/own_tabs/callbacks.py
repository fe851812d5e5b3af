"""The callbacks of a tab's file: taken in, checked, and registered so that one that fails says so in its own tab."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dash
from dash import Dash, Output, _callback, set_props
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate
from plotly.basedatatypes import BaseFigure
from plotly.utils import PlotlyJSONEncoder

from dashboard.own_tabs.faults import Faults, OwnTabError

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
