"""The tab Conditions over a real server of conditions, whose status is served."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.core.configuration import load_config
from daemon.core.configuration.api_token import api_token
from schemas.conditions.intervals import Key
from tests.page.browser import Watched, grave, live
from tests.page.stage import Process, Stage
from tests.support.processes import GROUP, LISTENERS
from tests.support.servers import server_folder

pytestmark = pytest.mark.page

TEXT = "<b>not bold</b>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with three tags, by `triggerlog conditions serve`."""
    file = tmp_path_factory.mktemp("conditions") / "beam.toml"
    process = Process("-m", "daemon", "conditions", "serve", str(file), health="/health")
    # In a thread of its own: Playwright has an event loop in this one.
    with server_folder() as folder, ThreadPoolExecutor(1) as thread:
        database = ThrowawayPostgresql(folder)
        dsn = thread.submit(database.start).result()
        file.write_text(
            f'{GROUP}\n{LISTENERS.format(api=0)}\n[database]\ndsn = "{dsn}"\n[conditions]\nport = {process.port}\n'
        )
        try:
            process.start()
            fill(process.url, api_token(load_config(file)))
            yield process
        finally:
            if process.is_running:
                process.terminate()
            thread.submit(database.stop).result()


def fill(url: str, token: str) -> None:
    """A frozen tag, a clone of it in which one stretch is another one and a type is new, and a tag without anything."""
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url + "/api/cdb_rest/", headers=headers, trust_env=False, timeout=30) as client:

        def order(method: str, path: str, body: Any = None) -> Any:
            answer = client.request(method, path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json() if answer.content else None

        def attach(tag: str, type_: str) -> str:
            name = str(order("POST", "pl", {"payload_type": type_})["name"])
            order("PUT", "pl_attach", {"payload_list": name, "global_tag": tag})
            return name

        for type_ in ("bpm", "field"):
            order("POST", "pt", {"name": type_})
        for name in ("empty", "physics-2026-v1"):
            order("POST", "gt", {"name": name, "status": "unlocked", "author": TEXT})
        bpm = attach("physics-2026-v1", "bpm")
        rows = [interval(bpm, f"v1/{run}.json", Key(run, 0)) for run in range(10, 60, 10)]
        order("POST", "bulk_piov", rows)
        order("PUT", "gt_change_status/physics-2026-v1/frozen")
        order("POST", "cloneGlobalTag/physics-2026-v1/physics-2026-v2")
        copy = client.get("gtPayloadLists/physics-2026-v2").json()["bpm"]
        changed = interval(copy, TEXT, Key(25, 0)) | {"major_iov_end": 28, "minor_iov_end": 0}
        order("POST", "bulk_piov", [changed])
        attach("physics-2026-v2", "field")


def interval(name: str, url: str, start: Key) -> dict[str, Any]:
    return {
        "payload_list": name,
        "payload_url": url,
        "checksum": "c" * 32,
        "major_iov": start.major,
        "minor_iov": start.minor,
    }


def cell(page: Page, table: str, row: str, column: str) -> Any:
    return page.locator(f'#{table} [row-id="{row}"] [col-id={column}]')


def opened_at(page: Page, stage: Stage, conditions: dict[str, Any] | None) -> None:
    stage.figures(conditions=conditions)
    page.locator("#tab-conditions").click()


def test_without_a_server_it_says_what_to_do(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    opened_at(page, stage, None)
    expect(page.locator("#conditions-none")).to_contain_text("Set serve = true in the section [conditions]")
    expect(page.locator("#conditions-tiles")).to_be_hidden()
    assert fresh.errors == []


def test_tiles_tags_timeline_and_differences(stage: Stage, fresh: Watched, server: Process) -> None:
    page = fresh.page
    opened_at(page, stage, {"address": server.url})
    tile = "#conditions-tile-{} .number"
    for name, text in {
        "rate": "1,235/s",
        "p50": "0.31ms",
        "p99": "2.40ms",
        "memory": "90.0%",
        "304": "100",
        "kept": "12.3MiB",
        "running": "2of 2",
    }.items():
        expect(page.locator(tile.format(name))).to_have_text(text)
    expect(cell(page, "conditions-tags", "physics-2026-v1", "status")).to_have_text("● frozen")
    expect(cell(page, "conditions-tags", "physics-2026-v2", "intervals")).to_have_text("7")
    expect(cell(page, "conditions-tags", "empty", "author")).to_have_text(TEXT)
    expect(page.locator("#conditions-tags-note")).to_have_text("2 unlocked · 1 frozen")
    # The two that changed last are chosen, and the first of their types.
    expect(page.locator("#conditions-type")).to_have_value("bpm")
    expect(page.locator("#conditions-timeline .bars path")).to_have_count(5 + 7)
    expect(page.locator("#conditions-timeline .ytick")).to_have_text(["physics-2026-v1", "physics-2026-v2"])
    expect(cell(page, "conditions-differences", "bpm 0", "start")).to_have_text("25 0")
    expect(cell(page, "conditions-differences", "bpm 0", "end")).to_have_text("28 0")
    expect(cell(page, "conditions-differences", "bpm 0", "left")).to_have_text("v1/20.json")
    expect(cell(page, "conditions-differences", "bpm 0", "right")).to_have_text(TEXT)
    expect(cell(page, "conditions-differences", "only field", "right")).to_have_text("only here")
    expect(page.locator("#conditions-differences-note")).to_have_text(
        "physics-2026-v1 against physics-2026-v2 · 1 type in one of them only · 1 stretch of keys in 1 type"
    )
    page.get_by_role("textbox", name="Payload type").click()
    page.get_by_role("option", name="field", exact=True).click()
    expect(page.locator("#conditions-timeline-note")).to_have_text(
        "physics-2026-v1 has none · physics-2026-v2 has none"
    )
    expect(page.locator("#conditions-timeline .bars path")).to_have_count(0)
    assert fresh.errors == []


def test_who_asks_is_listed_with_all_others_in_one_line(stage: Stage, fresh: Watched, server: Process) -> None:
    page = fresh.page
    opened_at(page, stage, {"address": server.url})
    first = "10.1.2.3 nopayloadclient/1.0"
    for column, text in (("address", "10.1.2.3"), ("requests", "1,200"), ("rate", "20.0"), ("sent", "38.1 MiB")):
        expect(cell(page, "conditions-clients", first, column)).to_have_text(text)
    expect(page.locator("#conditions-clients-note")).to_have_text("2 clients · last 60 s")
    client = {"address": "10.9.9.9", "user_agent": TEXT, "requests": 1, "bytes": 2}
    told = {"over_s": 12.0, "clients": [client], "others": {"requests": 36, "bytes": 7}}
    stage.figures(conditions={"address": server.url, "clients": told})
    expect(page.locator("#conditions-clients [role=gridcell][col-id=agent]")).to_have_text([TEXT, "–"])
    expect(cell(page, "conditions-clients", "others", "requests")).to_have_text("36")
    expect(page.locator("#conditions-clients-note")).to_have_text("1 client and others · last 12 s")
    assert fresh.errors == []


def test_the_address_names_tags_and_type_and_the_way_back_leads_to_the_choice_before(
    stage: Stage, fresh: Watched, server: Process
) -> None:
    stage.figures(conditions={"address": server.url})
    page = fresh.again(f"{stage.page.url}/?tab=conditions&tags=physics-2026-v2/physics-2026-v1&type=field")
    live(page)
    ticks = page.locator("#conditions-timeline .ytick")
    type_ = page.locator("#conditions-type")
    expect(type_).to_have_value("field")
    expect(page.locator("#conditions-differences-note")).to_contain_text("physics-2026-v2 against physics-2026-v1")
    type_.click()
    page.get_by_role("option", name="bpm", exact=True).click()
    expect(ticks).to_have_text(["physics-2026-v2", "physics-2026-v1"])
    expect(page).to_have_url(re.compile("type=bpm"))
    page.locator("#conditions-chosen").press("Backspace")
    expect(ticks).to_have_text(["physics-2026-v2"])
    expect(page).to_have_url(re.compile("tags=physics-2026-v2(&|$)"))
    page.go_back()
    expect(ticks).to_have_text(["physics-2026-v2", "physics-2026-v1"])
    page.go_back()
    expect(type_).to_have_value("field")
    page.go_forward()
    expect(type_).to_have_value("bpm")
    page.reload()
    expect(ticks).to_have_text(["physics-2026-v2", "physics-2026-v1"])
    page = fresh.again(f"{stage.page.url}/?tab=conditions&tags=gone/empty")
    expect(page.locator("#conditions-problem")).to_have_text("The address names what is not there: gone.")
    expect(page.locator("#conditions-timeline-note")).to_have_text("empty has none")
    assert fresh.errors == []


@pytest.mark.parametrize("width", [1600, 390])
def test_it_is_fit_to_be_read_by_everybody(stage: Stage, opened: Watched, server: Process, width: int) -> None:
    stage.figures(conditions={"address": server.url})
    page = opened.again(stage.page.url + "/?tab=conditions", viewport={"width": width, "height": 844})
    live(page)
    expect(page.locator("#conditions-timeline .bars path")).to_have_count(5 + 7)
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    tall = page.locator("#conditions-timeline .main-svg").first.evaluate("e => e.getBoundingClientRect().height")
    assert tall > 100
    assert grave(page) == []


def test_what_does_not_answer_is_said_in_its_place(stage: Stage, fresh: Watched, server: Process) -> None:
    page = fresh.page
    opened_at(page, stage, {"address": server.url})
    expect(cell(page, "conditions-tags", "empty", "name")).to_have_text("empty")
    assert server.terminate() == 0
    stage.figures(
        conditions={"address": server.url, "state": "failed", "running": 0, "problem": "it was ended by SIGKILL"}
    )
    problem = page.locator("#conditions-problem")
    expect(problem).to_have_text(
        f"Tags are unknown: the server of conditions at {server.url} cannot be reached"
        " (All connection attempts failed)."
    )
    expect(page.locator("#conditions-tile-running")).to_contain_text("failed: it was ended by SIGKILL")
    expect(page.locator("#conditions-tile-running")).to_have_attribute("data-level", "over")
    server.start()
    expect(problem).to_be_hidden()
    expect(cell(page, "conditions-tags", "empty", "name")).to_have_text("empty")
