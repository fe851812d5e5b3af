"""What the tab Reads draws and says of runs of snapshot readers."""

import asyncio
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from dashboard.feed.client import Daemon, DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.forms import checked
from dashboard.tabs.reads.snapshots import charts, runs
from dashboard.tabs.reads.snapshots.callbacks import beside, cliff_lines, of_clients
from dashboard.tabs.reads.snapshots.layout import FIRST, MORE, PAST, SUGGESTED, TILES
from dashboard.tabs.reads.snapshots.runs import Known, Shown, SnapshotRuns, followed
from dashboard.tabs.reads.snapshots.words import past_rows, plan, progress, summary, tiles, told
from schemas.api.snapshots import (
    CLIENT_LETTERS,
    CliffPoint,
    SnapshotCycles,
    SnapshotSettings,
    SnapshotsLive,
    SnapshotsRun,
    SnapshotsStatus,
    SnapshotsSummary,
)
from schemas.folders.folders import FolderLayout
from tests.page.served import FIGURES, snapshot
from tests.page.served_snapshots import snapshot_routes
from tests.page.snapshots import BEGAN_NS, LOADING, STATUS, live, record
from tests.page.snapshots import summary as summary_of
from tests.page.stage import free_port
from tests.support.listening import eventually

RUN = STATUS["id"]


def status(**changes: Any) -> SnapshotsStatus:
    return SnapshotsStatus.model_validate(STATUS | changes)


def known(cycles: int = 400, **changes: Any) -> Known:
    found = SnapshotsLive.model_validate(live(cycles))
    return followed(None, found, SnapshotSettings.model_validate(STATUS["settings"] | changes))


def of_archive(**changes: Any) -> Known:
    kept = SnapshotsRun.model_validate(record("a") | changes)
    return Known(
        id="a",
        settings=kept.settings,
        cliff=kept.cliff,
        cycles=kept.cycles,
        samples=kept.timeline,
        record=kept,
        stamp=1,
    )


# --- clients ----------------------------------------------------------------------------------------------------------


def test_each_client_has_a_bar_as_high_as_its_cycle_is_over() -> None:
    figure = charts.clients(status())
    (bars,) = figure["data"]
    assert len(bars["x"]) == len(bars["y"]) == len(bars["hovertext"]) == 40
    assert (bars["y"][3], bars["y"][4]) == (14, 131)
    assert bars["hovertext"][2] == "client 2: reading, 9 % of its cycle, 45 % of its snapshot"
    # What is late differs from what is not by more than its colour.
    assert bars["text"][:8] == ["◔", "●", "●", "●", "▲", "✕", "◑", ""]
    assert (bars["marker"]["pattern"]["shape"][4], bars["marker"]["pattern"]["shape"][3]) == ("/", "")
    assert figure["layout"]["shapes"][0]["y0"] == 100
    early = charts.clients(status(deadline_s=15.0))
    assert early["layout"]["shapes"][0]["y0"] == 75
    assert figure["layout"]["yaxis"]["range"][1] > 188


def test_a_client_that_is_very_late_does_not_flatten_the_others() -> None:
    figure = charts.clients(status(states="lw", progress=[999, 40], read=[10, 100]))
    assert figure["data"][0]["y"] == [charts.TOP, 40]
    assert figure["layout"]["yaxis"]["range"] == [0, charts.TOP]
    assert "999 % of its cycle" in figure["data"][0]["hovertext"][0]


def test_the_legend_counts_what_clients_do() -> None:
    props = of_clients(status())
    words = [one.children[1] for one in props["snapshots-clients-note"]["children"]]
    assert words == [
        "● 3 reading",
        "◔ 1 connecting",
        "▲ 2 late",
        "◑ 1 processing",
        "○ 31 waiting",
        "✕ 1 failed",
        "· 1 not started",
    ]
    assert props["snapshots-clients-drawn"]["aria-label"].endswith("31 waiting, 1 failed, 1 not started")


