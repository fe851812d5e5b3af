"""The generator of mock visits: cadence, the sky, what an exposure finds, and the numbers in columns."""

import datetime
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from daemon.workloads.visits import tile
from daemon.workloads.visits.settings import first_at, time_of, visits_in
from daemon.workloads.visits.sky import SOUTH_POLE, Sky
from daemon.workloads.visits.sphere import degrees, dot, htm, indexes, unit, within
from schemas.config.visits import VisitsConfig
from schemas.visits.survey import Survey
from schemas.visits.tables import DIA_FORCED_SOURCE, DIA_OBJECT, DIA_OBJECT_LAST, DIA_SOURCE, LAST_DTYPE

SMALL = Survey(scale=0.02)


# When visits are


@settings(max_examples=60, deadline=None)
@given(
    dusk=st.integers(0, 23),
    dawn=st.integers(0, 23),
    interval=st.floats(600, 3600),
    visit=st.integers(0, 400),
    late=st.integers(-1, 1),
)
def test_cadence_is_that_of_a_plain_loop(dusk, dawn, interval, visit, late):
    survey = Survey(dusk_h=dusk, dawn_h=dawn, interval_s=interval)
    step = round(interval * 1e9)
    day = datetime.timedelta(days=1)
    first = datetime.datetime(2020, 1, 1, dusk, tzinfo=datetime.UTC)
    times = []
    while len(times) <= visit:
        end = first.replace(hour=dawn)
        end += day if end <= first else datetime.timedelta(0)
        begin, stop = (int(time.timestamp()) * 10**9 for time in (first, end))
        times += range(begin, stop, step)
        first += day
    assert [time_of(survey, each) for each in range(visit + 1)] == times[: visit + 1]
    # Just before a visit, at it, and after it.
    assert first_at(survey, times[visit] + late) == visit + (late > 0)


def test_the_papers_sky_has_21_million_variables_on_its_hemisphere():
    assert Survey().variables_sr * Survey().sky_sr == pytest.approx(21.44e6, rel=1e-3)


def test_the_papers_cadence_is_800_a_night_at_each_scale():
    assert Survey().visits_a_night == 800
    assert visits_in(Survey(), 30 * 86_400 * 10**9) == 24_000
    assert visits_in(SMALL, 30 * 86_400 * 10**9) == 480
    assert time_of(Survey(), 10**7) == time_of(Survey(), 0) + 12_500 * 86_400 * 10**9


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"scale": 0.001}, "scale: a visit each 45000 s, and a night has 36000 s; set it to at least 0.00125"),
        ({"interval_s": 40_000}, "interval_s: a visit each 40000 s, and a night has 36000 s; set it to at most 36000"),
        ({"first_night": "2021-02-30"}, "first_night: there is no date 2021-02-30"),
        ({"first_night": "1492-10-12"}, "first_night: the year 1492 is out of range"),
        ({"field_deg": 0.1}, "variables: 2.63e+10 in all the sky"),
    ],
)
def test_a_survey_that_cannot_be_is_refused_in_one_line(settings, says):
    with pytest.raises(ValidationError) as refused:
        Survey(**settings)
    (error,) = refused.value.errors()
    assert error["msg"].startswith(says)
    assert "\n" not in error["msg"]


def test_visits_that_would_end_after_all_time_are_refused_in_one_line():
    with pytest.raises(ValidationError, match=r"visits: they would take more than 20000 nights; take at most 320000"):
        VisitsConfig(visits=10**6, survey=SMALL)
    latest = Survey(first_night="2199-12-31", dusk_h=23, dawn_h=22)
    assert time_of(latest, 20_000 * latest.visits_a_night) < 2**63


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"history_days": 9.0},
            "history_days: is shorter than forced_cutoff_days, 10: objects would be forgotten; set it",
        ),
        (
            {"survey": {"cutoff_since_first": True}},
            "survey.cutoff_since_first: needs first detections, which partitions",
        ),
    ],
)
def test_partitions_that_would_forget_what_visits_still_need_are_refused(settings, says):
    survey = {"forced_cutoff_days": 10.0, **settings.pop("survey", {})}
    with pytest.raises(ValidationError) as refused:
        VisitsConfig(survey=survey, **settings)
    (error,) = refused.value.errors()
    assert error["msg"].startswith(says)
    VisitsConfig(survey=survey, **settings, all_history=True)
    VisitsConfig(survey=survey, **settings, index_mode="baseline")


# The sky


@pytest.mark.parametrize("survey", [SMALL, Survey(seed=3)], ids=["small", "whole"])
def test_an_exposure_is_the_same_whatever_was_taken_before(survey):
    after = Sky(survey)
    for visit in range(7):
        after.exposure(visit, 0)
    one, other = after.exposure(7, 2 * 10**9), Sky(survey).exposure(7, 2 * 10**9)
    assert all(np.array_equal(value, getattr(other, name)) for name, value in vars(one).items())
    another = Sky(Survey(seed=99, scale=survey.scale)).exposure(7, 2 * 10**9)
    assert not np.array_equal(one.pointing, another.pointing)


