"""Indexes of many MQ3C pixels at once: the library has them point by point, at some microseconds each.

The sphere is projected onto the six faces of a cube; each coordinate u of a face is warped to u * (4 - |u|) / 3, so
that the 2^level times 2^level squares of the face have about the same area; they are numbered along a Hilbert curve.
Points so near the border of a pixel that rounding decides are left to the library: all indexes are the library's.
"""

import numpy as np
from lsst.sphgeom import Mq3cPixelization, UnitVector3d

from schemas.readings import Array

_FIRST_FACE = 10
_FACES = np.array([[4, 1], [5, 2], [0, 3]])
"""By the axis that a point is farthest out on, and whether on its positive side."""
_AXES = np.array([[0, 1], [1, 2], [2, 0], [0, 1], [1, 2], [2, 0]])
_SIGNS = np.array([[1, 1], [1, 1], [1, -1], [-1, -1], [-1, -1], [-1, 1]])
"""Which coordinate of the point, with which sign, is u and v of a face."""
_NEAR = 1e-12
"""So near a border, as a part of the face, a point is the library's: rounding moves it by some 1e-16."""


def indexes(pixels: Mq3cPixelization, xyz: Array) -> Array:
    """Index of the pixel that each unit vector is in: (points, 3) float64 to (points,) int64."""
    level = pixels.getLevel()
    points = np.arange(len(xyz))
    out = np.abs(xyz).argmax(axis=1)
    outward = xyz[points, out]
    face = _FACES[out, (outward > 0).astype(np.int64)]
    uv = xyz[points[:, None], _AXES[face]] * _SIGNS[face] / np.abs(outward)[:, None]
    grid = (uv * (4 - np.abs(uv)) / 3 + 1) * 2.0 ** (level - 1)
    cell = np.clip(grid.astype(np.int64), 0, 2**level - 1)
    found = (face + _FIRST_FACE << 2 * level) | _along_hilbert(cell[:, 0], cell[:, 1], level)
    near = (np.abs(grid - np.rint(grid)) < _NEAR * 2**level).any(axis=1)
    for point in np.flatnonzero(near):
        found[point] = pixels.index(UnitVector3d(*xyz[point]))
    return np.asarray(found)


def _along_hilbert(x: Array, y: Array, level: int) -> Array:
    """Place of squares along the Hilbert curve: of each bit from the highest, a digit; then turn the quadrant."""
    place = np.zeros(len(x), np.int64)
    for bit in range(level - 1, -1, -1):
        right, upper = x >> bit & 1, y >> bit & 1
        place = place << 2 | (3 * right ^ upper)
        low, mask = upper == 0, (1 << bit) - 1
        flipped = right * low * mask
        x, y = x & mask ^ flipped, y & mask ^ flipped
        x, y = np.where(low, y, x), np.where(low, x, y)
    return place
