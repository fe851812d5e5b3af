"""`triggerlog export --calibrated`: positions by two tags from a real database, against a computation one by one."""

import asyncio
import csv
import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from backends import open_conditions_store, open_store
from schemas.batch import Layout
from schemas.conditions.calibration import BUTTONS
from schemas.conditions.intervals import END, Key, TagStatus
from schemas.config import DatabaseConfig
from schemas.readings import Array, Channel, InstrumentGroup
from tests.support.batches import answers, batch_of, readings_of
from tests.support.calibrations import intervals_of, payload_of, slow_position, written
from tests.support.processes import triggerlog

START_NS = 1_763_000_000_000_000_000
EVERY_NS = 20_000_000
TRIGGERS = 40
GROUP = InstrumentGroup(
    name="bpm",
    instruments=tuple(f"bpm_{k:03d}" for k in range(5)),
    channels=tuple(Channel(name=button, unit="count", dtype="int32") for button in BUTTONS),
)
CONFIGURATION = """
logger = "control-node-1"
[[groups]]
name = "bpm"
count = 5
channels = [{channels}]
[[groups]]
name = "toroid"
count = 2
channels = [{{ name = "charge", dtype = "float64" }}]
[database]
dsn = "{dsn}"
schema = "{schema}"
layout = "{layout}"
[conditions]
schema = "{schema}_conditions"
payloads = "payloads"
"""
pytestmark = pytest.mark.slow
Payloads = dict[str, list[dict[str, Any]]]
TAGS: dict[str, tuple[tuple[Key, Key, str], ...]] = {
    # of (run, trigger): a border within run 1, and nothing from (2, 30) on
    "spring": ((Key(0, 0), Key(1, 15), "bpm/a.json"), (Key(1, 15), Key(2, 30), "bpm/b.parquet")),
    "summer": ((Key(1, 0), Key(2, 10), "bpm/c.json"), (Key(2, 10), END, "bpm/d.json")),
    # of (0, time)
    "by_time": (
        (Key(0, START_NS), Key(0, START_NS + 17 * EVERY_NS), "bpm/a.json"),
        (Key(0, START_NS + 17 * EVERY_NS), END, "bpm/c.json"),
    ),
}


@pytest.fixture
def payloads(tmp_path: Path) -> Payloads:
    rng = np.random.default_rng(11)
    found = {f"bpm/{name}": payload_of(GROUP, rng) for name in ("a.json", "b.parquet", "c.json", "d.json")}
    for url, rows in found.items():
        written(tmp_path / "payloads", url, rows)
    return found


def stored(dsn: str, schema: str, layout: str) -> Array:
    """Two runs of triggers, with instruments missing, and sums that are 0."""

    async def commit() -> Array:
        store = open_store(
            DatabaseConfig(dsn=dsn, schema=schema),
            logger="control-node-1",
            groups={"bpm": GROUP},
            layouts={"bpm": Layout(layout)},
            state_dir=Path("/nonexistent"),
        )
        rng, parts = np.random.default_rng(5), []
        try:
            await store.open()
            for run in (1, 2):
                times = START_NS + (run - 1) * 3_600_000_000_000 + np.arange(TRIGGERS) * EVERY_NS
                readings = readings_of(GROUP, np.arange(TRIGGERS), times, rng, jitter_ns=1)
                for button in BUTTONS:
                    readings[button] = rng.integers(0, 30_000, readings.shape)
                    readings[button][::9, 1] = 0
                present = rng.random(readings.shape) < 0.9
                present[:, 0] = True
                await store.commit(batch_of(GROUP, run, readings, run=run, present=present))
                parts.append((run, readings[present]))
        finally:
            await store.close()
        return answers(GROUP, parts)

    return asyncio.run(commit())


