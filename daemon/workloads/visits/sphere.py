"""Places on the sphere: degrees, as the tables have them, and unit vectors, as geometry wants them."""

import numpy as np

from schemas.readings import Array


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