@given(st.lists(st.tuples(st.sampled_from([*CLIENT_LETTERS]), st.integers(0, 999), st.integers(0, 100)), max_size=300))
def test_any_clients_are_drawn(clients: list[tuple[str, int, int]]) -> None:
    states, over, read = zip(*clients, strict=True) if clients else ((), (), ())
    drawn = status(states="".join(states), progress=list(over), read=list(read))
    figure = charts.clients(drawn)
    assert len(figure["data"][0]["y"]) == len(clients)
    assert max(figure["data"][0]["y"], default=0) <= figure["layout"]["yaxis"]["range"][1]
    assert sum(charts.client_counts(drawn).values()) == len(clients)


# --- against time -----------------------------------------------------------------------------------------------------


def test_queries_are_drawn_when_they_ended_apart_by_how() -> None:
    one = known()
    in_time, late, failed = charts.query_times(one)["data"]
    assert (len(in_time["x"]), len(late["x"]), len(failed["x"])) == (
        sum(one.cycles.in_time),
        400 - sum(one.cycles.in_time) - 2,
        2,
    )
    assert in_time["x"][0] == pytest.approx(one.cycles.due_s[0] + in_time["y"][0], rel=1e-4)
    assert late["y"]
    assert min(late["y"]) > charts.deadline_s(one.settings) == 20.0
    assert charts.query_words(one) == "◆ late · ✕ failed · deadline 20 s"


def test_the_deadline_is_drawn_where_it_does_not_flatten_the_queries() -> None:
    assert charts.query_times(known())["layout"]["shapes"][0]["y0"] == 20
    far = charts.query_times(known(cycle_s=1e6))["layout"]
    assert far["shapes"] == []
    assert far["yaxis"]["range"][1] < 100
    assert charts.query_times(known(0))["data"][0]["x"] == []


def test_what_is_left_for_reading_is_less_by_the_processing() -> None:
    settings = SnapshotSettings.model_validate({"clients": 20, "scale": 0.1, "processing_s": 40})
    assert charts.deadline_s(settings) == pytest.approx(6.0)


def test_many_cycles_are_thinned_and_what_is_late_stays() -> None:
    one = known(4000)
    in_time, late, failed = charts.query_times(one)["data"]
    assert len(in_time["x"]) <= charts.POINTS
    assert len(failed["x"]) == 20
    assert len(late["x"]) == 4000 - sum(one.cycles.in_time) - 20


def test_rates_are_drawn_with_what_is_asked_for() -> None:
    one = known()
    rows, megabytes, blocks = charts.rows(one), charts.megabytes(one), charts.blocks(one)
    assert rows["layout"]["shapes"][0]["y0"] == 80_000
    assert (len(rows["data"][0]["x"]), rows["data"][0]["x"][-1]) == (100, 200)
    assert 10 < np.mean(megabytes["data"][0]["y"]) < 200
    assert [trace["name"] for trace in blocks["data"]] == ["blocks/s in the cache", "blocks/s read"]
    assert charts.blocks_words(one) == ""
    assert charts.rows(known(ask="changes"))["layout"]["shapes"] == []


def test_a_server_that_counts_no_blocks_is_said_not_to() -> None:
    silent = of_archive(
        timeline=[one.model_dump() | {"read_rate": None, "hit_rate": None} for one in known().samples],
        cliff=[one | {"read": None, "hit": None} for one in record("a")["cliff"]],
    )
    assert charts.blocks(silent)["data"][1]["y"][0] is None
    assert charts.blocks_words(silent) == "the server does not say"
    assert charts.cliff_words(silent.cliff) == "the server does not say"
    assert charts.time_words(silent, "read_rate") == "no value yet"


# --- the cliff --------------------------------------------------------------------------------------------------------


