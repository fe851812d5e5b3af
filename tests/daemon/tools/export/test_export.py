"""daemon.tools.export and `triggerlog export`: what is in a file is what is in the database, reading by reading."""

import asyncio
import csv
import gzip
import io
import json
import signal
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from backends import open_store
from backends.base import AnswerTooLarge
from daemon.core.moments import duration_ns, moment, rfc3339
from daemon.core.outcome import CommandFailed
from daemon.tools.export.command import export
from daemon.tools.export.span import LEAST_NS, Choice, Span, span_of, windows
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.queries import answer_dtype
from schemas.readings import Array, Channel, InstrumentGroup
from tests.support.batches import answers, batch_of, readings_of
from tests.support.memory.store import MemoryStore
from tests.support.processes import running, triggerlog, until

ORDER = ("run", "trigger", "instrument")
START_NS = 1_763_000_000_000_000_000
EVERY_NS = 20_000_000
GROUP = InstrumentGroup(
    name="bpm",
    instruments=(*(f"bpm_{k:03d}" for k in range(1, 7)), 'b,"7'),
    channels=(
        Channel(name="x", unit="mm", dtype="float64"),
        Channel(name="gain", unit="", dtype="int16"),
        Channel(name="turns", unit="count", dtype="uint32"),
        Channel(name="run_", unit="V", dtype="float32"),
    ),
)
CONFIGURATION = """
logger = "control-node-1"
[[groups]]
name = "bpm"
instruments = {names}
channels = [{channels}]
[database]
dsn = "{dsn}"
schema = "{schema}"
layout = "{layout}"
"""


def configuration(folder: Path, dsn: str, schema: str, layout: str) -> Path:
    channels = ", ".join(f'{{ name = "{c.name}", unit = "{c.unit}", dtype = "{c.dtype}" }}' for c in GROUP.channels)
    file = folder / "beam.toml"
    names = json.dumps(GROUP.instruments)
    file.write_text(CONFIGURATION.format(names=names, channels=channels, dsn=dsn, schema=schema, layout=layout))
    return file


def stored(dsn: str, schema: str, layout: str, runs: int = 2, triggers: int = 50, ahead_ns: int = 0) -> Array:
    """Commit runs of triggers, with instruments missing, NaN among the values, and a pause between the runs.

    ahead_ns: so far ahead is the clock of one instrument.
    """

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
            for run in range(1, runs + 1):
                times = START_NS + run * 3_600_000_000_000 + np.arange(triggers) * EVERY_NS
                readings = readings_of(GROUP, np.arange(1, triggers + 1), times, rng)
                readings["x"][::7] = np.nan
                readings["time_ns"][:, 3] += ahead_ns
                present = rng.random(readings.shape) < 0.9
                present[:, 0] = True
                await store.commit(batch_of(GROUP, run, readings, run=run, present=present))
                parts.append((run, readings[present]))
        finally:
            await store.close()
        return answers(GROUP, parts)

    return asyncio.run(commit())


def assert_same(found: Array, expected: Array) -> None:
    """Compare column by column: a NaN is no other NaN in a structured array."""
    for name in expected.dtype.names:
        np.testing.assert_array_equal(found[name], expected[name])


def from_parquet(path: Path) -> Array:
    table = pq.read_table(path)
    assert table.schema.field("x").metadata == {b"units": b"mm"}
    about = json.loads(table.schema.metadata[b"triggerlog"])
    assert (about["logger"], about["group"], about["instruments"]) == ("control-node-1", "bpm", list(GROUP.instruments))
    assert about["channels"][2] == {"name": "turns", "units": "count", "dtype": "uint32"}
    assert str(table.schema.field("time").type) == "timestamp[ns, tz=UTC]"
    assert str(table.schema.field("turns").type) == "uint32"
    assert table["time"].cast("int64").equals(table["time_ns"])
    names = table["instrument"].to_pylist()
    found = np.empty(len(table), answer_dtype(GROUP))
    found["instrument"] = [GROUP.instruments.index(name) for name in names]
    for name in ("run", "trigger", "time_ns", *(channel.name for channel in GROUP.channels)):
        found[name] = table[name].to_numpy()
    return found