def tagged(dsn: str, schema: str, folder: Path, checksums: dict[str, str] | None = None) -> None:
    """Store the tags, each with a list of type bpm, and lock them."""

    async def keep() -> None:
        store = open_conditions_store(
            DatabaseConfig(dsn=dsn), schema=f"{schema}_conditions", state_dir=Path("/nonexistent")
        )
        try:
            await store.create()
            await store.add_type("bpm")
            await store.add_tag("empty", TagStatus.UNLOCKED)
            for tag, spans in TAGS.items():
                await store.add_tag(tag, TagStatus.UNLOCKED)
                name = (await store.attach_list(tag, (await store.add_list("bpm")).name)).name
                rows = [(*span, (checksums or {}).get(span[2]) or sha256(folder / span[2])) for span in spans]
                await store.insert({name: intervals_of(rows)})
                await store.set_status(tag, TagStatus.LOCKED)
        finally:
            await store.close()

    asyncio.run(keep())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def file(tmp_path: Path, postgresql_dsn: str, schema: str, request: pytest.FixtureRequest) -> Path:
    channels = ", ".join(f'{{ name = "{c.name}", unit = "{c.unit}", dtype = "{c.dtype}" }}' for c in GROUP.channels)
    path = tmp_path / "beam.toml"
    layout = getattr(request, "param", "rows")
    path.write_text(CONFIGURATION.format(channels=channels, dsn=postgresql_dsn, schema=schema, layout=layout))
    return path


def exported(file: Path, name: str, *options: str) -> Path:
    path = file.parent / name
    done = triggerlog("export", str(file), "--group", "bpm", "-o", str(path), *options)
    assert done.returncode == 0, done.stderr
    return path


