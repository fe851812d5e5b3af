"""Runs of snapshot readers that never were, as the daemon would tell of them."""

from typing import Any

import numpy as np

BEGAN_NS = 1_767_225_600 * 10**9
SETTINGS: dict[str, Any] = {"folders": 40, "intervals": 60, "clients": 40, "cycles": 20, "scale": 0.1}
CYCLE_S = 20.0
FIGURES: dict[str, Any] = {
    "cycles": 400,
    "in_time": 388,
    "failed": 2,
    "efficiency": 0.97,
    "slipped_s": 31.5,
    "p50_s": 1.62,
    "p90_s": 9.4,
    "max_s": 27.3,
    "row_rate": 77_300.0,
    "byte_rate": 78.4e6,
    "blocks_read": 310.2,
    "blocks_hit": 5_890.4,
    "server_percent": 63.0,
    "clients_percent": 88.0,
    "machine_percent": 74.0,
}
STATUS: dict[str, Any] = {
    "id": "20260101T000000Z",
    "state": "running",
    "phase": "reading",
    "target": "triggerlog_snapshots, /snapshots/9f2c",
    "since_ns": BEGAN_NS,
    "settings": SETTINGS,
    "cycle_s": CYCLE_S,
    "deadline_s": CYCLE_S,
    "stagger_s": 0.5,
    "rows_asked": 80_000.0,
    "loading": {
        "rows": 2_400_000,
        "rows_in_all": 2_400_000,
        "rows_found": 0,
        "seconds": 41.0,
        "row_rate": 58_500.0,
    },
    "started": 40,
    "states": "crrrlfpwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwln",
    "progress": [1, 4, 9, 14, 131, 22, 27, *range(31, 93, 2), 188, 0],
    "read": [0, 20, 45, 80, 60, 0, 100, *[100] * 31, 90, 0],
    "cycles": 800,
    "figures": FIGURES,
    "lately": None,
    "remaining_s": 190.0,
}
"""A run at work, of 40 clients."""

LOADING: dict[str, Any] = STATUS | {
    "phase": "loading",
    "started": 0,
    "states": "",
    "progress": [],
    "read": [],
    "loading": STATUS["loading"] | {"rows": 600_000, "row_rate": 58_500.0},
    "figures": dict.fromkeys(FIGURES) | {"cycles": 0, "in_time": 0, "failed": 0, "slipped_s": 0.0},
}


def cycles(amount: int) -> dict[str, list[Any]]:
    """Columns of so many cycles: most are short, each thirtieth is late, and each two hundredth failed."""
    random = np.random.default_rng(5)
    number = np.arange(amount)
    query_s = np.where(number % 30 == 29, 21.0, 1.0) * random.gamma(6, 0.25, amount)
    failed = number % 200 == 199
    return {
        "client": (number % 40).tolist(),
        "number": (number // 40).tolist(),
        "due_s": (0.5 * number).tolist(),
        "wait_s": [0.0] * amount,
        "connect_s": [0.004] * amount,
        "query_s": query_s.tolist(),
        "rows": np.where(failed, 0, 40_000).tolist(),
        "bytes": np.where(failed, 0, 40_960_000).tolist(),
        "in_time": (~failed & (query_s < CYCLE_S)).tolist(),
        "failed": failed.tolist(),
    }


def samples(amount: int) -> list[dict[str, Any]]:
    """A time line of so many seconds: the cache is lost after its first third."""
    random = np.random.default_rng(6)
    lines = []
    for second in range(amount):
        read = 0.0 if second < amount / 3 else 900.0 * random.gamma(9, 0.1)
        lines.append(
            {
                "t_s": second + 1.0,
                "reading": 4,
                "late": int(read > 0),
                "row_rate": 80_000.0 * random.gamma(40, 0.025),
                "byte_rate": 81e6 * random.gamma(40, 0.025),
                "in_time": 2,
                "ended": 2,
                "read_rate": read,
                "hit_rate": 12_000.0 * random.gamma(40, 0.025),
                "server_percent": 63.0,
                "clients_percent": 88.0,
                "machine_percent": 74.0,
            }
        )
    return lines


def cliff(folders: int, blocks: int, cache: int) -> list[dict[str, Any]]:
    """Snapshots of one folder to all: of so many blocks each, with a cache of so many."""
    return [
        {
            "folders": n,
            "rows": 1_000 * n,
            "value_bytes": 1_000_000 * n,
            "read": 0 if n * blocks <= cache else n * blocks,
            "hit": n * blocks if n * blocks <= cache else 0,
            "seconds": 0.004 * n,
        }
        for n in range(1, folders + 1)
    ]


CLIFFS = {"window": cliff(40, 155, 5_000), "channel-max": cliff(40, 1_310, 5_000)}


def live(amount: int, after_cycle: int = 0, after_sample: int = 0) -> dict[str, Any]:
    """Body of `GET /api/v1/snapshots/live` once so many cycles ended, two a second."""
    columns, line = cycles(amount), samples(amount // 2)
    return {
        "id": STATUS["id"],
        "cliff": CLIFFS["window"],
        "cycles": {name: column[after_cycle:] for name, column in columns.items()},
        "next_cycle": amount,
        "samples": line[after_sample:],
        "next_sample": len(line),
    }


def summary(run: str, **changes: Any) -> dict[str, Any]:
    """A line of the list of past runs."""
    return {
        "id": run,
        "began_ns": BEGAN_NS,
        "ended_ns": BEGAN_NS + 420 * 10**9,
        "state": "finished",
        "problem": None,
        "layout": "channel-max",
        "folders": 40,
        "channels": 1_000,
        "clients": 40,
        "cycles": 800,
        "efficiency": 0.41,
        "rows_asked": 80_000.0,
        "cliff": CLIFFS["channel-max"],
    } | changes


def record(run: str) -> dict[str, Any]:
    """Body of `GET /api/v1/snapshots/ID`."""
    return {
        "id": run,
        "began_ns": BEGAN_NS,
        "ended_ns": BEGAN_NS + 420 * 10**9,
        "state": "finished",
        "settings": SETTINGS | {"layout": "channel-max"},
        "target": STATUS["target"],
        "command": "triggerlog snapshots run",
        "product": "PostgreSQL",
        "version": "18.1",
        "loading": STATUS["loading"],
        "cliff": CLIFFS["channel-max"],
        "cycles": cycles(800),
        "timeline": samples(400),
        "figures": FIGURES | {"efficiency": 0.41, "cycles": 800, "in_time": 328},
    }


def runs_told(figures: dict[str, Any]) -> dict[str, Any]:
    """Body of `GET /api/v1/snapshots`."""
    past = [summary(run) for run in figures["past_snapshots"]]
    return {"status": figures["snapshots"], "past": past, "settings": SETTINGS}