def from_hdf5(path: Path) -> Array:
    with h5py.File(path) as file:
        assert (file.attrs["logger"], file.attrs["group"]) == ("control-node-1", "bpm")
        assert [name.decode() for name in file["instruments"]] == list(GROUP.instruments)
        readings = file["readings"]
        assert (readings["x"].attrs["units"], readings["x"].compression) == ("mm", "gzip")
        assert readings["turns"].dtype == np.uint32
        found = np.empty(len(readings["run"]), answer_dtype(GROUP))
        for name in found.dtype.names:
            found[name] = readings[name][:]
    return found


def from_csv(path: Path) -> Array:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    head, *rows = csv.reader(io.StringIO(text))
    since = "time_ns [ns since 1970-01-01T00:00:00Z]"
    assert head == ["run", "trigger", "instrument", "time", since, "x [mm]", "gain", "turns [count]", "run_ [V]"]
    found = np.empty(len(rows), answer_dtype(GROUP))
    for k, (run, trigger, name, when, time_ns, *values) in enumerate(rows):
        assert rfc3339(int(time_ns)) == when
        found[k] = (int(run), int(trigger), GROUP.instruments.index(name), int(time_ns), *map(float, values))
    return found


READ: dict[str, Callable[[Path], Array]] = {
    "parquet": from_parquet,
    "h5": from_hdf5,
    "csv": from_csv,
    "csv.gz": from_csv,
}


@pytest.mark.parametrize(
    ("server", "layout", "ending"),
    [
        ("postgresql_dsn", "rows", "csv.gz"),
        ("postgresql_dsn", "arrays", "h5"),
        ("mariadb_dsn", "arrays", "parquet"),
        ("mongodb_dsn", "rows", "csv"),
    ],
)
def test_a_file_holds_what_the_database_holds(
    request: pytest.FixtureRequest, tmp_path: Path, schema: str, server: str, layout: str, ending: str
) -> None:
    dsn = request.getfixturevalue(server)
    whole = stored(dsn, schema, layout)
    assert np.isnan(whole["x"]).any()
    file = configuration(tmp_path, dsn, schema, layout)
    path = tmp_path / f"bpm.{ending}"
    done = triggerlog("export", str(file), "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert f"{len(whole):,} readings of group bpm" in done.stdout
    assert_same(READ[ending](path), whole)
    assert {each.name for each in tmp_path.iterdir()} == {"beam.toml", path.name}


@pytest.mark.parametrize(
    ("server", "layout"),
    [
        ("postgresql_dsn", "rows"),
        ("postgresql_dsn", "arrays"),
        ("mariadb_dsn", "rows"),
        ("mariadb_dsn", "arrays"),
        ("mongodb_dsn", "rows"),
        ("mongodb_dsn", "arrays"),
    ],
)
def test_a_clock_that_is_hours_ahead_or_behind_leaves_nothing_out(
    request: pytest.FixtureRequest, tmp_path: Path, schema: str, server: str, layout: str
) -> None:
    dsn = request.getfixturevalue(server)
    for k, ahead_ns in enumerate((5 * 3_600 * 10**9, -(3_600 * 10**9))):
        schema_of = f"{schema}_{k}"
        whole = stored(dsn, schema_of, layout, ahead_ns=ahead_ns)
        file = configuration(tmp_path, dsn, schema_of, layout)
        chosen = whole[(whole["run"] == 1) & (whole["trigger"] >= 40) & (whole["trigger"] <= 45)]
        since_ns = START_NS + 2 * 3_600_000_000_000
        since = rfc3339(since_ns)
        # By whose time: the reading's own, or, where it is stored with its trigger, that of the trigger.
        by_trigger = layout == "arrays" or server == "mongodb_dsn"
        late = whole[whole["run"] == 2 if by_trigger else whole["time_ns"] >= since_ns]
        for n, (options, expected) in enumerate(
            [({}, whole), ({"run": 1, "triggers": "40-45"}, chosen), ({"from_": since}, late)]
        ):
            path = tmp_path / f"{k}-{n}.h5"
            exported(file, path, **options)
            found = from_hdf5(path)
            assert_same(np.sort(found, order=ORDER), np.sort(expected, order=ORDER))


@pytest.fixture(scope="module")
def kept(postgresql_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array]:
    """A configuration whose database holds two runs, and what it holds."""
    whole = stored(postgresql_dsn, "test_export", "rows")
    return configuration(tmp_path_factory.mktemp("export"), postgresql_dsn, "test_export", "rows"), whole


def exported(file: Path, output: Path, **options: Any) -> str:
    """Run the command here: a process for each would be expensive."""
    with redirect_stdout(io.StringIO()) as said:
        export(file, output=output, **options)
    return said.getvalue()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"run": 2}, lambda all_: all_["run"] == 2),
        ({"triggers": "10-19"}, lambda all_: (all_["run"] == 2) & (all_["trigger"] >= 10) & (all_["trigger"] < 20)),
        ({"run": 1, "triggers": "50-99"}, lambda all_: (all_["run"] == 1) & (all_["trigger"] == 50)),
        (
            {"from_": rfc3339(START_NS + 3_600_200_000_000), "to": str(START_NS + 3_600_400_000_000)},
            lambda all_: (all_["run"] == 1) & (all_["trigger"] > 10) & (all_["trigger"] <= 20),
        ),
        ({"from_": rfc3339(START_NS + 2 * 3_600_000_000_000)[:-1]}, lambda all_: all_["run"] == 2),
        ({"instruments": "bpm_002, bpm_004"}, lambda all_: np.isin(all_["instrument"], [1, 3])),
    ],
)
def test_a_part_is_exported(
    kept: tuple[Path, Array], tmp_path: Path, options: dict[str, Any], wanted: Callable[[Array], Array]
) -> None:
    file, whole = kept
    expected = whole[wanted(whole)]
    assert 0 < len(expected) < len(whole)
    assert f" {len(expected):,} readings of group bpm" in exported(file, tmp_path / "part.h5", **options)
    assert_same(from_hdf5(tmp_path / "part.h5"), expected)