def refused(file: Path, *options: str, group: str = "bpm") -> str:
    done = triggerlog("export", str(file), "--group", group, "-o", str(file.parent / "none.parquet"), *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert not (file.parent / "none.parquet").exists()
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    return lines[0].removeprefix("triggerlog: ")


def slow(readings: Array, spans: Sequence[tuple[Key, Key, str]], payloads: Payloads, *, by_time: bool) -> Array:
    """x and y of each reading, one by one."""
    found = np.full((len(readings), 2), np.nan)
    for k, reading in enumerate(readings):
        key = Key(0, int(reading["time_ns"])) if by_time else Key(int(reading["run"]), int(reading["trigger"]))
        url = next((url for start, end, url in spans if start <= key < end), None)
        name = GROUP.instruments[reading["instrument"]]
        for row in payloads.get(url or "", []):
            if row["instrument"] == name:
                found[k] = slow_position([reading[button] for button in BUTTONS], row)
    return found


def read_parquet(path: Path) -> tuple[Array, dict[str, Array], dict[str, Any]]:
    table = pq.read_table(path)
    assert table.schema.field("x_mm").metadata == {b"units": b"mm"}
    about = json.loads(table.schema.metadata[b"triggerlog"])
    assert [each["name"] for each in about["channels"]] == [*BUTTONS, "x_mm", "y_mm"]
    columns = {name: table[name].to_numpy() for name in BUTTONS}
    xy = np.stack([table["x_mm"].to_numpy(), table["y_mm"].to_numpy()], axis=1)
    return xy, columns, json.loads(pq.read_metadata(path).metadata[b"calibration"])


def in_order_of_export(readings: Array) -> Array:
    """By run, trigger and instrument, as they are stored: windows follow time, and so do the runs."""
    return np.sort(readings, order=("run", "trigger", "instrument"))


@pytest.mark.parametrize("file", ["rows", "arrays"], indirect=True)
def test_the_same_export_by_two_tags_has_the_positions_of_each(
    file: Path, postgresql_dsn: str, schema: str, payloads: Payloads
) -> None:
    layout = "arrays" if 'layout = "arrays"' in file.read_text() else "rows"
    whole = in_order_of_export(stored(postgresql_dsn, schema, layout))
    tagged(postgresql_dsn, schema, file.parent / "payloads")
    found = {}
    for tag, spans in TAGS.items():
        by = ("--by", "time") if tag == "by_time" else ()
        xy, columns, calibration = read_parquet(exported(file, f"{tag}.parquet", "--calibrated", tag, *by))
        expected = slow(whole, spans, payloads, by_time=tag == "by_time")
        np.testing.assert_allclose(xy, expected, rtol=1e-9, atol=1e-9)
        assert 0.5 * len(xy) < np.isfinite(xy[:, 0]).sum() < len(xy)
        for button in BUTTONS:
            np.testing.assert_array_equal(columns[button], whole[button])
        assert (calibration["tag"], calibration["status"]) == (tag, "locked")
        assert calibration["by"] == (by[1] if by else "trigger")
        assert calibration["payloads"] == [
            {
                "url": url,
                "checksum": sha256(file.parent / "payloads" / url),
                "is_verified": True,
                "start": list(start),
                "end": None if end == END else list(end),
            }
            for start, end, url in spans
        ]
        without = np.isnan(expected[:, 0]) & (sum(whole[button].astype(int) for button in BUTTONS) != 0)
        assert calibration["readings_without"] >= without.sum() > 0
        found[tag] = xy
    assert not np.allclose(found["spring"], found["summer"], equal_nan=True)


def test_a_moment_of_the_past_has_the_calibration_of_that_moment(
    file: Path, postgresql_dsn: str, schema: str, payloads: Payloads
) -> None:
    whole = in_order_of_export(stored(postgresql_dsn, schema, "rows"))
    tagged(postgresql_dsn, schema, file.parent / "payloads")
    for triggers, url in (("14", "bpm/a.json"), ("15", "bpm/b.parquet")):
        path = exported(file, f"{triggers}.parquet", "--run", "1", "--triggers", triggers, "--calibrated", "spring")
        xy, _, calibration = read_parquet(path)
        chosen = whole[(whole["run"] == 1) & (whole["trigger"] == int(triggers))]
        np.testing.assert_allclose(xy, slow(chosen, TAGS["spring"], payloads, by_time=False), rtol=1e-9, atol=1e-9)
        assert [each["url"] for each in calibration["payloads"]] == [url]


def test_every_format_has_the_positions_and_where_they_come_from(
    file: Path, postgresql_dsn: str, schema: str, payloads: Payloads
) -> None:
    stored(postgresql_dsn, schema, "rows")
    tagged(postgresql_dsn, schema, file.parent / "payloads")
    xy, _, calibration = read_parquet(exported(file, "x.parquet", "--calibrated", "summer"))
    with h5py.File(exported(file, "x.h5", "--calibrated", "summer")) as found:
        np.testing.assert_array_equal(found["readings/x_mm"], xy[:, 0])
        assert found["readings/y_mm"].attrs["units"] == "mm"
        about = found["calibration"]
        assert {name: about.attrs[name] for name in about.attrs} == {
            name: value for name, value in calibration.items() if name != "payloads"
        }
        for name in ("url", "checksum"):
            assert list(about[name].asstr()[:]) == [each[name] for each in calibration["payloads"]]
        assert about["start"][:].tolist() == [each["start"] for each in calibration["payloads"]]
        assert about["end"][:].tolist() == [each["end"] or list(END) for each in calibration["payloads"]]
        assert about["is_verified"][:].all()
    for name in ("x.csv", "y.csv.gz"):
        path = exported(file, name, "--calibrated", "summer", "--channels", "top_in")
        text = gzip.decompress(path.read_bytes()).decode() if name.endswith("gz") else path.read_text()
        head, *rows = csv.reader(text.splitlines())
        assert head[-3:] == ["top_in [count]", "x_mm [mm]", "y_mm [mm]"]
        np.testing.assert_array_equal(np.array([row[-2:] for row in rows], float), xy)
        assert json.loads((file.parent / f"{name[0]}.calibration.json").read_text()) == calibration


def test_what_cannot_be_calibrated_is_one_line_and_no_file(
    file: Path, postgresql_dsn: str, schema: str, payloads: Payloads
) -> None:
    stored(postgresql_dsn, schema, "rows")
    before = refused(file, "--calibrated", "spring")
    tagged(postgresql_dsn, schema, file.parent / "payloads", {"bpm/b.parquet": "ab" * 32})
    assert before.startswith(f"conditions.schema: {schema}_conditions cannot be read (")
    assert before.endswith("); name the one that a server of conditions has made")
    for options, says in (
        (("--calibrated", "winter"), "--calibrated: "),
        (("--calibrated", "empty"), "--calibrated: 'empty' has no list of type 'bpm'; attach one to it"),
        (("--calibrated", "spring"), "checksum: payload 'bpm/b.parquet' has sha256 "),
        (("--by", "time"), "--by: it says what the intervals of a tag are of; give --calibrated TAG, too"),
    ):
        assert refused(file, *options).startswith(says)
    says = refused(file, "--calibrated", "summer", group="toroid")
    assert says.startswith(
        "--calibrated: group toroid gives no four buttons; export a group with the channels `top_in`"
    )
    file.write_text(file.read_text().replace('payloads = "payloads"', ""))
    says = "conditions.payloads: not given; name the folder or address that payloads are below"
    assert refused(file, "--calibrated", "summer") == says
