"""Payloads that are kept: by the checksum of their content, and used only where all that an interval says fits."""

import asyncio
import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from daemon.calibration.payloads import PayloadUnusable, payload_files
from daemon.calibration.tables import PayloadTables
from tests.daemon.calibration.test_group import GROUP, Counting
from tests.support.calibrations import crashing_parquet, payload_of, written


async def test_a_payload_without_a_checksum_is_read_each_time_and_is_what_the_file_is_then(tmp_path: Path) -> None:
    rng, files = np.random.default_rng(1), Counting(tmp_path)
    tables = PayloadTables(GROUP, files)
    first = written(tmp_path, "a.json", payload_of(GROUP, rng))
    before = await tables.table("a.json", "")
    second = written(tmp_path, "a.json", payload_of(GROUP, rng))
    after = await tables.table("a.json", "")
    assert (before.checksum, after.checksum) == (first, second)
    assert (before.table["x0_mm"][:-1] != after.table["x0_mm"][:-1]).all()
    assert files.read_urls == ["a.json"] * 2
    assert await tables.table("gone.json", first.upper()) is before, "the content is known by its checksum"
    with pytest.raises(PayloadUnusable, match=r"^url: there is no file 'gone.json'"):
        await tables.table("gone.json", "")


async def test_a_file_that_was_replaced_is_not_used_under_the_checksum_of_the_one_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    checksum = written(tmp_path, "a.json", payload_of(GROUP, rng))
    written(tmp_path, "a.json", payload_of(GROUP, rng))
    tables = PayloadTables(GROUP, payload_files(str(tmp_path), tmp_path))
    for _ in range(2):
        with pytest.raises(PayloadUnusable, match=r"^checksum: payload 'a.json' has sha256"):
            await tables.table("a.json", checksum)


async def test_a_payload_of_another_size_is_refused_whether_it_is_kept_or_not(tmp_path: Path) -> None:
    checksum = written(tmp_path, "a.json", payload_of(GROUP, np.random.default_rng(1)))
    size = (tmp_path / "a.json").stat().st_size
    tables = PayloadTables(GROUP, payload_files(str(tmp_path), tmp_path))
    for _ in range(2):
        with pytest.raises(PayloadUnusable, match=rf"^size: payload 'a.json' has {size:,} bytes, and not {size - 1:,}"):
            await tables.table("a.json", checksum, size - 1)
        assert (await tables.table("a.json", checksum, size)).size == size
    md5 = hashlib.md5((tmp_path / "a.json").read_bytes(), usedforsecurity=False).hexdigest()
    assert (await tables.table("a.json", md5, size)).checksum == md5


async def test_many_who_ask_for_the_same_payload_read_it_once(tmp_path: Path) -> None:
    checksum = written(tmp_path, "a.json", payload_of(GROUP, np.random.default_rng(1)))
    files = Counting(tmp_path)
    tables = PayloadTables(GROUP, files)
    found = await asyncio.gather(*(tables.table("a.json", checksum) for _ in range(50)))
    assert all(each is found[0] for each in found)
    assert files.read_urls == ["a.json"]


async def test_a_payload_that_crashes_its_library_is_one_error_and_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(await asyncio.to_thread(crashing_parquet))
    good = written(tmp_path, "b.parquet", payload_of(GROUP, np.random.default_rng(1)))
    decoded, run = list[object](), subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *command, **how: decoded.append(command) or run(*command, **how))
    tables = PayloadTables(GROUP, payload_files(str(tmp_path), tmp_path))
    for _ in range(3):
        with pytest.raises(PayloadUnusable, match=r"^\(file\): payload 'a.parquet': it is no Parquet that"):
            await tables.table("a.parquet", "")
        assert (await tables.table("b.parquet", good)).checksum == good
    assert len(decoded) == 2


async def test_what_this_machine_could_not_decode_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checksum = written(tmp_path, "a.parquet", payload_of(GROUP, np.random.default_rng(1)))
    tables = PayloadTables(GROUP, payload_files(str(tmp_path), tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", str(tmp_path / "none"))
        with pytest.raises(PayloadUnusable, match=r"^\(file\): payload 'a.parquet': no process can be started"):
            await tables.table("a.parquet", checksum)
    assert (await tables.table("a.parquet", checksum)).checksum == checksum


async def test_a_payload_is_read_to_its_end_whoever_stops_waiting(tmp_path: Path) -> None:
    checksum = written(tmp_path, "a.json", payload_of(GROUP, np.random.default_rng(1)))
    files = Counting(tmp_path)
    tables = PayloadTables(GROUP, files)
    for _ in range(3):
        waiting = asyncio.create_task(tables.table("a.json", checksum))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert (await tables.table("a.json", checksum)).checksum == checksum
    assert files.read_urls == ["a.json"]
