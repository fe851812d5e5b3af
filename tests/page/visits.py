"""A run of visits that never was, as the daemon would tell of it."""

from functools import cache
from typing import Any

import numpy as np

from daemon.workloads.visits.figures import boxes, line, over_by_bin, thinned
from schemas.api.visits import COUNTS, TIMES
from schemas.config.visits import VisitsConfig

BEGAN_NS = 1_767_225_600 * 10**9

STATUS: dict[str, Any] = {
    "id": "20260101T000000Z",
    "state": "running",
    "phase": "visiting",
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
        "upkeep_s": np.full(visits, 0.005),
        "slowest_tile_s": select + store,
    }
    columns |= {name: np.full(visits, 200) for name in COUNTS}
    return {name: column.tolist() for name, column in columns.items()}


@cache
def figures_of(visits: int, points: int, limit_s: float) -> dict[str, Any]:
    """Body of `GET /api/v1/visits/figures`."""
    columns = {name: np.array(column) for name, column in measures(visits).items()}
    visit, width = columns["visit"], 100
    seconds = columns["visit_s"]
    fits = {name: line(visit, columns[name]) for name in ("visit_s", "select_s", "store_s")}
    bins = [visit // width == number for number in range(-(-visits // width))]
    return {
        "id": "20260101T000000Z",
        "index_mode": "partitioned",
        "columns": {name: column.tolist() for name, column in thinned(columns, points).items()},
        "visits": visits,
        "fits": {name: fit and fit.model_dump() for name, fit in fits.items()},
        "boxes": [box.model_dump() for box in boxes(visit, seconds, width)],
        "bin": width,
        "parts": {name: [float(columns[name][inside].mean()) for inside in bins] for name in TIMES},
        "over": [share.model_dump() for share in over_by_bin(visit, seconds, limit_s, width)],
        "sizes": {
            "DIAObject": {"rows": 151_000, "table_bytes": 112 * 2**20, "index_bytes": 15 * 2**20},
            "DIAForcedSource": {"rows": 150_000, "table_bytes": 12 * 2**20, "index_bytes": 10 * 2**20},
        },
        "counts": {"DIAObject": 151_200},
        "expected": {"DIAObject": 150_200.4, "DIAForcedSource": 150_200.4},
        "limit_s": limit_s,
        "paper": {"label": "PostgreSQL on NVMe, 15 x 15", "intercept": 0.0485, "slope_per_1000": 0.164},
        "settings": VisitsConfig.model_validate({"survey": {"scale": 0.02}}).model_dump(mode="json", by_alias=True),
        "problem": None,
    }


def runs_told(figures: dict[str, Any]) -> dict[str, Any]:
    """Body of `GET /api/v1/visits`."""
    configured = VisitsConfig.model_validate({"visits": 2400, "survey": {"scale": 0.02}})
    past = [
        {
            "id": name,
            "began_ns": BEGAN_NS,
            "ended_ns": BEGAN_NS + 754 * 10**9,
            "index_mode": "last_object_table",
            "visits": 700,
            "state": "stopped" if name.endswith("-2") else "finished",
            "problem": "it was stopped on request" if name.endswith("-2") else None,
        }
        for name in figures["past_visits"]
    ]
    return {"status": figures["visits"], "past": past, "settings": configured.model_dump(mode="json", by_alias=True)}