def test_channels_are_chosen_and_a_file_is_overwritten_only_by_force(kept: tuple[Path, Array], tmp_path: Path) -> None:
    file, whole = kept
    path = tmp_path / "x.parquet"
    path.write_text("precious")
    with pytest.raises(CommandFailed, match="exists; give another name, or --force"):
        exported(file, path, channels="turns,x")
    assert path.read_text() == "precious"
    exported(file, path, channels="turns,x", force=True)
    table = pq.read_table(path)
    assert table.column_names == ["run", "trigger", "instrument", "time", "time_ns", "x", "turns"]
    np.testing.assert_array_equal(table["turns"].to_numpy(), whole["turns"])


@pytest.mark.parametrize(
    ("output", "options", "said"),
    [
        ("x.xlsx", {}, "--output: x.xlsx does not say the format; end it with `.parquet`"),
        ("none/x.csv", {}, "--output: there is no folder"),
        ("x.csv", {"group": "bpn"}, "has no group 'bpn'; did you mean `bpm`?"),
        ("x.csv", {"instruments": "bpm_01"}, "--instruments: there is no 'bpm_01'; did you mean `bpm_001`?"),
        ("x.csv", {"channels": ","}, "--channels: name at least one"),
        ("x.csv", {"from_": "yesterday"}, "--from: 'yesterday' is not a time; write it like 2026-11-21T18:00"),
        ("x.csv", {"last": "5 years"}, "--last: '5 years' is not a duration; write it like 90s, 30m"),
        ("x.csv", {"last": "5m", "to": "2026-11-21"}, "--last: give it, or --from and --to, not both"),
        ("x.csv", {"from_": "2026-11-22", "to": "2026-11-21"}, "--to: 2026-11-21T00:00:00Z is not after --from"),
        ("x.csv", {"last": "99999999w"}, "--last: '99999999w' is longer than the 292 years of 64 bits"),
        ("x.csv", {"from_": "9" * 20}, f"--from: {'9' * 20} ns are beyond 2262-04-11T23:47:16.854775807Z"),
        ("x.csv", {"triggers": "9-3"}, "--triggers: '9-3' is not a range"),
        (
            "x.csv",
            {"triggers": "9-" + "9" * 20},
            f"--triggers: {'9' * 20} is no trigger number: these are below 4611686018427387904",
        ),
        ("x.csv", {"triggers": "60-70"}, "--triggers: run 2 of group bpm has none from 60 to 70; no file was written"),
        ("x.csv", {"run": 9}, "nothing is stored of run 9 of group bpm"),
        ("x.csv", {"last": "1s", "run": 1}, "the database has no such readings of group bpm from"),
    ],
)
def test_what_cannot_be_exported_is_said_in_a_line(
    kept: tuple[Path, Array], tmp_path: Path, output: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(CommandFailed) as told_of:
        exported(kept[0], tmp_path / output, **options)
    assert said in str(told_of.value)
    assert "\n" not in str(told_of.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_export_that_is_stopped_leaves_no_file(
    postgresql_dsn: str, tmp_path: Path, schema: str, number: signal.Signals
) -> None:
    stored(postgresql_dsn, schema, "rows", runs=1, triggers=2000)
    file = configuration(tmp_path, postgresql_dsn, schema, "rows")
    # An age before there was anything takes a while, a question each stretch of time.
    path = tmp_path / "x.parquet"
    with running("export", str(file), "--from", "0001-01-01", "--to", "2200-01-01", "-o", str(path)) as process:
        until(lambda: path.with_name("x.parquet.partial").exists() or process.process.poll() is not None, "it writes")
        assert process.end(number) != 0, process.said
    assert "Traceback" not in process.said
    assert f"stopped by {number.name}; no file was written" in process.said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["beam.toml"]


class _Counting(MemoryStore):
    """Counts what is asked, and the most that an answer had."""

    asked, refused, most = 0, 0, 0

    async def ask(self, query: Any) -> Array:
        self.asked += 1
        try:
            answer = await super().ask(query)
        except AnswerTooLarge:
            self.refused += 1
            raise
        self.most = max(self.most, len(answer))
        return answer


async def test_stretches_follow_what_is_found_and_no_answer_is_large() -> None:
    """Nothing for a year, then a minute of many, then a day of few: all of it comes, once, in small pieces."""
    store = _Counting({"bpm": GROUP})
    rng = np.random.default_rng(1)
    year_ns = 365 * 86_400 * 10**9
    times = (
        START_NS + year_ns + np.concatenate([np.arange(1500) * 40_000_000, 60 * 10**9 + np.arange(360) * 240 * 10**9])
    )
    readings = readings_of(GROUP, np.arange(len(times)), times, rng)
    await store.commit(batch_of(GROUP, 1, readings))
    aim_bytes = 125 * GROUP.size * answer_dtype(GROUP).itemsize
    span = Span(start_ns=START_NS, end_ns=START_NS + 2 * year_ns)
    found = [stretch async for stretch in windows(store, GROUP, span, aim_bytes=aim_bytes)]
    assert [stretch.start_ns for stretch in found[1:]] == [stretch.end_ns for stretch in found[:-1]]
    assert (found[0].start_ns, found[-1].end_ns) == (span.start_ns, span.end_ns)
    whole = np.concatenate([stretch.readings for stretch in found])
    np.testing.assert_array_equal(
        np.sort(whole, order=("trigger", "instrument")), answers(GROUP, [(1, readings.ravel())])
    )
    assert store.most <= 250 * GROUP.size
    assert store.refused > 0
    assert store.asked < 100


async def test_a_stretch_of_a_second_is_taken_whatever_is_in_it() -> None:
    store = _Counting({"bpm": GROUP})
    readings = readings_of(GROUP, np.arange(300), START_NS + np.arange(300) * 10_000_000, np.random.default_rng(1))
    await store.commit(batch_of(GROUP, 1, readings))
    span = Span(start_ns=START_NS, end_ns=START_NS + 3 * LEAST_NS + 10_000)
    found = [stretch async for stretch in windows(store, GROUP, span, aim_bytes=1000)]
    assert sum(len(stretch.readings) for stretch in found) == readings.size


async def test_nothing_stored_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="nothing is stored of group bpm; no file was written"):
        await span_of(MemoryStore({"bpm": GROUP}), Choice(group=GROUP, channels=GROUP.channels))


def test_moments_are_utc_where_nothing_else_is_said() -> None:
    assert moment("2026-11-21T18:00", "--from") == moment("2026-11-21T19:00:00+01:00", "--from")
    assert moment("1763000000000000001", "--from") == START_NS + 1
    assert rfc3339(moment("2026-11-21T18:00:00.25Z", "--from")) == "2026-11-21T18:00:00.250000000Z"
    assert moment(rfc3339(START_NS + 1), "--from") == START_NS + 1
    assert moment("2026-11-21T19:00:00.123456789+01:00", "--from") % 10**9 == 123456789
    assert rfc3339(moment("2026-11-21", "--from")) == "2026-11-21T00:00:00Z"
    assert duration_ns("1.5h", "--last") == 5_400_000_000_000
