"""`triggerlog export` of what was reduced: figures of all its readings, apart from the readings that are there."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import h5py
import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from backends import open_store
from daemon.tools.export import command
from daemon.tools.export.exporting import export
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.decimation import FIGURES, Bucket, Every
from schemas.marks import Mark
from schemas.readings import Array
from tests.backends.test_store_retention import DAY_NS, noon, period_of
from tests.daemon.tools.export.test_export import GROUP, READ, assert_same, configuration, stored
from tests.support.processes import triggerlog
from tests.support.reduced import computed

RUNS = 26
"""One an hour: the last ones are of the day after."""
BUCKET = Bucket(2_000_000_000)
HOUR_NS = 3_600_000_000_000
START_NS = noon(3)


def reduce(dsn: str, schema: str, layout: str, mark_ns: int) -> None:
    """Reduce the first day, but for a second around a mark."""
    asyncio.run(reducing(dsn, schema, layout, mark_ns))


async def reducing(dsn: str, schema: str, layout: str, mark_ns: int, how: Bucket | Every = BUCKET) -> None:
    async def done(_: float) -> None:
        pass

    store: Any = open_store(
        DatabaseConfig(dsn=dsn, schema=schema),
        logger="control-node-1",
        groups={"bpm": GROUP},
        layouts={"bpm": Layout(layout)},
        state_dir=Path("/nonexistent"),
    )
    try:
        await store.open()
        await store.keep_mark(Mark(id=uuid4(), time_ns=mark_ns, text="it trips"))
        period = await period_of(store, GROUP, START_NS + HOUR_NS)
        await store.decimate(period, how, window_ns=10**9, at_ns=7, pace=done, patience_s=9)
    finally:
        await store.close()


def of_table(table: Any, units: str) -> dict[str, Any]:
    found = {name.removesuffix(units): table[name].to_numpy() for name in table.column_names}
    return {name.split(" ")[0]: values for name, values in found.items()}


def from_parquet(path: Path) -> dict[str, Any]:
    table = pq.read_table(path.with_name("bpm.reduced.parquet"))
    about = json.loads(table.schema.metadata[b"triggerlog"])
    assert about["content"] == "figures of readings that were reduced"
    assert [*about["decimated"][0]] == ["from_ns", "to_ns"]
    assert table.schema.field("x_m2").metadata == {b"units": b"(mm)^2"}
    assert str(table.schema.field("turns_greatest").type) == "uint32"
    return of_table(table, "")


def from_csv(path: Path) -> dict[str, Any]:
    return of_table(pacsv.read_csv(path.with_name("bpm.reduced.csv")), "")


def from_hdf5(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        assert file["reduced/x_mean"].attrs["units"] == "mm"
        found = {name: values[:] for name, values in file["reduced"].items()}
        assert found.pop("stretch_to_ns")[0] - found.pop("stretch_from_ns")[0] <= DAY_NS
        return found | {"instrument": np.array(GROUP.instruments)[found["instrument"]]}


FIGURES_OF: dict[str, Callable[[Path], dict[str, Any]]] = {"parquet": from_parquet, "csv": from_csv, "h5": from_hdf5}


def see_figures(found: dict[str, Any], readings: Array) -> None:
    wanted = computed(readings, BUCKET.ns, GROUP)
    keys = zip(found["time_ns"].tolist(), found["instrument"].tolist(), strict=True)
    assert [(step, GROUP.instruments.index(name)) for step, name in keys] == list(wanted)
    assert found["readings"].tolist() == [count for count, _ in wanted.values()]
    assert set(found["step_ns"].tolist()) == {BUCKET.ns}
    for channel in GROUP.channels:
        here = np.array([found[f"{channel.name}_{name}"] for name in FIGURES], np.float64)
        there = np.array([channels[channel.name] for _, channels in wanted.values()])
        np.testing.assert_allclose(here.T, there, rtol=1e-4, atol=1e-9, err_msg=channel.name)


@pytest.mark.parametrize(
    ("server", "layout", "ending"),
    [("postgresql_dsn", "rows", "parquet"), ("postgresql_dsn", "arrays", "csv"), ("mariadb_dsn", "rows", "h5")],
)
def test_figures_are_apart_from_readings_and_of_all_that_was_reduced(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    schema: str,
    server: str,
    layout: str,
    ending: str,
) -> None:
    monkeypatch.setattr("tests.daemon.tools.export.test_export.START_NS", START_NS)
    dsn = request.getfixturevalue(server)
    whole = stored(dsn, schema, layout, runs=RUNS)
    mark_ns = START_NS + 3 * HOUR_NS
    reduce(dsn, schema, layout, mark_ns)
    file, path = configuration(tmp_path, dsn, schema, layout), tmp_path / f"bpm.{ending}"
    said = triggerlog("export", str(file), "-o", str(path))
    assert said.returncode == 0, said.stderr
    ends_ns = START_NS // DAY_NS * DAY_NS + DAY_NS
    is_reduced = whole["time_ns"] < ends_ns
    assert 0 < is_reduced.sum() < len(whole)
    is_raw = ~is_reduced | (np.abs(whole["time_ns"] - mark_ns) <= 10**9)
    assert_same(READ[ending](path), whole[is_raw])
    figures = FIGURES_OF[ending](path)
    see_figures(figures, whole[is_reduced])
    assert f" {len(figures['time_ns']):,} figures of them" in said.stdout

    one = triggerlog("export", str(file), "-o", str(path), "--force", "--instruments", GROUP.instruments[2])
    assert one.returncode == 0, one.stderr
    see_figures(FIGURES_OF[ending](path), whole[is_reduced & (whole["instrument"] == 2)])

    # No reading is left there, and figures are.
    at = ("--from", str(START_NS + 5 * HOUR_NS // BUCKET.ns * BUCKET.ns), "--to", str(START_NS + 7 * HOUR_NS))
    gone = triggerlog("export", str(file), "-o", str(path), "--force", *at)
    assert gone.returncode == 0, gone.stderr
    assert " 0 readings of group bpm;" in gone.stdout

    # Figures know no run.
    run = triggerlog("export", str(file), "-o", str(path), "--force", "--run", str(RUNS))
    assert run.returncode == 0, run.stderr
    assert " figures of them" not in run.stdout
    assert not [each for each in tmp_path.iterdir() if "reduced" in each.name]


@pytest.mark.parametrize("ending", ["parquet", "h5"])
def test_what_is_reduced_while_it_is_read_is_said_by_the_command_and_the_file(
    postgresql_dsn: str,
    schema: str,
    tmp_path: Path,
    ending: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of every n-th trigger there are no figures that would tell."""
    monkeypatch.setattr("tests.daemon.tools.export.test_export.START_NS", START_NS)
    whole = stored(postgresql_dsn, schema, "rows", runs=RUNS)

    async def reduced_meanwhile(*given: Any, **options: Any) -> Any:
        await reducing(postgresql_dsn, schema, "rows", START_NS, Every(2))
        return await export(*given, **options)

    monkeypatch.setattr(command, "write_export", reduced_meanwhile)
    file, path = configuration(tmp_path, postgresql_dsn, schema, "rows"), tmp_path / f"bpm.{ending}"
    command.export(file, output=path)
    assert "; reduced while this was read: " in capsys.readouterr().out
    if ending == "parquet":
        said = pq.read_metadata(path).metadata[b"meanwhile"]
    else:
        with h5py.File(path) as found:
            said = found.attrs["meanwhile"]
    # As far as it was asked for: from the first reading on.
    wanted = [{"from_ns": int(whole["time_ns"].min()), "to_ns": START_NS // DAY_NS * DAY_NS + DAY_NS}]
    assert json.loads(said) == {"dropped_by_retention": [], "decimated": wanted}


@pytest.mark.parametrize("ending", ["parquet", "h5"])
def test_a_file_says_what_was_reduced_also_without_figures(
    postgresql_dsn: str, schema: str, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.daemon.tools.export.test_export.START_NS", START_NS)
    whole = stored(postgresql_dsn, schema, "rows", runs=RUNS)
    asyncio.run(reducing(postgresql_dsn, schema, "rows", START_NS, Every(2)))
    file, path = configuration(tmp_path, postgresql_dsn, schema, "rows"), tmp_path / f"bpm.{ending}"
    command.export(file, output=path)
    if ending == "parquet":
        origin = json.loads(pq.read_metadata(path).metadata[b"triggerlog"])
        said, dropped = origin["decimated"], origin["dropped_by_retention"]
    else:
        with h5py.File(path) as found:
            said, dropped = (json.loads(found.attrs[name]) for name in ("decimated", "dropped_by_retention"))
    assert dropped == []
    assert [each["to_ns"] for each in said] == [START_NS // DAY_NS * DAY_NS + DAY_NS]
    assert int(whole["time_ns"].min()) <= said[0]["from_ns"] < said[0]["to_ns"]