def test_the_cliff_of_the_run_is_drawn_beside_the_newest_of_other_layouts() -> None:
    past = [
        SnapshotsSummary.model_validate(summary_of(name, layout=layout))
        for name, layout in (("c", "channel-max"), ("b", "window"), ("a", "channel-max"))
    ]
    lines = cliff_lines(known(), past)
    assert [(layout, run) for layout, run, _ in lines] == [(FolderLayout.WINDOW, RUN), (FolderLayout.CHANNEL_MAX, "c")]
    shown, other = charts.cliff(lines)["data"]
    assert (shown["x"][0], shown["y"][0], shown["y"][-1], shown["line"]["dash"]) == (1.0, 0, 6200, "solid")
    assert (other["y"][-1], other["line"]["dash"]) == (52_400, "dot")
    words = [one.children[1] for one in beside(known(), lines)["snapshots-cliff-note"]["children"]]
    assert words == ["window: at 33.0 MB", "channel-max: at 4.00 MB"]


def test_a_layout_without_a_cliff_is_said_to_have_none() -> None:
    points = [CliffPoint.model_validate(point) for point in live(2)["cliff"][:20]]
    assert charts.cliff_words(points) == "none up to 20.0 MB"
    assert cliff_lines(None, []) == []
    assert beside(None, [])["snapshots-cliff-drawn"]["aria-label"].endswith("not measured")


# --- words ------------------------------------------------------------------------------------------------------------


def test_a_run_under_way_has_its_progress_and_a_button_that_stops_it() -> None:
    props = told(Shown(id=RUN, live=status(), known=known(), is_busy=True))
    assert props["snapshots-title"]["children"] == f"Snapshot readers: run {RUN}"
    assert props["snapshots-progress"] == {"hidden": False, "max": 800, "value": "400"}
    assert props["snapshots-phase"]["children"] == "400 of 800 cycles · about 3 min left"
    assert props["snapshots-form-note"]["children"] == "a run is active; stop it first"
    assert not props["snapshots-clients-panel"]["hidden"]
    said = props["snapshots-summary"]["children"]
    assert "layout window · 40 folders of 1,000 channels with 60 intervals" in said
    assert said.endswith("40 clients, a snapshot each in a cycle of 20.0 s")


def test_while_it_loads_the_rows_are_counted() -> None:
    loading = SnapshotsStatus.model_validate(LOADING)
    assert progress(loading) == "600,000 of 2,400,000 rows loaded · 58,500 rows/s · about 3 min left"
    props = told(Shown(id=RUN, live=loading))
    assert props["snapshots-progress"] == {"hidden": False, "max": 2_400_000, "value": "600000"}
    assert props["snapshots-clients-panel"]["hidden"]
    assert (props["snapshots-tile-state-value"]["children"], props["snapshots-tile-efficiency-value"]["children"]) == (
        "◔ loading",
        "–",
    )


@pytest.mark.parametrize("given", [{"live": status(state="finished", states="")}, {"live": status(), "is_dead": True}])
def test_a_run_that_is_over_or_unknown_is_not_stopped(given: dict[str, Any]) -> None:
    props = told(Shown(id=RUN, **given))
    hidden = {name: props[f"snapshots-{name}"]["hidden"] for name in ("order", "progress", "clients-panel")}
    assert all(hidden.values())


def test_the_tiles_are_those_of_the_layout_and_stand_out_where_clients_are_late() -> None:
    found = tiles(Shown(id=RUN, live=status()))
    assert found.keys() == {name for name, _ in TILES}
    assert {name for name, tile in found.items() if tile.is_over} == {"clients", "efficiency"}
    assert (found["clients"].value, found["clients"].note) == ("6", "read; 2 late, 31 waiting")
    assert (found["efficiency"].value, found["query"].value) == ("97.0", "1.62")
    assert (found["rows"].value, found["bytes"].value, found["blocks"].value) == ("77,300", "78.4", "310")
    assert {tile.value for tile in tiles(Shown(id=RUN, live=status(), is_dead=True)).values()} == {"–"}


def test_a_run_of_the_archive_has_tiles_of_its_record() -> None:
    kept = SnapshotsSummary.model_validate(summary_of("a", state="stopped", problem="it was stopped on request"))
    shown = Shown(id="a", known=of_archive(), kept=kept)
    found = tiles(shown)
    assert (found["state"].value, found["efficiency"].value, found["efficiency"].is_over) == (
        "✓ finished",
        "41.0",
        True,
    )
    assert "PostgreSQL 18.1" in summary(shown)
    assert summary(shown).endswith("It ended early: it was stopped on request.")
    assert tiles(Shown(id="unknown")) == {}


