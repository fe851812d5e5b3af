"""Places on the sphere, as unit vectors and as degrees, tiles of the field of view, and pixels, from lsst-sphgeom."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from lsst.sphgeom import Angle, Circle, ConvexPolygon, HtmPixelization, Mq3cPixelization, Pixelization, UnitVector3d
from lsst.sphgeom import Region as SkyRegion

from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import Region
from schemas.visits.tables import IndexMode


def unit(ra: Array, decl: Array) -> Array:
    """Unit vectors of places in degrees: (n,) float64 each to (n, 3).

    Places that a store gives back become bit by bit the vectors that they were, so that no object changes its tile or
    its pixel between visits. Hence the copy: numpy computes sines of strided fields by other means than those in a row.
    """
    right, declination = np.radians(np.ascontiguousarray(ra)), np.radians(np.ascontiguousarray(decl))
    across = np.cos(declination)
    return np.stack((across * np.cos(right), across * np.sin(right), np.sin(declination)), axis=-1)


def degrees(xyz: Array) -> tuple[Array, Array]:
    """Right ascension (0 to 360) and declination in degrees: (n, 3) float64 to (n,) each.

    `unit` of them need not be the same bits: a place is what its degrees say.
    """
    x, y, z = np.moveaxis(xyz, -1, 0)
    return np.degrees(np.arctan2(y, x)) % 360.0, np.degrees(np.arctan2(z, np.hypot(x, y)))


def displaced(centre: Array, distance: Array, angle: Array) -> Array:
    """Places around a centre: distance in radians, angle around it in radians; (3,), (n,), (n,) to (n, 3)."""
    east, north = axes(centre)
    sideways = np.outer(np.cos(angle), east) + np.outer(np.sin(angle), north)
    return np.asarray(np.cos(distance)[:, None] * centre + np.sin(distance)[:, None] * sideways)


def axes(centre: Array) -> tuple[Array, Array]:
    """Two unit vectors that span the tangent plane: east and north, at a pole any."""
    flat = np.hypot(centre[0], centre[1])
    east = np.array([-centre[1], centre[0], 0.0]) / flat if flat > 0 else np.array([0.0, 1.0, 0.0])
    return east, np.cross(centre, east)


def within(xyz: Array, centre: Array, radius: float) -> Array:
    """Which places are within a radius (in radians) of a centre: (n, 3) to bool (n,).

    By the chord, which is exact where the cosine of a small angle is not.
    """
    x, y, z = (xyz[:, i] - centre[i] for i in range(3))
    return np.asarray(x * x + y * y + z * z <= (2 * np.sin(radius / 2)) ** 2)


def dot(xyz: Array, vector: Array) -> Array:
    """Scalar products: (n, 3) with (3,) to (n,); those of a place are the same bits whatever stands next to it.

    A matrix product is not so: it takes the last few of an array by other means.
    """
    return np.asarray(xyz[:, 0] * vector[0] + xyz[:, 1] * vector[1] + xyz[:, 2] * vector[2])


# --- MQ3C pixels -----------------------------------------------------------------------------------------------------
# The library has indexes point by point, at some microseconds each; these are of many at once. The sphere is projected
# onto the six faces of a cube; each coordinate u of a face is warped to u * (4 - |u|) / 3, so that the 2^level times
# 2^level squares of the face have about the same area; they are numbered along a Hilbert curve. Points so near the
# border of a pixel that rounding decides are left to the library: all indexes are the library's.

_FIRST_FACE = 10
_FACES = np.array([[4, 1], [5, 2], [0, 3]])
"""By the axis that a point is farthest out on, and whether on its positive side."""
_AXES = np.array([[0, 1], [1, 2], [2, 0], [0, 1], [1, 2], [2, 0]])
_SIGNS = np.array([[1, 1], [1, 1], [1, -1], [-1, -1], [-1, -1], [-1, 1]])
"""Which coordinate of the point, with which sign, is u and v of a face."""
_NEAR = 1e-12
"""So near a border, as a part of the face, a point is the library's: rounding moves it by some 1e-16."""


def mq3c_indexes(pixels: Mq3cPixelization, xyz: Array) -> Array:
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


# --- tiles of the field of view --------------------------------------------------------------------------------------
# N x N squares, as the workers share it. The squares are those of the tangent plane at the pointing, on a square of
# side 2 * tan(field radius) around the circle. Squares without a place of the circle are dropped: of 15 x 15 there are
# 201 left. Tiles at the rim reach beyond the circle, so that together they cover `area_factor` times as much: what was
# seen there before is read as well.

SLACK = 1e-9
"""The circle and its square are wider by this part (6 microseconds of arc): rounding drops no source at the rim."""


@dataclass(frozen=True)
class Tile:
    """One tile: the whole circle, or a square of the tangent plane.

    number: from 0, row after row, dropped ones counted. region: surely covers what `contains` accepts.
    low, high: corners on the tangent plane, (x, y) in radians; None for the whole circle.
    """

    number: int
    region: SkyRegion
    pointing: Array
    radius: float
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None

    def contains(self, xyz: Array) -> Array:
        """Which places are in it: float64 (n, 3) to bool (n,). Of the tiles of a field exactly one has a source."""
        if self.low is None or self.high is None:
            return within(xyz, self.pointing, self.radius * (1 + SLACK))
        x, y, before = _on_plane(xyz, self.pointing)
        inside = (x >= self.low[0]) & (x < self.high[0]) & (y >= self.low[1]) & (y < self.high[1])
        return np.asarray(inside & before)


