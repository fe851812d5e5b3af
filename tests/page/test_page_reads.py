"""The tabs Reads and Storage over a served status: what they show of it."""

import contextlib
import re
import signal
import time

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from dashboard.tabs.storage.callbacks import STORAGE_S
from schemas.api.status import Shortfall
from tests.page.browser import OPENED_MS, Watched, grave
from tests.page.served import TOKEN
from tests.page.stage import Stage, ask, until

pytestmark = pytest.mark.page

FAILED = {
    "kind": "scan",
    "state": "failed",
    "failed": 3,
    "problem": "the process was ended by SIGKILL",
    "efficiency": None,
}
LATE = {"kind": "trend", "clients": 8, "admitted": 3, "latency_ms": {"p50": 120.0, "p99": 1420.4, "max": 2033.0}}
GOVERNOR = {
    "commit_p99_ms": 25.0,
    "backlog_triggers": None,
    "admitted": 7,
    "clients": 12,
    "state": "lowering",
    "reason": "commit p99 62 ms is over its ceiling of 25 ms: 7 of 12 clients may ask",
}


def cell(page: Page, table: str, row: str, column: str) -> Locator:
    """A cell of a table."""
    return page.locator(f"#{table} [row-id={row}] [col-id={column}]")


def test_workloads_stand_with_their_figures_and_what_is_wrong_with_them(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-reads").click()
    nothing = page.locator("#readers .ag-overlay", has_text="No reader workload is running.")
    expect(nothing).to_be_visible()
    stage.figures(readers={"operators": {}, "trends": LATE, "nightly": FAILED}, governor=GOVERNOR)
    expect(cell(page, "readers", "operators", "rate")).to_have_text("4.00")
    expect(cell(page, "readers", "operators", "efficiency")).to_have_text("99.0 %")
    expect(cell(page, "readers", "trends", "clients")).to_have_text("▲ 3 of 8")
    expect(cell(page, "readers", "trends", "p99")).to_have_text("▲ 1,420")
    expect(cell(page, "readers", "trends", "p99")).to_contain_class("over")
    expect(cell(page, "readers", "nightly", "state")).to_have_text("✕ failed: the process was ended by SIGKILL")
    expect(page.locator("#governor-state")).to_have_text("● on: commit p99 below 25.0 ms")
    expect(page.locator("#governor-reason")).to_have_text(f"lowering: {GOVERNOR['reason']}")
    expect(page.get_by_label("Commit p99 at most, ms")).to_have_value("25")
    expect(page.locator("#tile-reads .value")).to_have_text(re.compile(r"^1[123]\.\d$"))
    for name in ("reads", "readers", "read-p99"):
        expect(page.locator(f"#chart-{name} path.js-line").first).to_be_attached()
    stage.figures(readers={}, governor=None)
    expect(page.locator("#governor-state")).to_have_text("○ off")
    expect(nothing).to_be_visible()


def test_a_double_click_stops_a_workload_once(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-reads").click()
    stage.figures(readers={"operators": {}})
    told: list[str] = []
    page.on("request", lambda request: told.append(request.post_data or ""))
    dialog = page.get_by_role("dialog", name="Stop the workload operators")

    def is_asked() -> bool:
        # On a slow machine the table may be laid out between the press and the release, which is no click then.
        told.clear()
        page.get_by_role("button", name="Stop operators").dblclick()
        with contextlib.suppress(AssertionError):
            expect(dialog).to_be_visible(timeout=10_000)
        return dialog.is_visible()

    assert any(is_asked() for _ in range(4))
    assert len([one for one in told if '"changedPropIds":["readers-table.cellRendererData"]' in one]) == 1


def test_a_kind_brings_the_fields_that_it_takes(fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-reads").click()
    form = page.locator("#reader-form")
    shown = form.locator(".field:visible")
    common = ["name", "kind", "clients", "period_s", "offset_s", "deadline_s"]
    expect(shown).to_have_count(len(common))
    for kind, own in {
        "trend": ["readings"],
        "history": ["stretch_s", "step_s"],
        "random": ["triggers"],
        "cone": ["radius_deg"],
        "light_curve": [],
        "scan": [],
    }.items():
        form.get_by_label("Asks for").click()
        page.get_by_role("option", name=kind.replace("_", " "), exact=True).click()
        expect(shown).to_have_count(len(common) + len(own))
        assert {one.get_attribute("data-field") for one in shown.all()} == {*common, *own}
    form.get_by_label("Clients", exact=True).fill("0")
    form.get_by_role("button", name="Start").click()
    expect(form.locator("[data-field=clients]")).to_contain_text("0 is out of range; use 1 to 256")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_dialog_for_the_token_is_fit_to_be_read_by_everybody(fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-reads").click()
    page.locator("#reader-form").get_by_role("button", name="Start").click()
    dialog = page.get_by_role("dialog", name="Start the workload operators")
    expect(dialog.get_by_label("Token of the daemon’s API")).to_be_focused()
    assert grave(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_the_daemon_is_asked_once_however_many_look(stage: Stage, browser: Browser) -> None:
    before, began = ask(stage.daemon.url + "/asked")["storage"], time.monotonic()
    pages = [Watched(browser, f"{stage.page.url}/?tab=storage").page for _ in range(3)]
    for page in pages:
        expect(cell(page, "stored", "bpm", "size")).to_have_text("1.50 GiB", timeout=OPENED_MS)
    until(lambda: ask(stage.daemon.url + "/asked")["storage"] >= before + 2, "sizes are asked for again")
    asked, took_s = ask(stage.daemon.url + "/asked")["storage"] - before, time.monotonic() - began
    for page in pages:
        page.close()
    assert asked <= 1 + took_s / STORAGE_S


def test_nothing_is_said_of_a_database_before_the_daemon_has_answered(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    # What those were answered who looked before is told for so long.
    page.wait_for_timeout(1_000 * (STORAGE_S + 1))
    stage.daemon.signal(signal.SIGSTOP)
    try:
        page.locator("#tab-storage").click()
        for name in ("partitions", "journals", "stored"):
            overlay = page.locator(f"#{name} .ag-overlay")
            expect(overlay).to_have_text("Asking the daemon …", timeout=OPENED_MS)
    finally:
        stage.daemon.signal(signal.SIGCONT)
    expect(cell(page, "journals", "bpm", "files")).to_have_text("64", timeout=OPENED_MS)


def test_a_tab_is_drawn_though_each_answer_takes_longer_than_a_tick(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    slow = {"offline": False, "latency": 1500, "downloadThroughput": -1, "uploadThroughput": -1}
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", slow)
    try:
        page.locator("#tab-storage").click()
        expect(cell(page, "outage", "bpm", "room")).to_have_text("2 h", timeout=OPENED_MS)
        stage.figures(backpressure=True)
        expect(cell(page, "outage", "bpm", "room")).to_contain_text("full: senders are held back", timeout=OPENED_MS)
    finally:
        network.send("Network.emulateNetworkConditions", slow | {"latency": 0})
        network.detach()


def test_storage_tells_sizes_partitions_and_what_an_outage_would_cost(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-storage").click()
    expect(cell(page, "stored", "bpm", "size")).to_have_text("1.50 GiB")
    expect(cell(page, "stored", "bpm", "measured")).to_have_text("84.8 GiB")
    expect(page.locator("#partitions [col-id=what].ag-cell")).to_have_text(["future", "current", ""])
    expect(cell(page, "journals", "bpm", "files")).to_have_text("64")
    expect(page.locator("#durability-note")).to_have_text("● as requested")
    stage.figures(refused={"unknown_instrument": 7}, wave=False, count=4000)
    expect(cell(page, "account", "bpm", "refused")).to_have_text("▲ 7")
    expect(page.locator("#account-note")).to_have_text("refused: bpm: unknown instrument 7")
    stage.figures(aside={"ahead": 5}, lost={"sender": 9}, skipped=1244)
    expect(cell(page, "account", "bpm", "aside")).to_have_text("▲ 5")
    for column, count in {"skipped": "1,244", "lost": "▲ 9"}.items():
        expect(cell(page, "beside", "bpm", column)).to_have_text(count)
    expect(page.locator("#account-note")).to_have_text(
        "refused: bpm: unknown instrument 7 · aside: bpm: ahead 5 · lost: bpm: sender 9"
    )
    short = Shortfall(problem="NOT durable: fsync is off on the server", fix="set fsync = on there")
    stage.figures(
        available=False,
        problem="connection refused",
        drained_in_s=None,
        at_risk=9,
        at_risk_ms=None,
        shortfall={"sync": short.model_dump()},
    )
    expect(page.locator("#outage-note")).to_have_text("■ the database is away: connection refused")
    expect(cell(page, "outage", "bpm", "drained")).to_have_text("▲ once back")
    expect(page.locator("#durability dd[data-level=over]")).to_have_text(
        ["sync requested; a crash of the server can lose all of it", str(short)]
    )


TIERS = {
    "tiers": [
        {"name": "fast", "place": None, "size_bytes": 3 * 2**30, "partitions": 5, "max_bytes": 4 * 2**30},
        {"name": "slow", "place": "slow", "size_bytes": 9 * 2**30, "partitions": 6, "max_bytes": None},
    ],
    "policy": "access",
}
MOVING = {"group": "bpm", "name": "bpm_004", "source": "fast", "target": "slow", "size_bytes": 2**30, "done": 0.43}


def test_partitions_are_drawn_by_time_in_the_colours_of_their_tiers(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-storage").click()
    bars = page.locator("#storage-picture .bars .point")
    expect(bars).to_have_count(3)
    expect(page.locator("#storage-picture-note .key")).to_have_count(0)
    stage.figures(groups={"bpm": 120, "ict": 8}, partitions=12, tiers=TIERS | {"moving": MOVING | {"left_s": 125.0}})
    # Of each group the bytes, and the heat.
    expect(bars).to_have_count(2 * 2 * 12, timeout=OPENED_MS)
    expect(page.locator("#storage-picture-note")).to_have_text("fastslowheat")
    expect(page.locator("#storage-next")).to_contain_text("moving bpm_004 of bpm to slow: 43 %, 2 min left")
    expect(page.locator("#storage-picture-drawn")).to_have_attribute(
        "aria-label", re.compile("bpm: 12 partitions, 6 in slow, 6 in fast, the hottest bpm_001, 40.5 s/day")
    )
    expect(page.locator("#storage-picture .shapelayer path")).to_have_count(1)
    expect(cell(page, "partitions", "bpm_004", "heat")).to_have_text("40.5 s/day")
    box = page.locator("#storage-picture .main-svg").first.bounding_box()
    assert box is not None
    assert box["height"] > 250
    seen = {one.evaluate("e => getComputedStyle(e.querySelector('path')).fill") for one in bars.all()}
    assert len(seen) == 3
    # A picture that has not changed is not drawn again, and the move goes on in words.
    first = bars.first.element_handle()
    stage.figures(tiers=TIERS | {"moving": MOVING | {"done": 0.5, "left_s": 60.0}})
    expect(page.locator("#storage-next")).to_contain_text("50 %")
    assert first.evaluate("e => e.isConnected")
    assert grave(page) == []
    assert fresh.errors == []


DECIMATION = {
    "periods": 4,
    "readings": 9_000_000,
    "reducing": {
        "group": "bpm",
        "name": "bpm_005",
        "how": "figures of every 60 s",
        "done": 0.25,
        "left_s": 125.0,
    },
    "waiting": 2,
}


def test_what_was_reduced_and_what_comes_next_is_told(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-storage").click()
    expect(page.locator("#storage-picture .bars .point")).to_have_count(3)
    expect(page.locator("#reduced-box")).to_be_hidden()
    stage.figures(partitions=12, reduced=4, decimation=DECIMATION)
    expect(page.locator("#storage-next")).to_contain_text(
        "decimation: reducing bpm_005 of bpm to figures of every 60 s: 25 %, 2 min left, then 2 partitions more;"
        " 4 partitions reduced",
        timeout=OPENED_MS,
    )
    for column, text in {
        "periods": "4",
        "rows": "9,100,000",
        "stayed": "100,000",
        "before": "800 MiB",
        "after": "8.00 MiB",
        "saved": "99 %",
    }.items():
        expect(cell(page, "reduced", "bpm", column)).to_have_text(text, timeout=OPENED_MS)
    expect(cell(page, "reduced", "bpm", "stretches")).to_contain_text(" to ")
    # What is reduced now is framed.
    expect(page.locator("#storage-picture .shapelayer path")).to_have_count(1)
    at_ns = time.time_ns() + 7200 * 10**9
    problem = "the disk has no room"
    stage.figures(
        decimation=DECIMATION
        | {"reducing": None, "next": {"group": "bpm", "name": "bpm_006", "at_ns": at_ns}, "problem": problem}
    )
    expect(page.locator("#storage-next")).to_contain_text("decimation: next: bpm_006 of bpm, in 2 h")
    expect(page.locator("#storage-next")).to_contain_text(problem)
    assert grave(page) == []
    assert fresh.errors == []


def test_a_partition_is_moved_by_hand_with_the_token(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-storage").click()
    expect(page.locator("#storage-picture .bars .point")).to_have_count(3)
    expect(page.locator("#move-box")).to_be_hidden()
    stage.figures(partitions=12, tiers=TIERS)
    box = page.locator("#move-box")
    expect(box).to_be_visible(timeout=OPENED_MS)
    send = box.get_by_role("button", name="Move")
    send.click()
    expect(box.locator("[data-field=partition]")).to_contain_text("partition")
    expect(page.get_by_role("dialog")).to_have_count(0)
    box.locator("[data-field=partition] input").fill("bpm_004")
    box.locator("[data-field=tier] input").first.click()
    page.get_by_role("option", name="slow").click()
    send.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Move bpm_004 of bpm to slow")
    dialog.locator("input[type=password]").fill(TOKEN)
    dialog.get_by_role("button", name="Send").click()
    expect(page.locator("#move-outcome")).to_have_text("bpm_004 is moved to slow next.")
    box.locator("[data-field=partition] input").fill("bpm_999")
    send.click()
    dialog.locator("input[type=password]").fill(TOKEN)
    dialog.get_by_role("button", name="Send").click()
    expect(page.locator("#move-outcome")).to_contain_text("bpm has no partition 'bpm_999' with readings")
    assert grave(page) == []
