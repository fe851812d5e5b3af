"""Rows that a run of visits leaves, by formula: what a run is checked against.

The paper's numbers follow `rows(DIAObject) = v * (15150 + 10000 * (c - 1)) + 5150 * f * c * S`: what is detected, and
what forced photometry adds. Here c is the area of the tiles over that of the field, f the part of the sky that a field
covers, and S the sum over the visits of how many there were within the forced cutoff before: m * (m - 1) / 2 + M *
(v - m) with M visits in the cutoff and m = min(v, M). Two of its approximations matter for a smaller sky or a shorter
run, so here they are integrals over the sky:

- Near the rim of the sky fewer pointings cover a place, and fields reach beyond it. So the mean overlap of two fields
  is less than f: by 0.9 % at scale 1, by 9 % at 0.02.
- Variables in the tiles' corners beyond the field are known only once a field covered them. When the cutoff counts
  from the first detection, as in the paper's PostgreSQL runs, they also get no forced photometry later than that.

The tiles' outline is taken as a circle of the same area. What is drawn scatters around the mean of all seeds, most of
it because fields overlap by chance: the overlap of a run's fields has a standard deviation of 2.4 % after 400 visits at
scale 0.02, 3.9 % after 200. So in a run of at most MOST_OWN visits f is the mean overlap of its very own fields, and
variables are touched where these were.
"""

import math
from dataclasses import dataclass

import numpy as np

from daemon.workloads.visits.settings import first_at, time_of
from daemon.workloads.visits.sky import SOUTH_POLE, Sky
from daemon.workloads.visits.sphere import area_factor, displaced, within
from schemas.readings import Array
from schemas.visits.survey import DAY_NS, HEMISPHERE_SR, Survey
from schemas.visits.tables import IndexMode

_NODES = 48
_POINTS = 20_000
MOST_OWN = 4000
"""Visits whose own fields are compared, each with each: half a second. Of more, chance is a fraction of a percent."""


@dataclass(frozen=True)
class _Places:
    """Places of the sky by their distance from its middle, for sums over the sky; float64 (places,) each.

    sr: how much of the sky each stands for. field, tiles: probability that a random visit covers it.
    """

    sr: Array
    field: Array
    tiles: Array


def rows(
    survey: Survey,
    visits: int,
    tiles: int,
    mode: IndexMode = IndexMode.LAST_OBJECT_TABLE,
    *,
    own_fields: bool = True,
) -> dict[str, float]:
    """Rows of each table after a run of visits.

    In `partitioned` nothing is said of partitions that were dropped, nor of DIAObjectLast: it has a record for each
    detection, until the period is compacted.

    Args:
        survey: what was looked at.
        visits: how many were done.
        tiles: along a side of the field.
        mode: DIAObjectLast is in `last_object_table` alone.
        own_fields: in a run of at most MOST_OWN visits, where its seed made it look; else the mean over seeds.

    """
    factor = area_factor(survey.field_radius, tiles)
    places = _places(survey, factor)
    once = (survey.transients + survey.false_detections) * survey.scale
    sources = visits * (survey.variables * survey.scale + once)
    cutoff = _visits_in_cutoff(survey)
    if own_fields and visits <= MOST_OWN:
        pointings = _pointings(survey, visits)
        seen_again = _own_overlap(survey, pointings, _outline(survey, factor))
        touched = _own_touched(survey, pointings)
    else:
        seen_again = _mean_overlap(survey, places) * _pairs(visits, cutoff)
        touched = float((places.sr * _ever(places.field, visits)).sum())
    corners = float((places.sr * (places.tiles - places.field) * _known(survey, places.field, visits, cutoff)).sum())
    objects = sources + once * seen_again + survey.variables_sr * corners
    found = {"DIAObject": objects, "DIASource": sources, "DIAForcedSource": objects}
    if mode is IndexMode.LAST_OBJECT_TABLE:
        found["DIAObjectLast"] = survey.variables_sr * touched + once * visits
    return found


def _mean_overlap(survey: Survey, places: _Places) -> float:
    """Part of a random field that the tiles of another one cover, on average: f * c but for the rim of the sky."""
    return float((places.sr * places.field * places.tiles).sum()) / survey.field_sr


def _pointings(survey: Survey, visits: int) -> Array:
    sky = Sky(survey)
    return np.array([sky.pointing(visit) for visit in range(visits)]).reshape(visits, 3)


def _own_overlap(survey: Survey, pointings: Array, outline: float) -> float:
    """Sum over pairs of a run's visits within the cutoff: part of the earlier's field that is in the later's tiles."""
    cutoff_ns = round(survey.forced_cutoff_days * DAY_NS)
    covered = 0.0
    for visit in range(len(pointings)):
        earlier = pointings[first_at(survey, time_of(survey, visit) - cutoff_ns) : visit]
        apart = 2 * np.arcsin(np.minimum(np.linalg.norm(earlier - pointings[visit], axis=1) / 2, 1))
        near = apart[apart < survey.field_radius + outline]
        covered += float(_both(near, survey.field_radius, outline).sum())
    return covered / survey.field_sr


