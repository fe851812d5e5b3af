"""Files of a site's own tabs: what a faulty one shows, says in the log, and leaves as it is."""

import logging
from pathlib import Path
from typing import Any

import orjson
import pytest
from dash import Dash, _callback, html
from dash.development.base_component import Component

from dashboard.app import build_app
from dashboard.feed.client import Daemon, DaemonApi
from dashboard.feed.hub import Hub
from dashboard.own_tabs.loading import ids_of, load_tabs
from dashboard.tabs.tab import Tab

HEAD = """
import sys
import plotly.graph_objects as go
from dash import Input, Output, html
from dashboard.own_tabs import OwnTab

def tab():
    return OwnTab(layout=layout, callbacks=callbacks)

async def layout(ask):
    return [html.P(id="shown")]

def callbacks(app, ask):
    pass
"""

AT_LOAD = [
    ("import nothing_like_this", "line 1: ModuleNotFoundError: No module named 'nothing_like_this'"),
    ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
    ("def tab(:\n    pass", "line 1: SyntaxError: invalid syntax"),
    ("def tab():\n    return 1 / 0", "line 2 in tab: ZeroDivisionError: division by zero"),
    ("x = 1", "it has no function `tab()`; write one that returns an OwnTab"),
    ("def tab():\n    return 'x'", "tab() returns str; return an OwnTab"),
    (
        "from dashboard.own_tabs import OwnTab\ndef layout(ask): ...\ndef tab():\n    return OwnTab(layout=layout)",
        "layout (line 2) would hold up every browser while it runs; write it as `async def`",
    ),
]

GLOBAL = "from dash import callback\n@callback(Output('banner', 'x'), Input('shown', 'id'))\ndef own(n): ...\n"
AT_LOAD += [
    (HEAD.replace("callbacks=callbacks", f"title={title}"), f"the title is {kind}; give it as str")
    for title, kind in (("b'FFT'", "bytes"), ("{'en': 'FFT'}", "dict"))
]
AT_LOAD += [
    (HEAD.replace("def callbacks", "async def callbacks"), "`callbacks` is called, and not awaited; write it as `def`"),
    (HEAD + GLOBAL, "it registers a callback with `dash.callback`, which nothing would guard; register in `callbacks("),
    (HEAD + GLOBAL + "1 / 0\n", "line 18: ZeroDivisionError"),
]

CALLBACK = HEAD + "def callbacks(app, ask):\n    @app.callback({})\n    {} shown(_):\n        return 1\n"
AT_START = [
    (
        HEAD + "def callbacks(app, ask):\n    import dash\n    dash.clientside_callback('x', Output('shown', 'title'),"
        " Input('shown', 'id'))\n",
        "it registers a callback with `dash.callback`",
    ),
    (HEAD + "def callbacks(app, ask):\n    raise KeyError('bpm')\n", "line 16 in callbacks: KeyError: 'bpm'"),
    (
        CALLBACK.format("Output('shown', 'children'), Input('shown', 'id')", "def"),
        "line 16 in callbacks: shown (line 16) would hold up every browser while it runs; write it as `async def`",
    ),
    (
        CALLBACK.format("Output('banner', 'children'), Input('shown', 'id')", "async def"),
        "a callback sets banner.children, which is the page's; set what is in the tab's own layout",
    ),
    (
        CALLBACK.format("Output('shown', 'children'), Output('shown', 'children'), Input('shown', 'id')", "async def"),
        "two callbacks set shown.children; set it in one of them, or give allow_duplicate=True",
    ),
]


def written(folder: Path, code: str, name: str = "own") -> Path:
    file = folder / f"{name}.py"
    file.write_text(code)
    return file


class Site:
    """The page's application with tabs of files."""

    def __init__(self, *files: Path) -> None:
        self.app = Dash(__name__, server=False, backend="fastapi", suppress_callback_exceptions=True)
        self.tabs = load_tabs(files, ["banner", "picked"])
        hub, api = Hub(daemon="http://127.0.0.1:9", build="0"), DaemonApi(Daemon(url="http://127.0.0.1:9"))
        for tab in self.tabs:
            assert tab.callbacks is not None
            tab.callbacks(self.app, hub, api)

    async def call(self, number: int, *given: Any) -> dict[str, Any]:
        """What a browser is answered when it calls back on the callback of this number; 0 is the layout."""
        name = list(self.app.callback_map)[number]
        entry = self.app.callback_map[name]
        outputs = entry["output"] if isinstance(entry["output"], list) else [entry["output"]]
        told = [{"id": output.component_id, "property": output.component_property} for output in outputs]
        answer = await entry["callback"](*given, outputs_list=told if len(told) > 1 else told[0])
        return orjson.loads(answer)


def shown(tab: Tab) -> str:
    """The text in a tab's panel."""
    return text(html.Div(tab.layout()))


def text(part: Any) -> str:
    """The text of a component, or of one as a browser is sent it."""
    if isinstance(part, Component):
        return text(getattr(part, "children", None))
    if isinstance(part, dict):
        return text(part["props"].get("children"))
    if isinstance(part, list):
        return "".join(map(text, part))
    return "" if part is None else str(part)


