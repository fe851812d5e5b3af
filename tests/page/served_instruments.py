"""What the served status tells of a group's instruments: its newest trigger, and who was missing when."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter

from daemon.web.errors import ApiError
from schemas.api.readings import Missing, OneTrigger
from schemas.api.status import Status

CALIBRATION = {"revision": 3, "status": "locked", "by": "trigger", "payloads": []}


def instrument_routes(figures: dict[str, Any], channels: Sequence[str], now: Callable[[], Status]) -> APIRouter:
    """Routes that tell what the states in the figures would have led to."""
    app = APIRouter()

    @app.get("/api/v1/groups/{group}/newest")
    async def newest(group: str, complete: bool = True, calibrated: bool = False) -> OneTrigger:
        size = figures["groups"][group]
        gone = [int(n) for n, letter in figures["states"].get(group, {}).items() if letter in "msn"]
        there = [] if complete and gone else [n for n in range(size) if n not in gone]
        tag = figures["calibrated_by"]
        if calibrated and figures["calibration_fails"]:
            raise ApiError(409, "not calibrated: 'summer' is not there", "name one that is", field="global_tag")
        turn, rise = [1.0 + 0.02 * math.sin(n / 5) for n in there], [1.0 + 0.03 * math.cos(n / 7) for n in there]
        return OneTrigger.model_validate(
            {
                "group": group,
                "run": 1,
                "trigger": now().sequence * 25 if there else None,
                "instruments": [f"{group}_{n:03d}" for n in there],
                "time_ns": [now().time_ns] * len(there),
                "channels": {"top_in": turn, "bot_in": turn, "bot_out": [1.0] * len(there), "top_out": rise}
                # The last instrument has no calibration.
                | ({name: [*map(float, there[:-1]), None] for name in ("x_mm", "y_mm")} if calibrated else {}),
                "units": dict.fromkeys(channels, "V") | ({"x_mm": "mm", "y_mm": "mm"} if calibrated else {}),
                "calibration": CALIBRATION | {"tag": tag, "readings_without": 1} if calibrated else None,
            }
        )

    @app.get("/api/v1/groups/{group}/missing")
    async def missing(group: str, last: int = 1000, instrument: str | None = None) -> Missing:
        size = figures["groups"][group]
        asked = range(size) if instrument is None else [int(instrument.removeprefix(f"{group}_"))]
        letters = {n: figures["states"].get(group, {}).get(str(n), "o") for n in asked}
        counts = {"m": [0, 3] * 30, "s": [0] * 40 + [10] * 20, "n": [10] * 60}
        end_ns = now().time_ns
        return Missing.model_validate(
            {
                "group": group,
                "run": 1,
                "triggers": 600,
                "end_ns": end_ns,
                "stretches": {
                    "trigger": [1 + 10 * place for place in range(60)],
                    "time_ns": [end_ns - (60 - place) * 100_000_000 for place in range(60)],
                    "triggers": [10] * 60,
                },
                "missing": {str(n): counts[letter] for n, letter in letters.items() if letter in counts},
                "more": 0,
                "late": [7 if letter == "l" else 0 for letter in letters.values()],
                "heard_s": [{"n": None, "s": 61.0}.get(letter, 0.1) for letter in letters.values()],
            }
        )

    return app