def test_nothing_yet_is_said_to_be_so_once_it_is_known() -> None:
    props = told(Shown(id="", is_listed=True))
    assert not props["snapshots-empty"]["hidden"]
    assert (props["snapshots-summary"]["hidden"], props["snapshots-shown"]["hidden"]) == (True, True)
    assert told(Shown(id="", is_listed=False))["snapshots-summary"]["children"] == "Asking the daemon …"


def test_past_pasthave_a_cell_for_each_column() -> None:
    past = [
        SnapshotsSummary.model_validate(summary_of(name, efficiency=share)) for name, share in (("a", 1), ("b", None))
    ]
    first, second = past_rows(past, "b")
    assert {"key", *(column.name for column in PAST)} == set(first) == set(second)
    assert (first["efficiency"]["text"], first["efficiency"]["over"]) == ("100 %", False)
    assert (second["efficiency"]["text"], second["id"]["chosen"]) == ("–", True)


# --- the form ---------------------------------------------------------------------------------------------------------


def test_what_the_form_suggests_is_a_run_of_minutes() -> None:
    settings, wrong = checked(SnapshotSettings, SUGGESTED)
    assert (wrong, settings is not None) == ({}, True)
    assert settings is not None
    assert plan(settings) == (
        "Loads 200,000 rows, 191 MiB, unless they are there; then 10 cycles of 10.0 s for each client: 2 min in all. "
        "The clients ask for 20,000 rows/s."
    )


def test_the_form_has_the_settings_of_a_run_and_no_others() -> None:
    fields = {one.alias or name for name, one in SnapshotSettings.model_fields.items()}
    assert {one.name for one in [*FIRST, *MORE]} == fields - {"cliff"}


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_what_comes_since_is_put_behind_what_is_known() -> None:
    first = known(100)
    later = SnapshotsLive.model_validate(live(140, *first.following))
    now = followed(first, later, first.settings)
    assert (len(now.cycles), len(now.samples), now.stamp) == (140, 70, first.stamp + 1)
    assert now.cycles == SnapshotCycles.model_validate(live(140)["cycles"])
    nothing = SnapshotsLive.model_validate(live(140, 140, 70))
    assert followed(now, nothing, now.settings) is now


async def test_the_daemon_is_asked_for_what_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "EVERY_S", 0.0)
    figures = FIGURES | {"snapshots": STATUS, "past_snapshots": ["b", "a"]}
    app, port = FastAPI(), free_port()
    app.include_router(snapshot_routes(figures))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    hub = Hub(daemon="http://127.0.0.1:1", build="b")
    api = DaemonApi(Daemon(url=f"http://127.0.0.1:{port}"))
    try:
        found = SnapshotRuns(hub, api)
        assert await found.asked({"snapshots": None}) == ""
        assert found.chosen({}) == "b"
        of_b = found.known("b")
        assert of_b is not None
        assert of_b.record is not None
        hub.take(snapshot(1, BEGAN_NS).model_copy(update={"snapshots": status()}))
        assert await found.asked({}) == ""
        assert found.chosen({}) == RUN
        first = found.known(RUN)
        assert first is not None
        assert len(first.cycles) == 400
        figures["snapshots"] = STATUS | {"figures": STATUS["figures"] | {"cycles": 460}}
        assert await found.asked({}) == ""
        second = found.known(RUN)
        assert second is not None
        assert (len(second.cycles), len(second.samples), second.stamp) == (460, 230, first.stamp + 1)
        problem = await found.asked({"snapshots": "none"})
        assert problem == "The run none cannot be shown: nothing is kept here of a run none."
        assert "cannot be shown: it is no id of a run" in await found.asked({"snapshots": "../x"})
    finally:
        server.should_exit = True
        await serving
        await api.close()
    nobody = DaemonApi(Daemon(url=f"http://127.0.0.1:{port}"))
    assert "Runs of snapshot readers are unknown: the daemon at" in await SnapshotRuns(hub, nobody).asked({})
    await nobody.close()
