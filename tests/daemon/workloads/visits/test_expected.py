"""The formula of rows: against the paper's published counts, and against visits that are counted without a database."""

import asyncio

import numpy as np
import pytest

from backends import open_visit_store
from daemon.workloads.visits.expected import rows
from daemon.workloads.visits.facts import expected
from daemon.workloads.visits.settings import time_of
from daemon.workloads.visits.sky import Sky
from daemon.workloads.visits.sphere import area_factor, tiles_of
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.visits.survey import DAY_NS, Survey
from schemas.visits.tables import IndexMode
from tests.support.visit_runs import assert_same, run_here, small, tables_in, undisturbed

RUN = {"tiles": 1, "visits": 20, "history_days": 365.0, "period_days": 30.0}
RUN_SURVEY = {"seed": 1, "scale": 0.02, "forced_cutoff_days": 30.0}


@pytest.mark.parametrize(
    ("settings", "visits", "says_something"),
    [
        ({}, 1, True),
        ({}, 13 * 30, True),
        # The first night is the last one of a period: it leaves the window of a year when the next one begins.
        ({"history_days": 365.0}, 366 * 10, False),
        ({"history_days": 5.0, "period_days": 1.0}, 10, True),
        ({"history_days": 5.0, "period_days": 1.0}, 10 * 10, False),
        ({"all_history": True, "period_days": 1.0}, 10 * 10, True),
        ({"history_days": 5.0, "period_days": 1.0, "index_mode": "last_object_table"}, 10 * 10, True),
    ],
)
def test_nothing_is_expected_where_periods_were_dropped(
    settings: dict[str, object], visits: int, says_something: bool
) -> None:
    fields = {"index_mode": "partitioned", "history_days": 365.0, "period_days": 30.0, **settings}
    survey = Survey(seed=1, scale=0.01, forced_cutoff_days=4.0)
    found = expected(VisitsConfig.model_validate({**fields, "survey": survey}), visits)
    assert bool(found) is says_something


def counted(survey, visits, tiles):
    """Rows of a run, counted visit by visit: what is known in the tiles, and written, by the paper's rules."""
    sky, cutoff = Sky(survey), round(survey.forced_cutoff_days * DAY_NS)
    places, since = np.zeros((survey.variables_in_all, 3)), np.full(survey.variables_in_all, -1)
    once, taken = [], []  # of each visit, what is seen only then
    forced = sources = 0
    for visit in range(visits):
        exposure = sky.exposure(visit, 0)
        variables, now = exposure.ids[exposure.variable], exposure.time_ns
        places[variables] = exposure.xyz[exposure.variable]
        waiting = since >= max(0, now - cutoff)
        waiting[variables] = False
        recent = np.searchsorted(taken, now - cutoff)
        candidates = np.concatenate([places[waiting], *once[recent:]])
        forced += sum(
            int(each.contains(candidates).sum()) for each in tiles_of(exposure.pointing, survey.field_radius, tiles)
        )
        since[variables] = np.where(since[variables] >= 0, since[variables], now) if survey.cutoff_since_first else now
        once.append(exposure.xyz[~exposure.variable])
        taken.append(now)
        sources += len(exposure.ids)
    last = int((since >= 0).sum()) + sum(map(len, once))
    return {
        "DIAObject": sources + forced,
        "DIASource": sources,
        "DIAForcedSource": sources + forced,
        "DIAObjectLast": last,
    }


@pytest.mark.parametrize(
    ("survey", "visits", "tiles"),
    [
        (Survey(scale=0.02), 200, 1),
        (Survey(scale=0.02, seed=2), 200, 5),
        (Survey(scale=0.02, cutoff_since_first=True, forced_cutoff_days=5), 200, 15),
        (Survey(scale=0.02, seed=3, forced_cutoff_days=5.3), 200, 5),
    ],
    ids=["whole field", "5 x 5", "15 x 15 since the first", "a short cutoff"],
)
def test_visits_that_are_counted_leave_what_the_formula_says(survey, visits, tiles):
    assert counted(survey, visits, tiles) == pytest.approx(rows(survey, visits, tiles), rel=0.02)


