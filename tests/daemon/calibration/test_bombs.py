"""Files from elsewhere that become much more than they are: refused with the limit, in bounded memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daemon.calibration import parquet
from daemon.calibration.parquet import TableNotDecoded, TableRefused, read_columns
from schemas.readings import MAX_INSTRUMENTS
from tests.support.calibrations import crashing_parquet

MOST_MIB = 700
"""Python with numpy, pyarrow and pydantic takes 150 MiB of it."""

READ = """
import asyncio, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
from daemon.calibration.payloads import NotCalibrated, payload_files
from daemon.calibration.tables import PayloadTables
from daemon.core.outcome import CommandFailed
from daemon.tools.conditions.files import read_file
from daemon.tools.folders.files import read_block
from tests.daemon.calibration.test_group import GROUP
path = Path(sys.argv[2])
try:
    if sys.argv[1] == "payload":
        asyncio.run(PayloadTables(GROUP, payload_files(str(path.parent), path.parent)).table(path.name, ""))
    elif sys.argv[1] == "conditions":
        read_file(path)
    else:
        read_block(path, None)
    print("read")
except CommandFailed as error:
    print(str(error)[:300])
status = Path("/proc/self/status").read_text()  # ru_maxrss has what the parent had
used = int(status.partition("VmHWM:")[2].split()[0])
print(max(used, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) // 1024)
"""


def read(kind: str, path: Path) -> tuple[str, int]:
    """Read a file in a process of its own; return what it said, and the MiB that it, or one below it, took at most."""
    said = subprocess.run(
        [sys.executable, "-c", READ, kind, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    words, mib = said.stdout.splitlines()
    return words, int(mib)


def dictionary(path: Path) -> None:
    """Few bytes for 30,000 texts of 200 kB."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000, np.int32)), pa.array(["x" * 200_000]))
    pq.write_table(pa.table({"instrument": texts}), path, compression="zstd")


def page(path: Path) -> None:
    """One text of 200 MiB in a page."""
    table = pa.table({"instrument": ["x" * (200 * 2**20)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)


def runs(path: Path) -> None:
    """50 million values in a run length."""
    pq.write_table(pa.table({"gain_top_in": pa.nulls(50_000_000, pa.float64())}), path, compression="zstd")


def nested(path: Path) -> None:
    """One value with 50 million in it."""
    values = pa.ListArray.from_arrays(pa.array([0, 50_000_000], pa.int32()), pa.nulls(50_000_000, pa.float64()))
    pq.write_table(pa.table({"gain_top_in": values}), path, compression="zstd")


def beside(path: Path) -> None:
    """A column that nobody asks for, and that is as large."""
    pq.write_table(pa.table({"instrument": ["a"], "other": ["x" * (200 * 2**20)]}), path, compression="zstd")


def objects(path: Path) -> None:
    path.write_bytes(b'{"kind":"bpm","instruments":[' + b"{}," * 5_000_000 + b"{}]}")


def objects_with_keys(path: Path) -> None:
    path.write_text(json.dumps({"kind": "bpm", "instruments": [{"gain_top_in": -1} for _ in range(300_000)]}))


@pytest.mark.parametrize(
    ("name", "make", "says"),
    [
        ("a.parquet", dictionary, "it takes more than 256 MiB to decode; give at most 33,554,432"),
        ("a.parquet", page, "it takes more than 256 MiB to decode; give at most 33,554,432"),
        ("a.parquet", runs, "it has 50,000,000 rows; give at most 32,767"),
        ("a.parquet", nested, "it holds list<"),
        ("a.parquet", beside, "other: payload 'a.parquet': unknown column"),
        ("a.json", objects, "it has more than 2,000,000 values"),
        ("a.json", objects_with_keys, "instruments[0].instrument: payload 'a.json': missing"),
    ],
)
def test_a_payload_that_becomes_much_more_is_refused(tmp_path: Path, name: str, make: object, says: str) -> None:
    make(tmp_path / name)  # type: ignore[operator]
    said, mib = read("payload", tmp_path / name)
    assert says in said
    assert mib < MOST_MIB


def test_a_file_of_conditions_that_becomes_much_more_is_refused(tmp_path: Path) -> None:
    names = ("type", "url")
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000, np.int32)), pa.array(["x" * 200_000]))
    numbers = pa.array(np.arange(30_000))
    columns = dict.fromkeys(names, texts) | {"major": numbers, "minor": numbers}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", compression="zstd")
    said, mib = read("conditions", tmp_path / "a.parquet")
    assert "it takes more than 2176 MiB to decode; give at most 536,870,912" in said
    assert mib < MOST_MIB + 2048


