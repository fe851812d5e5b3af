"""Tabs of a site's own on the page: opened by key and link, and each fault in its own panel while the rest lives."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.browser import Watched, grave, live
from tests.page.stage import Stage

pytestmark = pytest.mark.page

IMPORTS = """
import asyncio
import sys
from dash import Input, Output, html
from dashboard.own_tabs import OwnTab, chart_panel, live, tick
"""
FILES = {
    "sums": """
async def layout(ask):
    group = await ask.group("bpm")
    rates = chart_panel("sums", "Rates", (("committed", "committed", "#9cc3e6"),), "/s")
    ticks = html.P(id="sums-ticks", **{"data-ticks": 0})
    return [html.P(group.instruments[-1]), live("group.committed", id="sums-live"), rates, ticks,
            tick("sums-tick", every_ms=300)]

def callbacks(app, ask):
    @app.callback(Output("sums-ticks", "children"), Input("sums-tick", "data"))
    async def draw(seen):
        return f"{seen['view']['group']} {seen['at']}"

def tab():
    return OwnTab(title="Sums", layout=layout, callbacks=callbacks)
""",
    "unloaded": "import nothing_like_this\n",
    "pressed": """
async def layout(ask):
    buttons = [html.Button(how, id=f"pressed-{how}") for how in ("wrong", "exit", "right", "for-ever")]
    return [*buttons, html.P(id="said")]

def callbacks(app, ask):
    @app.callback(Output("said", "children"), Input("pressed-wrong", "n_clicks"), Input("pressed-right", "n_clicks"),
                  prevent_initial_call=True)
    async def press(wrong, right):
        return f"right {right}" if right else f"{1 / 0}"

    @app.callback(Output("said", "title"), Input("pressed-exit", "n_clicks"), prevent_initial_call=True)
    async def leave(_):
        sys.exit(3)

    @app.callback(Output("said", "lang"), Input("pressed-for-ever", "n_clicks"), prevent_initial_call=True)
    async def wait(_):
        while True:
            await asyncio.sleep(0)

def tab():
    return OwnTab(layout=layout, callbacks=callbacks)
""",
    "unlaid": """
async def layout(ask):
    return [html.P([][0])]

def tab():
    return OwnTab(layout=layout)
""",
}
NAMES = ["live", "instruments", "reads", "interference", "visits", "conditions", "storage", *FILES]


@pytest.fixture(scope="module")
def running(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A page with a tab that works, and with each kind of faulty one."""
    folder = tmp_path_factory.mktemp("own")
    for name, code in FILES.items():
        (folder / f"{name}.py").write_text(IMPORTS + code)
    stage = Stage(*(option for name in FILES for option in ("--tab", str(folder / f"{name}.py"))))
    try:
        stage.start()
        yield stage
    finally:
        stage.end()


def opened_tab(page: Page, name: str) -> None:
    page.locator(f"#tab-{name}").click()
    expect(page.locator(f"#panel-{name}")).to_be_visible()


def lives_on(page: Page) -> None:
    """The stream goes on, and another tab of the page still asks and is answered."""
    live(page)
    shown = page.locator("#clock").inner_text()
    expect(page.locator("#clock")).not_to_have_text(shown)
    live(page)
    opened_tab(page, "storage")
    expect(page.locator("#panel-storage")).to_contain_text("Partitions")


def test_digits_open_own_tabs_too_and_a_link_leads_to_one(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    assert page.locator("#tabs [role=tab]").evaluate_all("all => all.map(one => one.dataset.tab)") == NAMES
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("1 … 9")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.keyboard.press("8")
    expect(page.locator("#panel-sums")).to_be_visible()
    expect(page).to_have_url(re.compile("tab=sums"))
    page.keyboard.press("9")
    expect(page.locator("#panel-unloaded")).to_be_visible()
    fresh.again(stage.page.url + "/?tab=sums")
    expect(page.get_by_role("tab", name="Sums")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#own-sums")).to_contain_text("bpm_119")
    assert fresh.errors == []


def test_an_own_tab_has_live_figures_charts_and_ticks(stage: Stage, fresh: Watched) -> None:
    page = fresh.again(stage.page.url + "/?tab=sums")
    expect(page.locator("#sums-live")).to_have_text(re.compile(r"^\d"))
    expect(page.locator("#chart-sums path.js-line").first).to_be_attached()
    ticks = page.locator("#sums-ticks")
    expect(ticks).to_have_text(re.compile(r"^bpm \d+$"))
    expect(ticks).not_to_have_text(ticks.inner_text())
    assert fresh.errors == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unloaded", "unloaded.py, line 6: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("unlaid", "unlaid.py, line 8 in layout: IndexError: list index out of range"),
    ],
)
def test_a_tab_that_cannot_be_shown_says_why_in_its_place(name: str, words: str, fresh: Watched) -> None:
    page = fresh.page
    opened_tab(page, name)
    expect(page.locator(f"#panel-{name} .own-fault").first).to_contain_text(words)
    expect(page.locator(".own-fault:not(:empty):visible")).to_have_count(1)
    expect(page.locator(f"#panel-{name}")).to_contain_text("Correct the file, and restart the page.")
    lives_on(page)
    assert fresh.errors == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("wrong", "in press: ZeroDivisionError: division by zero"),
        ("exit", "in leave: SystemExit: 3"),
        ("for-ever", "in wait: no answer within 10 s"),
    ],
)
def test_a_callback_that_fails_says_so_and_goes_on(how: str, words: str, stage: Stage, fresh: Watched) -> None:
    page = fresh.again(stage.page.url + "/?tab=pressed")
    page.locator(f"#pressed-{how}").click()
    if how == "for-ever":
        lives_on(page)  # while it waits
        opened_tab(page, "pressed")
    expect(page.locator("#panel-pressed .own-fault:not(:empty)")).to_contain_text(words)
    lives_on(page)
    opened_tab(page, "pressed")
    page.locator("#pressed-right").click()
    expect(page.locator("#said")).to_have_text("right 1")
    expect(page.locator("#panel-pressed .own-fault:not(:empty)")).to_have_count(0 if how == "wrong" else 1)
    assert fresh.errors == []


@pytest.mark.parametrize("width", [1600, 390])
def test_axe_finds_nothing_serious_on_own_tabs_and_none_scrolls_sideways(
    stage: Stage, opened: Watched, width: int
) -> None:
    page = opened.again(stage.page.url, viewport={"width": width, "height": 844})
    live(page)
    for name in FILES:
        opened_tab(page, name)
        expect(page.locator(f"#fill-{name} > *").first).to_be_attached()
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
        assert grave(page) == [], name