@pytest.fixture(scope="module")
def model():
    """The tables after a run of visits on the store in memory."""
    return asyncio.run(undisturbed(small("model", survey=RUN_SURVEY, **RUN, index_mode="last_object_table")))


@pytest.fixture
def dsn(request, server):
    return request.getfixturevalue(f"{server}_dsn")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "mode"),
    [
        ("postgresql", IndexMode.LAST_OBJECT_TABLE),
        ("mariadb", IndexMode.PARTITIONED),
        ("mongodb", IndexMode.PARTITIONED),
    ],
)
async def test_visits_leave_in_each_database_the_same_rows_and_what_the_formula_says(
    model, dsn, server, mode, schema, tmp_path
):
    # FerretDB takes long over many documents, so there the packs are larger.
    level = 4 if server == "mongodb" else 8
    visits = small(schema, survey=RUN_SURVEY, **RUN, index_mode=mode, pixel_level=level)
    store = open_visit_store(DatabaseConfig(dsn=dsn), visits, state_dir=tmp_path)
    try:
        await run_here(store, visits)
        counts = dict(await store.counts())
        found = await tables_in(store, visits)
    finally:
        await store.drop()
        await store.close()
    expected = rows(visits.survey, visits.visits, visits.tiles, mode)
    assert {name: counts[name] for name in expected} == pytest.approx(expected, rel=0.02)
    # A pack of last versions has what one visit detected, and nothing of forced photometry.
    alike = [name for name in found if name != "DIAObjectLast" or mode is IndexMode.LAST_OBJECT_TABLE]
    assert_same({name: found[name] for name in alike}, {name: model[name] for name in alike})
    by_hand = counted(visits.survey, visits.visits, visits.tiles)
    assert {name: counts[name] for name in alike} == {name: by_hand[name] for name in alike}


def test_the_papers_counts_after_57_thousand_visits():
    # Its largest run, PostgreSQL in a cloud: 15 x 15 tiles, forced for 30 days after the first detection.
    found = rows(Survey(cutoff_since_first=True), 57_000, 15)
    assert found["DIAObject"] == pytest.approx(3.82072e9, rel=0.01)
    assert found["DIAForcedSource"] == pytest.approx(3.82071e9, rel=0.01)
    assert found["DIASource"] == pytest.approx(8.59906e8, rel=0.01)


def test_far_from_the_rim_it_is_the_papers_formula():
    survey, visits, cutoff = Survey(scale=1), 40_000, 24_000
    factor, part = area_factor(survey.field_radius, 5), survey.field_sr / survey.sky_sr
    pairs = cutoff * cutoff / 2 + cutoff * (visits - cutoff)
    paper = visits * (15_150 + 10_000 * (factor - 1)) + 5150 * part * factor * pairs
    assert rows(survey, visits, 5)["DIAObject"] == pytest.approx(paper, rel=0.015)
    # In a run of a few visits, too, if it is the mean over seeds that is asked for.
    few = rows(survey, 100, 5, own_fields=False)["DIAObject"]
    assert few == pytest.approx(rows(survey, 100, 5)["DIAObject"], rel=0.01)


def test_each_index_mode_has_the_tables_it_has():
    survey = Survey(scale=0.02)
    assert set(rows(survey, 10, 1, IndexMode.BASELINE)) == {"DIAObject", "DIASource", "DIAForcedSource"}
    packs = rows(survey, 10, 1, IndexMode.PARTITIONED)
    assert "DIAObjectLast" not in packs
    assert packs["DIASource"] == pytest.approx(10 * 303)
    assert set(rows(survey, 0, 1).values()) == {0}
    assert time_of(survey, 480) - time_of(survey, 0) == 30 * DAY_NS
