"""Tiles: the field of view in N x N squares, as the workers share it.

The squares are those of the tangent plane at the pointing, on a square of side 2 * tan(field radius) around the circle.
Squares without a place of the circle are dropped: of 15 x 15 there are 201 left. Tiles at the rim reach beyond the
circle, so that together they cover `area_factor` times as much: what was seen there before is read as well.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from lsst.sphgeom import Angle, Circle, ConvexPolygon, UnitVector3d
from lsst.sphgeom import Region as SkyRegion

from daemon.workloads.visits.sphere import axes, dot, within
from schemas.readings import Array

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