@pytest.mark.parametrize(("code", "words"), [*AT_LOAD, *AT_START])
def test_a_fault_at_the_start_is_in_its_tab_and_once_in_the_log(
    code: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = written(tmp_path, HEAD, "good")
    site = Site(written(tmp_path, code), good)
    faulty, well = site.tabs
    assert (faulty.key, faulty.title) == ("own", "own")
    assert f"own.py, {words}" in shown(faulty) or f"own.py: {words}" in shown(faulty)
    assert "Correct the file, and restart the page." in shown(faulty)
    assert "faulty" not in shown(well)
    (record,) = caplog.records
    assert words in record.getMessage()
    assert record.exc_info is not None
    # Nothing of a faulty file is registered, not even what comes before its fault.
    assert not [*_callback.GLOBAL_CALLBACK_LIST, *_callback.GLOBAL_CALLBACK_MAP, *_callback.GLOBAL_INLINE_SCRIPTS]
    assert not [name for name in site.app.callback_map if "own-own" in name or name.startswith("shown")]


def test_a_file_that_is_not_there_is_a_faulty_tab(tmp_path: Path) -> None:
    (tab,) = Site(tmp_path / "gone.py").tabs
    assert "gone.py: FileNotFoundError" in shown(tab)


def test_a_file_that_nobody_may_read_is_a_faulty_tab_of_a_page_that_starts(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.symlink_to("/proc/self/mem")  # root may not read its beginning, either
    build_app(daemon=Daemon(url="http://127.0.0.1:9"), own_tabs=[file])
    (tab,) = Site(file).tabs
    assert "own.py: OSError: " in shown(tab)


async def test_a_layout_of_one_component_is_a_list_of_it(tmp_path: Path) -> None:
    site = Site(written(tmp_path, HEAD + "async def layout(ask):\n    return html.P(id='shown')\n"))
    (part,) = (await site.call(0, None))["response"]["own-own"]["children"]
    assert part["props"]["id"] == "shown"


async def test_a_layout_is_shown_and_one_that_fails_can_be_tried_again(tmp_path: Path) -> None:
    broken = (
        HEAD
        + "seen = []\nasync def layout(ask):\n    seen.append(1)\n    return [html.P(id='x'), 1 / (len(seen) - 1)]\n"
    )
    site = Site(written(tmp_path, broken))
    first = (await site.call(0, None))["sideUpdate"]
    assert "own.py, line 18 in layout: ZeroDivisionError: division by zero" in text(
        first["own-fault-own-0"]["children"]
    )
    assert first["own-again-own"] == {"hidden": False}
    second = await site.call(0, 1)
    assert second["response"]["own-own"]["children"][0]["props"]["id"] == "x"
    assert second["response"]["own-again-own"] == {"hidden": True}
    assert second["sideUpdate"] == {"own-fault-own-0": {"children": None}}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("return [html.P(id='picked')]", "the id 'picked' is taken by the page; choose another, such as 'own-picked'"),
        ("return 'abc'", "layout returns str; return a list of Dash components"),
        ("return [html.P(id='a'), html.P(id='a')]", "the id 'a' is in the layout 2 times; give each element its own"),
        (
            "return [html.Div([go.Figure()])]",
            "a Figure is no child that a browser can show; put a figure into dcc.Graph",
        ),
    ],
)
async def test_a_layout_that_would_harm_the_page_is_refused(code: str, words: str, tmp_path: Path) -> None:
    site = Site(written(tmp_path, HEAD + f"async def layout(ask):\n    {code}\n"))
    answer = await site.call(0, None)
    assert words in text(answer["sideUpdate"]["own-fault-own-0"]["children"])
    assert answer["response"] == {}


async def test_an_id_is_of_the_tab_that_was_opened_first(tmp_path: Path) -> None:
    site = Site(written(tmp_path, HEAD, "one"), written(tmp_path, HEAD, "two"))
    assert "own-one" in (await site.call(0, None))["response"]
    refused = (await site.call(1, None))["sideUpdate"]["own-fault-two-0"]["children"]
    assert "the id 'shown' is taken by the tab one; choose another, such as 'two-shown'" in text(refused)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("return [1][n]", "own.py, line 18 in fails: IndexError: list index out of range"),
        ("sys.exit(n)", "own.py, line 18 in fails: SystemExit: 7"),
        ("return object()", "own.py in fails: InvalidCallbackReturnValue: The callback"),
        ("return {'a': 1}", "own.py in fails: a dict is no child that a browser can show"),
        ("import asyncio; await asyncio.sleep(60)", "own.py, line 18 in fails: no answer within 0.05 s"),
    ],
)
async def test_a_callback_that_fails_says_so_and_is_logged_once(
    code: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.own_tabs.callbacks.LIMIT_S", 0.05)
    head = "def callbacks(app, ask):\n    @app.callback(Output('shown', 'children'), Input('shown', 'id'))\n"
    site = Site(written(tmp_path, HEAD + head + f"    async def fails(n):\n        {code}\n"))
    for _ in range(2):
        answer = await site.call(1, 7)
        assert words in text(answer["sideUpdate"]["own-fault-own-1"]["children"])
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.ERROR


async def test_a_daemon_that_is_away_is_no_fault_of_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(written(tmp_path, HEAD + "async def layout(ask):\n    await ask.group('bpm')\n"))
    told = text((await site.call(0, None))["sideUpdate"]["own-fault-own-0"]["children"])
    assert told.startswith("No answer. not reached yet")
    assert caplog.records == []


def test_the_ids_of_a_component_are_its_own_and_those_below() -> None:
    assert ids_of(html.Div([html.P(id="b"), html.Div(html.P(id="c"))], id="a")) == ["a", "b", "c"]


def test_a_tab_may_have_inputs_of_the_page(tmp_path: Path) -> None:
    code = CALLBACK.format("Output('shown', 'children'), Input('picked', 'data')", "async def")
    (tab,) = Site(written(tmp_path, code)).tabs
    assert "faulty" not in shown(tab)
