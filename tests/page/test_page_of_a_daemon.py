"""The page over the real daemon and its embedded PostgreSQL."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.browser import OPENED_MS, Watched, chromium, live
from tests.page.stage import Process, ask, until

pytestmark = [pytest.mark.page, pytest.mark.slow]

CONFIGURATION = """
logger = "end-to-end"
state_dir = "state"

[[groups]]
name = "bpm"
count = 24
channels = [{{ name = "top_in", unit = "mm" }}, {{ name = "bot_in", unit = "mm", dtype = "int32" }}]

[[sources]]
kind = "simulated"
group = "bpm"
rate = 20

[alarms]
commit_p99_ms = 60000.0

[folders]
serve = true

[api]
port = {port}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "state"


@pytest.fixture(scope="module")
def daemon(state: Path) -> Iterator[Process]:
    file = state.parent / "page.toml"
    daemon = Process("-m", "daemon", "run", str(file), "--log-level", "warning", health="/ready")
    file.write_text(CONFIGURATION.format(port=daemon.port))
    daemon.start()
    try:
        yield daemon
    finally:
        assert daemon.terminate(30.0) == 0


@pytest.fixture(scope="module")
def shown(daemon: Process) -> Iterator[Process]:
    page = Process("-m", "dashboard", "--daemon", daemon.url, "--port", "{port}", health="/healthz")
    page.start()
    try:
        yield page
    finally:
        page.kill()


@pytest.fixture
def token(daemon: Process, state: Path) -> str:
    return (state / "api-token").read_text().strip()


@pytest.fixture(scope="module")
def opened(shown: Process, browser: Browser) -> Iterator[Watched]:
    watched = Watched(browser, shown.url)
    yield watched
    watched.page.close()


@pytest.fixture
def page(shown: Process, opened: Watched) -> Page:
    """A page as one that was just opened."""
    if opened.had_by != "nobody":
        opened.again(shown.url)
    opened.had_by = "a test"
    live(opened.page, OPENED_MS)
    return opened.page


def group(daemon: Process) -> Any:
    return ask(daemon.url + "/api/v1/status")["groups"]["bpm"]


def number(page: Page, selector: str) -> float:
    return float((page.locator(selector).text_content() or "").replace(",", ""))


def test_the_page_shows_what_the_daemon_says(daemon: Process, page: Page) -> None:
    until(lambda: bool(group(daemon)["triggers"]["committed"] > 40), "triggers are committed")
    expect(page.locator("#who")).to_contain_text("end-to-end")
    expect(page.locator("#store")).to_contain_text(re.compile(r"PostgreSQL 18\.\d+, embedded"))
    expect(page.locator("#store")).to_contain_text(ask(daemon.url + "/api/v1/status")["store"]["durability"])
    expect(page.locator(".cell[data-state=ok]")).to_have_count(24)
    expect(page.locator(".cell").nth(6)).to_have_attribute("aria-label", "bpm_006: ok")
    for term in ("received", "committed"):
        before = group(daemon)["readings"][term]
        until(lambda term=term, before=before: number(page, f"#totals [data-term={term}] b") >= before, f"{term} shown")
        assert number(page, f"#totals [data-term={term}] b") <= group(daemon)["readings"][term]
    expect(page.locator("#totals")).to_have_attribute("data-adds", "true")
    expect(page.locator(".alarm")).to_have_count(0)
    until(lambda: 15 < number(page, "#tile-received .value") < 25, "20 triggers/s")


def test_the_trend_holds_the_readings_that_are_stored(page: Page) -> None:
    page.locator(".cell").nth(6).click()
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_006")
    expect(page.locator("#trend-note")).to_contain_text(
        re.compile(r"^[1-9][\d,]* readings stored in the last 5 minutes")
    )
    expect(page.locator("#trend-chart path.js-line")).to_have_count(2)
    expect(page.locator("#trend-chart")).to_contain_text("top_in")


def test_a_killed_daemon_is_seen_and_found_again(daemon: Process, page: Page) -> None:
    daemon.kill()
    try:
        expect(page.locator("#badge-text")).to_have_text("NO DATA")
        expect(page.locator("#banner")).to_contain_text("does not answer")
    finally:
        daemon.start()
    expect(page.locator("#badge-text")).to_have_text("LIVE")
    expect(page.locator("#totals")).to_have_attribute("data-adds", "true")
    until(lambda: number(page, "#totals [data-term=committed] b") > 0, "readings are committed again")