def test_what_an_exposure_tells_of_its_sources():
    sky = Sky(SMALL)
    first = sky.exposure(0, 0)
    exposure = sky.exposure(1, first.last_object_id)
    assert first.ids[~first.variable][0] == 1_000_000_001
    assert exposure.ids[~exposure.variable][0] == first.last_object_id + 1
    assert exposure.last_object_id == exposure.ids[-1]
    assert (np.diff(exposure.ids) > 0).all()
    assert within(exposure.xyz, exposure.pointing, SMALL.field_radius * (1 + 1e-12)).all()
    assert np.array_equal(exposure.xyz, unit(exposure.source_ra, exposure.source_decl))
    assert np.array_equal(exposure.pixel_ids, indexes(htm, exposure.xyz))
    assert np.allclose(unit(np.array([exposure.ra]), np.array([exposure.decl])), exposure.pointing)
    assert sky.exposure(2, exposure.last_object_id).time_ns == time_of(SMALL, 2)


def test_nothing_is_found_where_there_is_nothing():
    survey = Survey(scale=0.02, variables=0, transients=0, false_detections=0)
    exposure = Sky(survey).exposure(0, 17)
    assert (len(exposure.ids), exposure.xyz.shape, exposure.last_object_id) == (0, (0, 3), 17)


@pytest.mark.parametrize("survey", [SMALL, Survey(scale=0.00125), Survey(scale=0.02, field_deg=20)])
def test_ids_and_places_of_variables_are_those_of_the_whole_sky(survey):
    sky = Sky(survey)
    ids, places = sky._cells.near(SOUTH_POLE, np.pi - 1e-3)
    assert ids.tolist() == list(range(survey.variables_in_all))
    for visit in range(40):
        pointing = sky.pointing(visit)
        found, where = sky.variables(pointing)
        assert np.array_equal(found, ids[within(places.xyz, pointing, survey.field_radius)])
        assert np.array_equal(where.xyz, places.xyz[found])


def chi_square(counts):
    return ((counts - counts.mean()) ** 2 / counts.mean()).sum()


def test_variables_and_pointings_are_uniform_on_their_caps():
    sky = Sky(SMALL)
    _, places = sky._cells.near(SOUTH_POLE, np.pi - 1e-3)
    pointings = np.array([sky.pointing(visit) for visit in range(2000)])
    for xyz, radius in ((places.xyz, SMALL.rim_radius), (pointings, SMALL.cap_radius)):
        height = (1 + xyz[:, 2]) / (1 - np.cos(radius))
        assert (height <= 1 + 1e-12).all()
        around = degrees(xyz)[0] / 360
        cells = np.histogram2d(height, around, bins=6, range=[(0, 1), (0, 1)])[0]
        assert chi_square(cells) < 70  # 35 degrees of freedom: one in 2,600 is over it


def test_a_visit_finds_as_much_as_the_paper_says_at_the_rim_too():
    sky = Sky(SMALL)
    exposures = [sky.exposure(visit, 0) for visit in range(300)]
    variables, once = (np.array([np.sum(e.variable == kind) for e in exposures]) for kind in (True, False))
    assert variables.mean() == pytest.approx(200, rel=0.02)
    assert once.mean() == pytest.approx(103, rel=0.03)
    rim = np.array([dot(e.pointing[None], SOUTH_POLE)[0] for e in exposures]).argsort()[:100]
    assert variables[rim].mean() == pytest.approx(200, rel=0.04)


def test_a_place_that_a_store_gives_back_has_the_same_bits_whatever_stands_beside_it():
    exposure = Sky(Survey()).exposure(0, 0)
    rows = np.zeros(len(exposure.ids), LAST_DTYPE)
    rows["ra"], rows["decl"] = exposure.source_ra, exposure.source_decl
    for part in (slice(None), slice(3, None, 7), slice(1, 6), slice(11, 12)):
        assert np.array_equal(unit(rows["ra"][part], rows["decl"][part]), exposure.xyz[part])
        xyz = np.ascontiguousarray(exposure.xyz[part])
        assert np.array_equal(dot(xyz, exposure.pointing), dot(exposure.xyz, exposure.pointing)[part])


# Numbers in columns


@pytest.mark.parametrize("table", [DIA_OBJECT, DIA_SOURCE, DIA_FORCED_SOURCE, DIA_OBJECT_LAST], ids=lambda t: t.name)
def test_filled_columns_have_finite_numbers_that_differ_and_the_others_none(table):
    rows = tile.filled(table, 501, (1, 2, 3))
    assert (rows.dtype, rows.shape) == (table.dtype, (501,))
    for column in table.columns:
        if column.filled:
            assert np.isfinite(rows[column.name]).all()
            assert len(np.unique(rows[column.name])) > (80 if column.dtype == "<i4" else 480)
        elif column.name in rows.dtype.names:
            assert not rows[column.name].any()
    assert rows.tobytes() == tile.filled(table, 501, (1, 2, 3)).tobytes()
    assert rows.tobytes() != tile.filled(table, 501, (1, 2, 4)).tobytes()
    assert len(tile.filled(table, 0, (1,))) == 0


def test_filled_columns_do_not_compress_so_that_storage_cannot_cheat():
    rows = tile.filled(DIA_SOURCE, 1000, (7,))
    assert len(zlib.compress(rows.tobytes())) > 0.6 * rows.nbytes


def test_numbers_have_the_size_of_what_they_stand_for():
    rows = tile.filled(DIA_SOURCE, 1000, (7,))
    assert (rows["psRa"] >= 0).all()
    assert (rows["psRa"] < 360).all()
    assert (rows["psDecl"] >= -90).all()
    assert (rows["psDecl"] < 0).all()
    assert (rows["apFluxErr"] < 0.1 * np.abs(rows["apFlux"])).all()
    assert (rows["raSigma"] < 1e-4).all()
    assert (rows["extendedness"] < 1).all()
