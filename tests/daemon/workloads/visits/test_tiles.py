"""Tiles of a field: each source is in exactly one, and what is asked of a store covers them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsst.sphgeom import UnitVector3d

from daemon.workloads.visits.sphere import area_factor, degrees, displaced, tiles_of, unit

RADIUS = math.radians(1.75)
AXIS = st.floats(-1, 1, allow_nan=False)
POINTINGS = (
    st.tuples(AXIS, AXIS, AXIS).filter(lambda v: math.hypot(*v) > 1e-3).map(lambda v: np.array(v) / math.hypot(*v))
)


def field(pointing, radius, count, seed=0):
    """Places of a field, half of them at its very rim."""
    random = np.random.default_rng(seed)
    distance = radius * np.concatenate([np.sqrt(random.random(count)), np.ones(count)])
    turns = np.concatenate([random.random(count), np.arange(count) / count])
    return unit(*degrees(displaced(pointing, distance, 2 * math.pi * turns)))


@settings(max_examples=40, deadline=None)
@given(pointing=POINTINGS, radius=st.floats(1e-4, 0.17), n=st.integers(1, 16))
def test_each_source_of_a_field_is_in_exactly_one_tile_and_its_region(pointing, radius, n):
    xyz = field(pointing, radius, 64)
    tiles = tiles_of(pointing, radius, n)
    inside = np.array([tile.contains(xyz) for tile in tiles])
    assert (inside.sum(axis=0) == 1).all()
    assert all(tiles[tile].region.contains(UnitVector3d(*xyz[place])) for tile, place in np.argwhere(inside))


@pytest.mark.parametrize("n", [2, 5, 15])
def test_the_region_of_a_tile_contains_what_the_tile_does_beyond_the_circle_too(n):
    pointing = unit(np.array([200.0]), np.array([-70.0]))[0]
    xyz = field(pointing, 1.5 * RADIUS, 3000)
    for tile in tiles_of(pointing, RADIUS, n):
        inside = xyz[tile.contains(xyz)]
        assert len(inside)
        assert all(tile.region.contains(UnitVector3d(*place)) for place in inside)


def test_a_tile_has_nothing_of_the_other_side_of_the_sky():
    pointing = np.array([0.0, 0.6, -0.8])
    assert not any(tile.contains(-field(pointing, RADIUS, 10)).any() for tile in tiles_of(pointing, RADIUS, 3))


@pytest.mark.parametrize(
    ("n", "tiles", "factor"), [(1, 1, 1), (5, 25, 4 / math.pi), (15, 201, 201 / 225 * 4 / math.pi)]
)
def test_tiles_off_the_circle_are_dropped_as_in_the_paper(n, tiles, factor):
    assert len(tiles_of(np.array([1.0, 0.0, 0.0]), RADIUS, n)) == tiles
    assert area_factor(RADIUS, n) == pytest.approx(factor, rel=1e-3)


def test_the_area_of_tiles_is_that_which_places_find():
    n, radius = 7, 0.17
    pointing = np.array([0.0, 0.0, -1.0])
    wide = math.atan(math.sqrt(2) * math.tan(radius))
    random = np.random.default_rng(5)
    distance = 2 * np.arcsin(np.sqrt(random.random(100_000)) * math.sin(wide / 2))
    xyz = displaced(pointing, distance, 2 * math.pi * random.random(100_000))
    found = sum(tile.contains(xyz).mean() for tile in tiles_of(pointing, radius, n))
    cap = (1 - math.cos(wide)) / (1 - math.cos(radius))
    assert found * cap == pytest.approx(area_factor(radius, n), rel=0.01)
