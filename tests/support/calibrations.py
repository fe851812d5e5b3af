"""Positions computed one by one, and payloads of calibrations."""

import hashlib
import io
import json
import math
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.conditions.calibration import BUTTONS
from schemas.conditions.intervals import KEY_DTYPE, Intervals, Key
from schemas.readings import InstrumentGroup


def slow_position(buttons: Sequence[float], calibration: Mapping[str, float]) -> tuple[float, float]:
    """x and y in mm of top_in, bot_in, bot_out, top_out of one reading, written from the definition."""
    names = ("top_in", "bot_in", "bot_out", "top_out")
    value = {name: float(raw) * calibration[f"gain_{name}"] for name, raw in zip(names, buttons, strict=True)}
    inner, outer = value["top_in"] + value["bot_in"], value["top_out"] + value["bot_out"]
    top, bottom = value["top_in"] + value["top_out"], value["bot_in"] + value["bot_out"]
    total = value["top_in"] + value["bot_in"] + value["bot_out"] + value["top_out"]
    if total == 0:
        return math.nan, math.nan
    at = complex(
        calibration["k_x_mm"] * (inner - outer) / total - calibration["x0_mm"],
        calibration["k_y_mm"] * (top - bottom) / total - calibration["y0_mm"],
    )
    turned = at * complex(math.cos(calibration["rotation_rad"]), math.sin(calibration["rotation_rad"]))
    return turned.real, turned.imag


def intervals_of(spans: Sequence[tuple[Key, Key, str, str]]) -> Intervals:
    """Intervals of one list: start, end, URL and checksum of each."""
    count = len(spans)
    return Intervals(
        ids=np.arange(1, count + 1),
        starts=np.array([tuple(start) for start, *_ in spans], KEY_DTYPE),
        ends=np.array([tuple(end) for _, end, *_ in spans], KEY_DTYPE),
        urls=np.array([url for *_, url, _ in spans], object),
        checksums=np.array([checksum for *_, checksum in spans], object),
        sizes=np.full(count, -1),
        inserted_ns=np.zeros(count, np.int64),
    )


def payload_of(group: InstrumentGroup, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Rows of a payload with a random calibration of each instrument of a group but the last one."""
    return [
        {
            "instrument": name,
            **{f"gain_{button}": float(rng.uniform(0.8, 1.2)) for button in BUTTONS},
            "x0_mm": float(rng.normal()),
            "y0_mm": float(rng.normal()),
            "rotation_rad": float(rng.normal(0, 0.1)),
            "k_x_mm": float(rng.uniform(15, 25)),
            "k_y_mm": float(rng.uniform(8, 12)),
        }
        for name in group.instruments[:-1]
    ]


def written(folder: Path, url: str, rows: list[dict[str, Any]]) -> str:
    """Write a payload below a folder, as Parquet or JSON by its ending; return its sha256."""
    path = folder / url
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(json.dumps({"kind": "bpm", "instruments": rows}))
    return hashlib.sha256(path.read_bytes()).hexdigest()


CRASHES = """
import resource, sys
import pyarrow as pa, pyarrow.parquet as pq
from tests.support.calibrations import damaged
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for seed in range(int(sys.argv[1])):
    print(seed, flush=True)
    try:
        about = pq.ParquetFile(pa.BufferReader(damaged(seed))).metadata
        [about.row_group(0).column(place) for place in range(about.num_columns)]
    except (pa.ArrowException, OSError, UnicodeDecodeError, IndexError):
        pass
"""
SEEDS = 50_000


def damaged(seed: int) -> bytes:
    """A payload in Parquet with a wrong byte."""
    content, rng = bytearray(_whole()), random.Random(seed)
    content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


@cache
def _whole() -> bytes:
    names = ["bpm_00", "bpm_01", "bpm_02"]
    columns = {"instrument": names, **{f"gain_{button}": [1.0, 1.5, 2.0] for button in BUTTONS}}
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@cache
def crashing_parquet() -> bytes:
    """A damaged payload that ends a process which lets pyarrow say what is in it."""
    read = subprocess.run([sys.executable, "-c", CRASHES, str(SEEDS)], capture_output=True, text=True, check=False)
    assert read.returncode < 0, f"none of {SEEDS} damaged files ends a process: look for another damage"
    return damaged(int(read.stdout.split()[-1]))