def test_what_fits_is_read_as_it_is_whatever_the_encoding(tmp_path: Path) -> None:
    names = [f"bpm_{number:05}" for number in range(MAX_INSTRUMENTS)]
    plain = pa.table(
        {"instrument": names, "gain_top_in": np.arange(MAX_INSTRUMENTS) + 0.5, "other": [[1]] * len(names)}
    )
    categories = plain.set_column(0, "instrument", plain["instrument"].dictionary_encode())
    for table in (plain, categories):
        for options in (
            {"compression": "zstd"},
            {"compression": "none", "use_dictionary": False},
            {"compression": "snappy", "data_page_version": "2.0", "row_group_size": 1000},
            {"compression": "gzip", "write_page_index": True, "write_page_checksum": True},
        ):
            pq.write_table(table, tmp_path / "a.parquet", **options)
            content = (tmp_path / "a.parquet").read_bytes()
            read = read_columns(content, ["gain_top_in", "instrument"], most_rows=MAX_INSTRUMENTS, most_bytes=2**24)
            assert read.select(["instrument", "gain_top_in"]) == plain.select(["instrument", "gain_top_in"])
    with pytest.raises(TableRefused, match=r"^\(file\): it has [0-9,]+ bytes when decoded; give at most 99"):
        read_columns(content, ["gain_top_in"], most_rows=MAX_INSTRUMENTS, most_bytes=99_999)


def test_an_array_that_promises_more_than_it_has_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", since=np.zeros(50_000_000, np.int64))
    said, mib = read("folder", tmp_path / "a.npz")
    assert "bytes when unpacked; give at most 268,435,456" in said
    assert mib < MOST_MIB
    np.save(tmp_path / "b.npy", np.zeros(1))
    content = (tmp_path / "b.npy").read_bytes()
    (tmp_path / "b.npy").write_bytes(content.replace(b"(1,), ", b"(999999999,), ").replace(b" " * 8 + b"\n", b"\n"))
    said, mib = read("folder", tmp_path / "b.npy")
    assert "b.npy has other bytes than its shape and dtype say" in said
    assert mib < MOST_MIB


def test_a_file_of_conditions_that_crashes_its_library_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(crashing_parquet())
    said, _ = read("conditions", tmp_path / "a.parquet")
    assert said.startswith(f"{tmp_path / 'a.parquet'}: type: there is no such column; give the columns")


def test_a_process_that_crashes_or_takes_too_long_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = sys.executable

    def refused(work: str) -> TableRefused:
        program = tmp_path / "python"
        program.write_text(f"#!{python}\nimport os, signal, sys, time\n{work}\n")
        program.chmod(0o755)
        monkeypatch.setattr(parquet.sys, "executable", str(program))
        with pytest.raises(TableRefused) as found:
            read_columns(b"PAR1", ["a"], most_rows=1, most_bytes=1)
        return found.value

    found = refused("print('terminate called', file=sys.stderr, flush=True); os.abort()")
    ended = "it is damaged: decoding it was ended by SIGABRT (terminate called)"
    assert (type(found), str(found)) == (TableRefused, f"(file): {ended}; write it again")
    found = refused("os.kill(os.getpid(), signal.SIGXCPU)")
    assert str(found) == "(file): it takes more than 4 s to decode; give a smaller one, or write it again"
    found = refused("sys.exit('no such thing')")
    assert str(found) == "(file): decoding it failed (no such thing); see the log, and report it"
    assert not isinstance(found, TableNotDecoded)
    found = refused("os.kill(os.getpid(), signal.SIGKILL)")
    assert isinstance(found, TableNotDecoded)
    assert str(found).startswith("(file): decoding it was ended by SIGKILL; see whether")
    monkeypatch.setattr(parquet, "DEADLINE_TIMES", 0.05)
    found = refused("time.sleep(600)")
    assert isinstance(found, TableNotDecoded)
    assert str(found).startswith("(file): it is not decoded within 0.2 s; see what keeps this machine busy")
    monkeypatch.setattr(parquet.sys, "executable", str(tmp_path / "none"))
    with pytest.raises(TableNotDecoded, match=r"no process can be started to decode it \(no such file or directory\)"):
        read_columns(b"PAR1", ["a"], most_rows=1, most_bytes=1)
