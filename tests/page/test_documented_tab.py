"""The tab of docs/own-tab.md over a real daemon: the spectrum of simulated instruments peaks where they drift."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import OPENED_MS, Watched, chromium, live
from tests.page.stage import ROOT, Process, ask, free_port, until
from tests.support.processes import running

pytestmark = [pytest.mark.page, pytest.mark.slow]

LAST, RATE = 1024, 200
PERIOD = 512
"""Triggers in which the simulated orbit drifts there and back (daemon/tools/simulate/stream.py)."""

CONFIGURATION = """
state_dir = "state"

[[groups]]
name = "bpm"
count = 8
channels = [{{ name = "x", unit = "mm" }}, {{ name = "y", unit = "mm" }}]

[[sources]]
kind = "tcp"
port = {readings}

[api]
port = {api}

[dashboard]
port = {page}
tabs = ["orbit_fft.py"]
"""
SPECTRUM = """() => {
  const plot = document.querySelector("#fft .js-plotly-plot");
  if (!plot?._fullData?.length) return null;
  const { x, y } = plot._fullData[0];
  return { x: Array.from(x), y: Array.from(y), axis: plot.layout.xaxis.title.text, unit: plot.layout.yaxis.title.text };
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page with the tab open, while instruments send."""
    folder, readings = tmp_path_factory.mktemp("own"), free_port()
    file = folder / "beam.toml"
    daemon = Process("-m", "daemon", "run", str(file), "--log-level", "warning", health="/ready")
    dashboard = Process("-m", "daemon", "dashboard", str(file), health="/healthz")
    file.write_text(CONFIGURATION.format(readings=readings, api=daemon.port, page=dashboard.port))
    shutil.copy(ROOT / "docs" / "examples" / "orbit_fft.py", folder)
    sender = ("simulate", "--config", str(file), "--port", str(readings), "--rate", str(RATE))
    try:
        daemon.start()
        dashboard.start()
        with running(*sender), chromium() as browser:
            status = daemon.url + "/api/v1/status"
            until(lambda: ask(status)["groups"]["bpm"]["triggers"]["committed"] > LAST, "enough triggers are committed")
            watched = Watched(browser, dashboard.url)
            live(watched.page, OPENED_MS)
            watched.page.keyboard.press("8")
            yield watched.page
            assert watched.errors == []
    finally:
        dashboard.kill()
        assert daemon.terminate(30.0) == 0


def test_the_spectrum_has_its_peak_where_the_orbit_drifts(page: Page) -> None:
    expect(page.get_by_role("tab", name="Orbit FFT")).to_have_attribute("aria-selected", "true")
    page.wait_for_function(f"() => ({SPECTRUM})()?.y.length === {LAST // 2}")
    found = page.evaluate(SPECTRUM)
    assert (found["axis"], found["unit"]) == ("frequency in Hz", "amplitude in mm")
    peak = found["y"].index(max(found["y"]))
    assert found["x"][peak] == pytest.approx(RATE / PERIOD, rel=0.05)
    assert found["x"][-1] == pytest.approx(RATE / 2, rel=0.05)
    assert found["y"][peak] == pytest.approx(0.2, rel=0.5)
    assert sorted(found["y"])[LAST // 4] < found["y"][peak] / 20


def test_another_instrument_and_channel_are_chosen_and_time_draws_anew(page: Page) -> None:
    page.wait_for_function(f"() => ({SPECTRUM})() !== null")
    page.locator("#fft-name").click()
    page.get_by_role("option", name="bpm_003").click()
    expect(page.locator("#fft-name")).to_have_value("bpm_003")
    page.locator("#fft-channel").click()
    page.get_by_role("option", name="y", exact=True).click()
    expect(page.locator("#fft-channel")).to_have_value("y")
    before = page.evaluate(SPECTRUM)["y"]
    page.wait_for_function(f"before => ({SPECTRUM})().y[5] !== before", arg=before[5])
    expect(page.locator("#panel-orbit_fft .own-fault:not(:empty)")).to_have_count(0)
    live(page)