def _own_touched(survey: Survey, pointings: Array) -> float:
    """Area that at least one of a run's fields covers, in steradians: by points that lie evenly on a spiral."""
    number = np.arange(_POINTS) + 0.5
    part = (1 - math.cos(survey.cap_radius + survey.field_radius)) / 2
    distance, turns = 2 * np.arcsin(np.sqrt(part * number / _POINTS)), number * math.pi * (3 - math.sqrt(5))
    left = displaced(SOUTH_POLE, distance, turns)
    for pointing in pointings:
        left = left[~within(left, pointing, survey.field_radius)]
    return 4 * math.pi * part * (1 - len(left) / _POINTS)


def _visits_in_cutoff(survey: Survey) -> float:
    """Visits that an object is forced for after one: exactly for whole days, else the mean over a night's visits."""
    cutoff_ns = round(survey.forced_cutoff_days * DAY_NS)
    nights = cutoff_ns // DAY_NS + 2
    step = max(1, survey.visits_a_night // 1000)
    late = range(nights * survey.visits_a_night, (nights + 1) * survey.visits_a_night, step)
    counts = [visit - first_at(survey, time_of(survey, visit) - cutoff_ns) for visit in late]
    return sum(counts) / len(counts)


def _pairs(visits: int, cutoff: float) -> float:
    """Pairs of visits of which the earlier one is within the cutoff of the later one."""
    full = min(visits, cutoff)
    return full * max(full - 1, 0) / 2 + cutoff * (visits - full)


def _known(survey: Survey, covered: Array, visits: int, cutoff: float) -> Array:
    """Visits, of all, at which a place's variables would be forced: detected (first) within the cutoff.

    covered: probability that a visit detects them, float64 (places,).
    """
    full = min(visits, cutoff)
    missed = np.log1p(-np.minimum(covered, 1 - 1e-12))
    # Sum of 1 - q^k for k < full, with q the probability that a visit misses the place.
    beginning = full - _sum_of_powers(missed, full)
    later = visits - full
    return beginning - np.expm1(missed * cutoff) * (
        _sum_of_powers(missed, later) if survey.cutoff_since_first else later
    )


def _sum_of_powers(log_q: Array, count: float) -> Array:
    """Sum of q^k for k from 0 to count - 1."""
    small = np.where(log_q < 0, log_q, -1.0)
    return np.asarray(np.where(log_q < 0, np.expm1(small * count) / np.expm1(small), count))


def _ever(covered: Array, visits: int) -> Array:
    """Probability that at least one of the visits covers a place."""
    return np.asarray(-np.expm1(visits * np.log1p(-np.minimum(covered, 1 - 1e-12))))


def _outline(survey: Survey, factor: float) -> float:
    """Radius of a circle that has the area of the tiles, in radians."""
    return math.acos(1 - factor * (1 - math.cos(survey.field_radius)))


def _places(survey: Survey, factor: float) -> _Places:
    """Gauss-Legendre nodes between the distances at which coverage changes its form."""
    cap, field, outline = survey.cap_radius, survey.field_radius, _outline(survey, factor)
    edges = sorted({0.0, *(abs(cap - r) for r in (field, outline)), *(cap + r for r in (field, outline))})
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low, high = np.array(edges[:-1])[:, None], np.array(edges[1:])[:, None]
    distance = ((high + low) / 2 + (high - low) / 2 * nodes).ravel()
    sr = ((high - low) / 2 * weights).ravel() * 2 * math.pi * np.sin(distance)
    return _Places(sr, *(_both(distance, radius, cap) / survey.sky_sr for radius in (field, outline)))


def _both(distance: Array, one: float, other: float) -> Array:
    """Area that two caps have in common, in steradians, by the distance of their centres; radii below 90 degrees."""
    cos_d, sin_d = np.cos(distance), np.maximum(np.sin(distance), 1e-12)
    cos_a, sin_a, cos_b, sin_b = math.cos(one), math.sin(one), math.cos(other), math.sin(other)
    corner = np.arccos(np.clip((cos_d - cos_a * cos_b) / (sin_a * sin_b), -1, 1))
    at_one = np.arccos(np.clip((cos_b - cos_d * cos_a) / (sin_d * sin_a), -1, 1))
    at_other = np.arccos(np.clip((cos_a - cos_d * cos_b) / (sin_d * sin_b), -1, 1))
    lens = 2 * (math.pi - corner - at_one * cos_a - at_other * cos_b)
    inner = HEMISPHERE_SR * (1 - math.cos(min(one, other)))
    apart = np.where(distance >= one + other, 0.0, lens)
    return np.asarray(np.where(distance <= abs(one - other), inner, apart))
