"""Positions of readings by the intervals of a tag, against a computation reading by reading."""

import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.calibration.current import GroupCalibration
from daemon.calibration.payloads import PayloadFiles, PayloadUnusable, payload_files
from daemon.calibration.tables import PayloadTables
from schemas.conditions.calibration import BUTTONS, By
from schemas.conditions.intervals import END, GlobalTag, Intervals, Key, TagStatus
from schemas.queries import answer_dtype
from schemas.readings import MAX_INSTRUMENTS, Array, Channel, InstrumentGroup
from tests.support.calibrations import intervals_of, payload_of, slow_position, written

GROUP = InstrumentGroup(
    name="bpm",
    instruments=("bpm_000", "bpm_001", "bpm_002"),
    channels=tuple(Channel(name=button, unit="count", dtype="int32") for button in BUTTONS),
)
TAG = GlobalTag(
    id=1, name="t", author="", status=TagStatus.LOCKED, revision=7, created_ns=0, updated_ns=0, lists=1, intervals=2
)


def readings_at(keys: list[tuple[int, int]], rng: np.random.Generator) -> Array:
    readings = np.zeros((len(keys), GROUP.size), answer_dtype(GROUP))
    readings["run"], readings["trigger"] = np.array(keys).reshape(-1, 2).T[:, :, None]
    readings["time_ns"] = readings["trigger"] * 1000 + readings["run"]
    readings["instrument"] = np.arange(GROUP.size)
    for button in BUTTONS:
        readings[button] = rng.integers(-1000, 30_000, readings.shape)
    return readings.ravel()


def calibration(folder: Path, intervals: Intervals, by: By = By.TRIGGER) -> GroupCalibration:
    return calibrating(intervals, payload_files(str(folder), folder), by=by)


def calibrating(
    intervals: Intervals, files: PayloadFiles, *, by: By = By.TRIGGER, cache_bytes: int = 10**6
) -> GroupCalibration:
    return GroupCalibration(GROUP, tag=TAG, by=by, intervals=intervals, tables=PayloadTables(GROUP, files, cache_bytes))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=40).map(sorted), st.sampled_from(By))
@settings(deadline=None, max_examples=30)
def test_each_reading_has_the_calibration_of_its_moment(
    tmp_path_factory: pytest.TempPathFactory, keys: list[tuple[int, int]], by: By
) -> None:
    folder, rng = tmp_path_factory.mktemp("payloads"), np.random.default_rng(3)
    payloads = {url: payload_of(GROUP, rng) for url in ("a.json", "b.parquet", "c.json")}
    checksums = {url: written(folder, url, rows) for url, rows in payloads.items()}
    spans = {
        By.TRIGGER: [(Key(0, 5), Key(1, 9)), (Key(1, 9), Key(2, 0)), (Key(2, 20), END)],
        By.TIME: [(Key(0, 1000), Key(0, 7001)), (Key(0, 7001), Key(0, 9002)), (Key(0, 20_000), END)],
    }[by]
    rows = [(*span, url, checksums[url]) for span, url in zip(spans, payloads, strict=True)]
    readings, used = readings_at(keys, rng), calibration(folder, intervals_of(rows), by)
    x, y = asyncio.run(used.positions(readings))
    count = Counter[str]()
    for k, reading in enumerate(readings):
        key = Key(0, int(reading["time_ns"])) if by is By.TIME else Key(int(reading["run"]), int(reading["trigger"]))
        url = next((url for start, end, url, _ in rows if start <= key < end), None)
        name = GROUP.instruments[reading["instrument"]]
        mine = next((row for row in payloads.get(url or "", []) if row["instrument"] == name), None)
        slow = (np.nan, np.nan) if mine is None else slow_position([reading[button] for button in BUTTONS], mine)
        np.testing.assert_allclose((x[k], y[k]), slow, rtol=1e-9, atol=1e-9)
        count["without"] += mine is None
        count[url or "none"] += 1
    assert used.without == count["without"]
    assert [each.url for each in used.used] == [url for url in payloads if count[url]]
    assert all(each.is_verified and each.checksum == checksums[each.url] for each in used.used)


class Counting:
    def __init__(self, folder: Path) -> None:
        self.read_urls: list[str] = []
        self._files = payload_files(str(folder), folder)

    async def read(self, url: str) -> bytes:
        self.read_urls.append(url)
        return await self._files.read(url)


async def test_a_payload_is_read_once_while_the_cache_has_room(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    urls = ["a.json", "b.json", "c.json"]
    checksums = [written(tmp_path, url, payload_of(GROUP, rng)) for url in urls]
    spans = [(Key(1, 10 * k), Key(1, 10 * k + 10), url, checksums[k]) for k, url in enumerate(urls)]
    spans.append((Key(1, 30), END, "a.json", ""))  # it has no checksum: the sha256 that was found is reported
    readings = readings_at([(1, trigger) for trigger in range(40)], rng)
    for cache_bytes, reads in ((10**6, 4), (1, 7)):
        files = Counting(tmp_path)
        used = calibrating(intervals_of(spans), files, cache_bytes=cache_bytes)
        first = await used.positions(readings)
        np.testing.assert_array_equal(first, await used.positions(readings))
        assert len(files.read_urls) == reads
        assert [(each.url, each.is_verified) for each in used.used] == [*((u, True) for u in urls), ("a.json", False)]
        assert used.used[-1].checksum == checksums[0]
        assert (used.used[-1].start, used.used[-1].end) == (Key(1, 30), END)


async def test_nothing_is_used_of_a_payload_that_is_wrong(tmp_path: Path) -> None:
    readings = readings_at([(1, 1)], np.random.default_rng(3))
    checksum = written(tmp_path, "a.json", payload_of(GROUP, np.random.default_rng(3)))
    other = written(tmp_path, "b.json", payload_of(GROUP, np.random.default_rng(4)))
    wrong = calibration(tmp_path, intervals_of([(Key(1, 0), END, "a.json", other)]))
    with pytest.raises(PayloadUnusable, match=f"^checksum: payload 'a.json' has sha256 {checksum}"):
        await wrong.positions(readings)
    assert not wrong.used
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "d.json").write_bytes(b'{"kind": "bpm", "instruments": [{"instrument": "bpm_000", "gain_top_in": -1}]}')
    pq.write_table(pa.table({"instrument": ["x"] * (MAX_INSTRUMENTS + 1)}), tmp_path / "e.parquet")
    for url, says in (
        ("e.parquet", r"^\(file\): payload 'e.parquet': it has 32,768 rows; give at most 32,767"),
        ("c.parquet", r"^\(file\): payload 'c.parquet': it is no Parquet that can be read"),
        ("d.json", r"^instruments\[0\].gain_top_in: payload 'd.json': -1 is out of range; use a number above 0"),
    ):
        with pytest.raises(PayloadUnusable, match=says):
            await calibration(tmp_path, intervals_of([(Key(1, 0), END, url, "")])).positions(readings)
