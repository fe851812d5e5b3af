"""The formula of rows: against the paper's published counts, and against visits that are counted without a database."""

import numpy as np
import pytest

from daemon.visits.cadence import time_of
from daemon.visits.expected import mean_overlap, rows
from daemon.visits.sky import Sky
from daemon.visits.tiles import area_factor, numbers_of
from schemas.visits.survey import DAY_NS, Survey
from schemas.visits.tables import IndexMode


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
        forced += int((numbers_of(candidates, exposure.pointing, survey.field_radius, tiles) >= 0).sum())
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
        (Survey(scale=0.02), 400, 1),
        (Survey(scale=0.01, seed=2), 400, 5),
        (Survey(scale=0.005, seed=1, cutoff_since_first=True), 400, 15),
        (Survey(scale=0.01, seed=5, forced_cutoff_days=5.3), 400, 5),
    ],
    ids=["whole field", "5 x 5", "15 x 15 since the first", "a short cutoff"],
)
def test_visits_that_are_counted_leave_what_the_formula_says(survey, visits, tiles):
    assert counted(survey, visits, tiles) == pytest.approx(rows(survey, visits, tiles), rel=0.02)


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
    assert part * 0.99 < mean_overlap(survey, 1) < part * 0.993


def test_the_overlap_of_random_fields_is_the_mean_of_many():
    survey = Survey(scale=0.02, variables=0)
    sky = Sky(survey)
    pointings = np.array([sky.pointing(visit) for visit in range(1500)])
    apart = np.arccos(np.clip(pointings @ pointings.T, -1, 1))[np.triu_indices(1500, 1)]
    half = np.minimum(apart / 2 / survey.field_radius, 1)
    # Two circles of a plane, which is good enough for 3.5 degrees.
    overlap = 2 / np.pi * (np.arccos(half) - half * np.sqrt(1 - half * half))
    assert overlap.mean() == pytest.approx(mean_overlap(survey, 1), rel=0.02)


def test_each_index_mode_has_the_tables_it_has():
    survey = Survey(scale=0.02)
    assert set(rows(survey, 10, 1, IndexMode.BASELINE)) == {"DIAObject", "DIASource", "DIAForcedSource"}
    pieces = rows(survey, 10, 1, IndexMode.PARTITIONED)
    assert pieces["DIAObjectLast"] == pieces["DIASource"] == pytest.approx(10 * 303)
    assert set(rows(survey, 0, 1).values()) == {0}
    assert time_of(survey, 480) - time_of(survey, 0) == 30 * DAY_NS
