"""A run of visits that never was, as the daemon would tell of it."""

from typing import Any

import numpy as np

from schemas.visits.measures import COUNTS, TIMES

BEGAN_NS = 1_767_225_600 * 10**9

STATUS: dict[str, Any] = {
    "id": "20260101T000000Z",
    "state": "running",
    "index_mode": "partitioned",
    "target": "triggerlog_visits",
    "visits": 2400,
    "done": 1200,
    "here": 1200,
    "since_ns": BEGAN_NS,
    "mean_s": 0.212,
    "over_limit": 0.0,
    "limit_s": 10.0,
    "remaining_s": 254.0,
}
"""A run at work; a test gives `last_ns`, without which it stands still."""


def measures(visits: int) -> dict[str, Any]:
    """Columns of so many visits: select and store grow with the history, each with noise, some visits far off."""
    random = np.random.default_rng(3)
    visit = np.arange(visits)
    grown = 1 + visit / 1500
    noise = random.gamma(20, 0.05, (len(TIMES), visits))
    shares = np.array([0.10, 0.16, 0.13, 0.10, 0.22, 0.16, 0.09, 0.04])
    parts = 0.17 * shares[:, None] * grown * noise
    parts[4, random.random(visits) < 0.01] *= 6
    select, store = parts[:3].sum(axis=0), parts[3:].sum(axis=0)
    z = random.uniform(-1, -0.9, visits)
    columns = dict(zip(TIMES, parts, strict=True)) | {
        "visit": visit,
        "time_ns": BEGAN_NS + visit * 2_250 * 10**9,
        "ra": random.uniform(0, 360, visits),
        "decl": np.degrees(np.arcsin(z)),
        "tiles": np.ones(visits, np.int64),
        "select_s": select,
        "store_s": store,
        "visit_s": select + store,
        "dia_s": np.full(visits, 0.01),
        "slowest_tile_s": select + store,
    }
    columns |= {name: np.full(visits, 200) for name in COUNTS}
    return {name: column.tolist() for name, column in columns.items()}
