"""Indexes of pixels, many at once: those of the library, at the very border of a pixel, too."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from lsst.sphgeom import Mq3cPixelization, UnitVector3d

from daemon.workloads.visits.sphere import coarse, indexes

CORNERS = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) != (0, 0, 0)])


def unit(xyz):
    return xyz / np.linalg.norm(xyz, axis=1)[:, None]


def by_the_library(pixels, xyz):
    return [pixels.index(UnitVector3d(*point)) for point in xyz]


@settings(max_examples=30, deadline=None)
@given(level=st.integers(0, 14), seed=st.integers(0, 2**32 - 1))
def test_coarse_pixels_of_many_points_are_those_of_the_library(level, seed):
    pixels, random = coarse(level), np.random.default_rng(seed)
    anywhere = unit(random.standard_normal((100, 3)))
    quads = [Mq3cPixelization.quad(index) for index in indexes(pixels, anywhere[:10]).tolist()]
    corners = np.array([list(vertex) for quad in quads for vertex in quad.getVertices()])
    borders = unit(np.concatenate([(corners[:-1] + corners[1:]) / 2, corners, CORNERS]))
    for xyz in (anywhere, borders, unit(borders + random.normal(0, 1e-15, borders.shape))):
        assert indexes(pixels, xyz).tolist() == by_the_library(pixels, xyz)
    assert indexes(pixels, np.zeros((0, 3))).shape == (0,)
