"""What is marked ends the process; and all by which the loop and threads enter the data path is marked."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from daemon.core.supervision.fail_stop import fail_stop, process_ends

ROOT = Path(__file__).parents[4]
DATA_PATH = (ROOT / "daemon/data_path.py", *sorted((ROOT / "daemon").glob("pipeline/**/*.py")))
DATA_PATH = (*DATA_PATH, *sorted((ROOT / "daemon").glob("sources/**/*.py")))

REGISTERS = {
    "call_soon": 0,
    "call_soon_threadsafe": 0,
    "call_later": 1,
    "call_at": 1,
    "add_reader": 1,
    "add_writer": 1,
    "add_done_callback": 0,
    "create_task": 0,
    "ensure_future": 0,
    "workers.begin": 1,
    "done_before": 1,
}
"""Calls that have something called later, or elsewhere, and which of their arguments that is."""

PROTOCOLS = {"BufferedProtocol", "Protocol", "DatagramProtocol"}
FROM_THE_LOOP = {
    *("connection_made", "connection_lost", "get_buffer", "buffer_updated", "data_received", "eof_received"),
    *("datagram_received", "error_received", "pause_writing", "resume_writing"),
}

OF_ANOTHER = {"wait", "_open"}
"""An event of asyncio's, and the setting up of a transport, in which a peer's TLS may fail in any way: no state of the
data path is in its hands yet."""


class Ended(BaseException):
    """In place of the end."""


@pytest.fixture
def ends() -> Iterator[list[str]]:
    said: list[str] = []

    def end(where: str, error: Exception) -> NoReturn:
        said.append(f"{where}: {error}")
        raise Ended

    with process_ends(end):
        yield said


@fail_stop(KeyError)
def fails(error: Exception) -> None:
    raise error


@fail_stop(KeyError)
async def fails_later(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def test_any_exception_ends_the_process(ends: list[str]) -> None:
    with pytest.raises(Ended):
        fails(AssertionError("half"))
    with pytest.raises(Ended):
        await fails_later(OSError("a step"))
    with pytest.raises(Ended):
        fails(ExceptionGroup("", [KeyError(), ValueError("one of two")]))
    assert ends[:2] == ["fails: half", "fails_later: a step"]
    assert len(ends) == 3


async def test_errors_that_are_named_reach_the_caller(ends: list[str]) -> None:
    with pytest.raises(KeyError):
        fails(KeyError())
    with pytest.raises(KeyError):
        await fails_later(KeyError())
    with pytest.raises(ExceptionGroup):
        fails(ExceptionGroup("", [KeyError()]))
    task = asyncio.ensure_future(fails_later(KeyError()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == []


def _called(argument: ast.expr) -> str:
    """The name of the function that is called in the end."""
    match argument:
        case ast.Lambda(body=body):
            return _called(body)
        case ast.Call(func=ast.Name(id="partial"), args=[first, *_]):
            return _called(first)
        case ast.Call(func=function):
            return _called(function)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ast.unparse(argument)


def _registering(node: ast.AST) -> str:
    """The name by which something is called, with that of its owner where the owner makes the difference."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="begin")):
            return f"{_called(value).lstrip('_')}.begin"
        case ast.Call(func=function):
            return _called(function)
    return ""


def _is_marked(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Call) and _called(each) == "fail_stop" for each in function.decorator_list)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_all_by_which_the_loop_and_threads_enter_the_data_path_is_marked() -> None:
    """A callback of the same name in another module counts: what cannot be told apart has to be marked everywhere."""
    trees = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in DATA_PATH}
    marked = {each.name for tree in trees.values() for each in _functions(tree) if _is_marked(each)}
    found, unmarked = 0, []
    for path, tree in trees.items():
        own = {each.name: _is_marked(each) for each in _functions(tree)}
        for node in ast.walk(tree):
            at = REGISTERS.get(_registering(node))
            if at is None:
                continue
            name = _called(node.args[at])
            found += 1
            if name not in OF_ANOTHER and not own.get(name, name in marked):
                unmarked.append(f"{path}:{node.lineno}: {name}")
    assert unmarked == []
    assert found > 15


def test_what_the_loop_calls_of_a_protocol_is_marked() -> None:
    found = []
    for path in DATA_PATH:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and PROTOCOLS & {_called(base) for base in node.bases}:
                found += [each for each in _functions(ast.Module(node.body, [])) if each.name in FROM_THE_LOOP]
    assert [each.name for each in found if not _is_marked(each)] == []
    assert len(found) >= 5
