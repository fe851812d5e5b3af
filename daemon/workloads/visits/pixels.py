"""Pixels of the sphere, from lsst-sphgeom: HTM level 20 as in the tables of the paper, MQ3C for `partitioned`."""

from functools import lru_cache

import numpy as np
from lsst.sphgeom import HtmPixelization, Mq3cPixelization, Pixelization, UnitVector3d
from lsst.sphgeom import Region as SkyRegion

from daemon.workloads.visits import mq3c
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.records import Region
from schemas.visits.tables import IndexMode

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
        return mq3c.indexes(pixels, xyz)
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