def give(page: Page, token: str, *, keep: bool = False) -> None:
    """Give the token that the dialog asks for."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token of the daemon’s API").fill(token)
    dialog.get_by_role("checkbox").set_checked(keep)
    dialog.get_by_role("button", name="Send").click()


def test_workloads_and_the_governor_are_ordered_with_the_token(daemon: Process, page: Page, token: str) -> None:
    page.locator("#tab-reads").click()
    form = page.locator("#reader-form")
    form.get_by_label("Name").fill("shift")
    form.get_by_label("Clients", exact=True).fill("2")
    form.get_by_label("Period, s").fill("0.2")
    start = form.get_by_role("button", name="Start")
    start.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(form.locator(".outcome")).to_have_text("Not done: it was not sent.")
    start.click()
    give(page, "not-the-token")
    expect(page.locator("#order-problem")).to_contain_text("The daemon refused it: this is not the API's token")
    give(page, token)
    expect(form.locator(".outcome")).to_have_text("shift was started.", timeout=60_000)
    assert page.evaluate("() => sessionStorage.length + localStorage.length") == 0, "it is kept only if asked to be"
    row = page.locator("#readers [row-id=shift]")
    expect(row.locator("[col-id=state]")).to_have_text("● running", timeout=60_000)
    expect(row.locator("[col-id=efficiency]")).to_have_text(re.compile(r"\d %"), timeout=60_000)
    until(lambda: number(page, "#tile-reads .value") > 0, "answers are counted")
    start.click()
    give(page, token, keep=True)
    expect(form.locator(".outcome")).to_contain_text("shift")
    expect(form.locator(".outcome")).to_have_attribute("data-level", "wrong")
    page.get_by_label("Commit p99 at most, ms").fill("60000")
    page.get_by_role("button", name="Set these ceilings").click()
    expect(page.locator("#governor-state")).to_have_text("● on: commit p99 below 60,000 ms")
    page.get_by_role("button", name="Turn off").click()
    expect(page.locator("#governor-state")).to_have_text("○ off")
    row.get_by_role("button", name="Stop shift").click()
    expect(page.locator("#readers .ag-overlay", has_text="No reader workload")).to_be_visible(timeout=60_000)
    assert ask(daemon.url + "/api/v1/readers") == {}


def test_an_experiment_is_started_stopped_and_kept(daemon: Process, page: Page, token: str) -> None:
    page.locator("#tab-interference").click()
    form = page.locator("section", has=page.locator("#experiment-form"))
    form.get_by_role("button", name="Remove").last.click()
    for label, value in {"Pairs of blocks": "1", "Block length, s": "5", "Warm-up, s": "0.5"}.items():
        form.get_by_label(label).fill(value)
    expect(page.locator("#experiment-lasts")).to_have_text("3 blocks, 15 s")
    start = form.get_by_role("button", name="Start the experiment")
    start.click()
    give(page, token, keep=True)
    expect(form.locator(".outcome")).to_have_text("The experiment was started; it is shown above.", timeout=60_000)
    expect(page.locator("#experiment progress")).to_be_visible(timeout=60_000)
    expect(page.locator("#experiments-past .ag-row [col-id=state]").first).to_have_text(
        re.compile("^✓ finished"), timeout=120_000
    )
    expect(page.locator("#experiment-figures [row-id=p99_ms1]")).to_be_visible(timeout=60_000)
    expect(page.locator("#experiment-time .main-svg").first).to_be_visible()
    url = page.locator("#experiments-past a").first.get_attribute("href")
    assert url is not None
    form.get_by_label("Pairs of blocks").fill("50")
    start.click()
    page.get_by_role("button", name="Stop the experiment").click(timeout=60_000)
    expect(page.locator("#experiments-past .ag-row [col-id=state]").first).to_have_text(
        re.compile("^◼ stopped"), timeout=120_000
    )
    until(lambda: ask(daemon.url + "/api/v1/interference")["running"] is None, "its report is written")
    page.goto(page.url.split("/?")[0] + url)
    expect(page.locator("h1")).to_contain_text(re.compile("."))


SMALL = {
    "Folders": "2",
    "Channels per folder": "50",
    "Intervals per channel": "4",
    "Clients": "6",
    "Cycles per client": "4",
    "Scale of the time": "0.2",
}
"""A run of snapshot readers with cycles of 6 s."""


def test_snapshot_readers_are_started_drawn_and_kept(daemon: Process, page: Page, token: str) -> None:
    page.locator("#tab-reads").click()
    form = page.locator("#snapshots-form")
    for label, value in SMALL.items():
        form.get_by_label(label, exact=True).fill(value)
    form.get_by_text("More settings").click()
    form.get_by_label("Processes").fill("2")
    expect(page.locator("#snapshots-plan")).to_contain_text("Loads 400 rows", timeout=60_000)
    form.get_by_role("button", name="Start the run").click()
    give(page, token, keep=True)
    expect(form.locator(".outcome")).to_have_text("The run was started; it is shown above.", timeout=60_000)
    expect(page.locator("#snapshots-clients-note")).to_contain_text("waiting", timeout=180_000)
    bars = "() => document.querySelector('#snapshots-clients .js-plotly-plot')?.data?.[0]?.x.length"
    until(lambda: page.evaluate(bars) == 6, "a bar a client is drawn")
    past = page.locator("#snapshots-past .ag-row").first
    expect(past.locator("[col-id=state]")).to_have_text("✓ finished", timeout=240_000)
    expect(past.locator("[col-id=clients]")).to_have_text("6")
    (run,) = ask(daemon.url + "/api/v1/snapshots")["past"]
    drawn = "() => document.querySelector('#snapshots-times .js-plotly-plot').data.map(trace => trace.x.length)"
    until(lambda: sum(page.evaluate(drawn)) == run["cycles"] == 24, "all cycles are drawn")
    cliff = "() => document.querySelector('#snapshots-cliff .js-plotly-plot').data[0].x"
    until(lambda: page.evaluate(cliff) == [0.05, 0.1], "the cliff is drawn")
    expect(page.locator("#snapshots-tile-state-value")).to_have_text("✓ finished")


def test_a_folder_has_its_values_of_now(daemon: Process, page: Page, token: str) -> None:
    with httpx.Client(
        base_url=daemon.url + "/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=60,
    ) as client:
        folder = {
            "path": "/magnets/current",
            "columns": [{"name": "ampere", "dtype": "float64"}],
            "channels": {"1": "Q1", "2": "Q2"},
        }
        client.post("/folders", json=folder).raise_for_status()
        page.locator("#tab-conditions").click()
        nothing = page.locator("#folders-values .ag-overlay", has_text="No channel of this folder has a value now.")
        expect(nothing).to_be_visible(timeout=60_000)
        began_ns = time.time_ns() - 3_700 * 10**9
        reported = {"channel": [2], "since": [began_ns], "until": [None], "values": {"ampere": [118.2375]}}
        at = {"path": "/magnets/current", "source": "test", "sequence": 1}
        client.post("/folders/intervals", params=at, json=reported).raise_for_status()
    row = page.locator("#folders-values [row-id='2']")
    expect(row.locator("[col-id=value]")).to_have_text("118.2375", timeout=60_000)
    expect(row.locator("[col-id=channel]")).to_have_text("Q2")
    expect(row.locator("[col-id=age]")).to_contain_text("1 h")
    expect(page.locator("#folders-note")).to_contain_text("1 of 2 channels with a value")


def test_storage_is_that_of_the_database(daemon: Process, page: Page) -> None:
    page.locator("#tab-storage").click()
    expect(page.locator("#stored [row-id=bpm] [col-id=size]")).to_have_text(re.compile(r"^[\d.]+ [KM]iB$"))
    expect(page.locator("#partitions [col-id=what].ag-cell", has_text="current")).to_have_count(1)
    expect(page.locator("#partitions [col-id=what].ag-cell", has_text="future")).to_have_count(2)
    expect(page.locator("#durability-note")).to_have_text("● as requested")
    told = ask(daemon.url + "/api/v1/storage")
    assert told["database_is_here"]
    assert told["groups"]["bpm"]["journal"]["room_bytes"] > 0
    assert 20 < told["groups"]["bpm"]["bytes_a_reading"] < 20_000


def test_a_killed_daemon_is_seen_on_these_tabs_and_found_again(daemon: Process, page: Page) -> None:
    page.locator("#tab-storage").click()
    daemon.kill()
    try:
        expect(page.locator("#badge-text")).to_have_text("NO DATA")
        expect(page.locator("#outage-note")).to_have_text("○ unknown: the daemon does not answer")
        expect(page.locator("#storage-problem")).to_contain_text("Sizes are unknown")
        page.locator("#tab-interference").click()
        expect(page.locator("#experiment-problem")).to_contain_text("Experiments are unknown")
        page.locator("#tab-reads").click()
        page.locator("#reader-form").get_by_role("button", name="Start").click()
        give(page, "whatever")
        expect(page.locator("#reader-form .outcome")).to_contain_text("cannot be reached")
    finally:
        daemon.start()
    expect(page.locator("#badge-text")).to_have_text("LIVE", timeout=60_000)
    page.locator("#tab-storage").click()
    expect(page.locator("#storage-problem")).to_be_hidden()
    page.locator("#tab-interference").click()
    expect(page.locator("#experiment-problem")).to_be_hidden()
    expect(page.locator("#experiments-past .ag-row")).to_have_count(2)