def tiles_of(pointing: Array, radius: float, n: int) -> tuple[Tile, ...]:
    """Divide a field into n x n tiles; those that do not touch the circle are left out.

    Args:
        pointing: unit vector, float64 (3,).
        radius: of the field, in radians.
        n: tiles along a side; 1 is the whole circle as one tile.

    """
    if n == 1:
        return (Tile(0, Circle(UnitVector3d(*pointing), Angle(radius * (1 + 3 * SLACK))), pointing, radius),)
    edges = _edges(radius, n)
    return tuple(_square(number, pointing, radius, edges) for number in _used_tiles(n))


def area_factor(radius: float, n: int) -> float:
    """Area of the tiles over that of the circle: 1 for n = 1, near 1.273 for n = 5, near 1.137 for n = 15."""
    if n == 1:
        return 1.0
    edges = np.array(_edges(radius, n))
    x, y = np.meshgrid(edges, edges)
    # Solid angle of the rectangle between the origin of the tangent plane and (x, y).
    corner = np.arctan(x * y / np.sqrt(1 + x * x + y * y))
    areas = np.diff(np.diff(corner, axis=0), axis=1).ravel()
    return float(areas[list(_used_tiles(n))].sum() / (2 * math.pi * (1 - math.cos(radius))))


def _edges(radius: float, n: int) -> list[float]:
    half = math.tan(radius) * (1 + SLACK)
    return [half * (2 * i / n - 1) for i in range(n + 1)]


@lru_cache
def _used_tiles(n: int) -> tuple[int, ...]:
    """Numbers of the squares that have a place of the circle: in half-squares, their nearest corner lies within n."""

    def nearest(i: int) -> int:
        return max(0, 2 * i - n, n - 2 * i - 2)

    apart = [nearest(i) ** 2 for i in range(n)]
    return tuple(row * n + column for row in range(n) for column in range(n) if apart[row] + apart[column] < n * n)


def _on_plane(xyz: Array, pointing: Array) -> tuple[Array, Array, Array]:
    east, north = axes(pointing)
    depth = dot(xyz, pointing)
    before = depth > 0
    depth = np.where(before, depth, 1.0)
    return dot(xyz, east) / depth, dot(xyz, north) / depth, before


def _square(number: int, pointing: Array, radius: float, edges: list[float]) -> Tile:
    row, column = divmod(number, len(edges) - 1)
    low, high = (edges[column], edges[row]), (edges[column + 1], edges[row + 1])
    return Tile(number, _polygon(pointing, low, high), pointing, radius, low, high)


def _polygon(pointing: Array, low: tuple[float, float], high: tuple[float, float]) -> ConvexPolygon:
    """The square with a margin, as a polygon: sides are great circles in both."""
    east, north = axes(pointing)
    margin = SLACK * (high[0] - low[0])
    left, right, below, above = low[0] - margin, high[0] + margin, low[1] - margin, high[1] + margin
    corners = ((left, below), (right, below), (right, above), (left, above))
    return ConvexPolygon([UnitVector3d(*(pointing + x * east + y * north)) for x, y in corners])


# --- pixels in the tables --------------------------------------------------------------------------------------------
# HTM level 20 as in the tables of the paper, MQ3C for `partitioned`.

HTM_LEVEL = 20

htm = HtmPixelization(HTM_LEVEL)


@lru_cache
def coarse(level: int) -> Mq3cPixelization:
    """The coarse pixels of a level."""
    return Mq3cPixelization(level)


def indexes(pixels: Pixelization, xyz: Array) -> Array:
    """Index of the pixel that each unit vector is in: (points, 3) float64 to (points,) int64.

    A microsecond a point in MQ3C, some six in HTM.
    """
    if isinstance(pixels, Mq3cPixelization):
        return mq3c_indexes(pixels, xyz)
    index = pixels.index
    return np.fromiter((index(UnitVector3d(*point)) for point in xyz.tolist()), np.int64, len(xyz))


def region_of(sky: SkyRegion, visits: VisitsConfig) -> Region:
    """What to ask a store for, so that nothing in a region of the sky is missed.

    The index mode decides by what it is asked for: coarse pixels, or HTM ranges, `htm_ranges` of them at most; fewer
    cover more that has to be trimmed. The other is left empty: it takes half a millisecond.
    """
    if visits.index_mode is IndexMode.PARTITIONED:
        pixels = [np.arange(begin, end) for begin, end in coarse(visits.pixel_level).envelope(sky).ranges()]
        return Region(ranges=np.empty((0, 2), np.int64), pixels=np.concatenate(pixels).astype(np.int64))
    ranges = np.array(list(htm.envelope(sky, visits.htm_ranges).ranges()), np.int64).reshape(-1, 2)
    return Region(ranges=ranges, pixels=np.empty(0, np.int64))
