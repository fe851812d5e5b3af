"""The archive of runs of visits: in memory, as CSV, as JSON, as Parquet; and what is computed from it."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from daemon.tools.workloads.tables import state_words
from daemon.tools.workloads.visits import write_parquet
from daemon.workloads.frame.archive import ID, RecordDamaged
from daemon.workloads.visits.archive import (
    DTYPE,
    MOST,
    RunWriter,
    Series,
    VisitsArchive,
    VisitsInUse,
    measure_of,
    read_csv,
    read_run,
)
from daemon.workloads.visits.figures import curves
from daemon.workloads.visits.messages import (
    Begun,
    Compacting,
    CompactionDone,
    Lost,
    Troubled,
    Visited,
    Visiting,
    Waiting,
)
from daemon.workloads.visits.progress import RunProgress, remaining_s
from schemas.api.visits import COUNTS, Compaction, Line, TileMeasure, VisitMeasure
from schemas.config.visits import Cadence, VisitsConfig
from schemas.states import RunState, VisitsPhase
from schemas.visits.survey import Survey

SETTINGS = VisitsConfig(visits=100, cadence=Cadence.FAST, survey=Survey(scale=0.02), limit_s=2.0)


def measure(visit: int, visit_s: float = 0.5, **fields: float) -> VisitMeasure:
    """Of a visit that took so long."""
    told = dict.fromkeys(VisitMeasure.model_fields, 0) | dict.fromkeys(COUNTS, 7 * visit)
    told |= {"visit": visit, "time_ns": 10**18 + visit, "ra": 12.5, "decl": -45.25, "tiles": 1, "resumed": False}
    return VisitMeasure(**told | {"visit_s": visit_s, "select_s": visit_s / 4, "store_s": visit_s / 2} | fields)


def visited(visit: int, visit_s: float = 0.5, tiles: int = 1) -> Visited:
    return Visited(
        visit=measure(visit, visit_s), tiles=tuple(TileMeasure(visit=visit, tile=tile) for tile in range(tiles))
    )


@pytest.fixture
def archive(tmp_path: Path) -> VisitsArchive:
    return VisitsArchive(tmp_path / "visits")


@pytest.fixture
def runs() -> Iterator[list[RunProgress]]:
    """Those that a test began."""
    begun: list[RunProgress] = []
    yield begun
    for run in begun:
        run.close()


def begun(archive: VisitsArchive, runs: list[RunProgress], name: str | None = None) -> RunProgress:
    run = RunProgress(archive, name or archive.new_id(), SETTINGS, target="here")
    runs.append(run)
    run.begin()
    return run


async def run_of(archive: VisitsArchive, runs: list[RunProgress], *messages: Visited) -> RunProgress:
    """A run that got so far."""
    run = begun(archive, runs)
    await run.take(Begun(last=None, done=0))
    for message in messages:
        await run.take(message)
    return run


def test_columns_hold_what_was_measured_and_no_more_than_they_may() -> None:
    series = Series()
    for visit in range(1500):
        series.add(measure(visit, 0.25))
    before = series.rows
    series.add(measure(1500, 9.0))
    assert len(before) == 1500
    assert measure_of(series.rows[1500]) == measure(1500, 9.0)
    many = np.zeros(MOST, DTYPE)
    many["visit"] = np.arange(MOST)
    series.take(many)
    series.add(measure(MOST))
    assert len(series) <= MOST
    assert series.column("visit")[-2:].tolist() == [MOST - 1, MOST]


async def test_what_was_compacted_is_kept_also_of_a_run_that_was_killed_and_goes_on(
    archive: VisitsArchive, runs: list[RunProgress]
) -> None:
    run = await run_of(archive, runs, visited(0))
    done = [
        Compaction(
            table="DIASource", period=700 + number, after_visit=number, compact_s=0.25, packs_before=9, packs=3,
            records_before=20, records=20,
        )
        for number in range(2)
    ]  # fmt: skip
    await run.take(Compacting(table="DIASource", period=700))
    assert (run.state, run.phase) == (RunState.RUNNING, VisitsPhase.COMPACTING)
    await run.take(CompactionDone(compaction=done[0]))
    await run.take(visited(1))
    assert (run.phase, run.status().compactions, run.status().compact_s) == ("visiting", 1, 0.25)
    run.close()  # as a kill leaves it
    before = archive.read(run.name)
    assert before.compactions == (done[0],)
    series = Series()
    series.take(archive.rows(before.id))
    after = RunProgress(archive, before.id, SETTINGS, target="here", series=series, compactions=before.compactions)
    runs.append(after)
    after.begin()
    await after.take(CompactionDone(compaction=done[1]))
    after.end(after.record(RunState.STOPPED))
    assert archive.read(run.name).compactions == read_run(archive.path(run.name)).compactions == tuple(done)


async def test_a_run_is_kept_with_its_visits_and_can_be_read_in_every_way(
    archive: VisitsArchive, runs: list[RunProgress], tmp_path: Path
) -> None:
    progress = await run_of(archive, runs, *(visited(visit, 0.5 + visit / 100, tiles=2) for visit in range(20)))
    progress.end(progress.record(RunState.STOPPED, product="postgresql", version="18"))
    fit = progress.status().fit
    assert fit is not None
    assert fit.visits == 20
    path = archive.path(progress.name)
    run = read_run(path)
    assert [visit.visit for visit in run.visits] == list(range(20))
    assert run.visits[3] == measure(3, 0.53)
    assert (run.state, run.product, run.settings) == (RunState.STOPPED, "postgresql", SETTINGS)
    printed = tmp_path / "run.json"
    printed.write_text(run.model_dump_json(by_alias=True))
    assert read_run(printed) == run
    assert archive.read(progress.name) == run.model_copy(update={"visits": ()})
    with archive.path(progress.name, ".csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == tuple(VisitMeasure.model_fields)
    assert (rows[3]["visit_s"], rows[3]["resumed"]) == ("0.530000", "0")
    assert len(archive.path(progress.name, ".tiles.csv").read_text().splitlines()) == 1 + 40
    write_parquet(archive.path(progress.name, ".csv"), tmp_path / "visits.parquet")
    table = pq.read_table(tmp_path / "visits.parquet")
    assert table.column_names == list(VisitMeasure.model_fields)
    assert table["time_ns"].to_pylist() == [10**18 + visit for visit in range(20)]
    (summary,) = archive.summaries()
    assert (summary.id, summary.visits, summary.index_mode, summary.state) == (
        progress.name,
        20,
        "partitioned",
        RunState.STOPPED,
    )


async def test_a_crash_leaves_a_csv_that_reads_and_that_goes_on(
    archive: VisitsArchive, runs: list[RunProgress]
) -> None:
    progress = await run_of(archive, runs, visited(0), visited(1))
    path = archive.path(progress.name, ".csv")
    with path.open("a") as file:
        file.write("2,1000000000000000002,12.5")  # the power went
    assert read_csv(path)["visit"].tolist() == [0, 1]
    run = read_run(archive.path(progress.name))
    assert (run.state, len(run.visits)) == (RunState.RUNNING, 2)
    writing = RunWriter(archive, progress.name)
    writing.add(measure(2), ())
    writing.close()
    assert read_csv(path)["visit"].tolist() == [0, 1, 2]
    assert path.read_text().count("visit_s") == 1


@pytest.mark.parametrize("visits", [0, 1, 2, 7, 300])
async def test_rows_from_a_visit_on_are_taken_out_whatever_their_number(
    visits: int, archive: VisitsArchive, runs: list[RunProgress]
) -> None:
    for first in sorted({0, 1, visits // 2, visits}):
        run = await run_of(archive, runs, *(visited(visit, 0.5, tiles=3) for visit in range(visits)))
        with archive.path(run.name, ".csv").open("a") as file:
            file.write("3,10000000000")  # the power went
        writing = RunWriter(archive, run.name)
        writing.cut(first)
        kept = min(first, visits)
        assert archive.rows(run.name)["visit"].tolist() == list(range(kept))
        for visit in (kept, kept + 1):
            writing.add(measure(visit), [TileMeasure(visit=visit, tile=tile) for tile in range(3)])
        writing.close()
        assert archive.rows(run.name)["visit"].tolist() == list(range(kept + 2))
        tiles = [line.split(",")[:2] for line in archive.path(run.name, ".tiles.csv").read_text().splitlines()[1:]]
        assert tiles == [[str(visit), str(tile)] for visit in range(kept + 2) for tile in range(3)]
        archive.remove(run.name)


async def test_a_visit_that_the_server_lost_has_one_row_and_counts_once(
    archive: VisitsArchive, runs: list[RunProgress]
) -> None:
    run = await run_of(archive, runs, visited(0, 1.0), visited(1, 9.0), visited(2, 9.0))
    assert (run.status().here, run.status().slow, run.status().over_limit) == (3, 2, 2 / 3)
    await run.take(Lost(done=1))
    status = run.status()
    assert (status.done, status.here, status.lost, status.slow, status.over_limit) == (1, 1, 2, 0, 0)
    assert status.last == measure(0, 1.0)
    assert status.mean_s == 1.0
    for visit in (1, 2, 3):
        await run.take(visited(visit, 0.25))
    run.close()
    rows = archive.rows(run.name)
    assert rows["visit"].tolist() == run.series.column("visit").tolist() == [0, 1, 2, 3]
    assert rows["visit_s"].tolist() == [1.0, 0.25, 0.25, 0.25]
    # The daemon was killed together with the server: what is archived is more than what is there.
    series = Series()
    series.take(rows)
    after = RunProgress(archive, run.name, SETTINGS, target="here", series=series)
    runs.append(after)
    after.begin()
    await after.take(Begun(last=None, done=2))
    assert (after.status().lost, archive.rows(run.name)["visit"].tolist()) == (2, [0, 1])


def test_a_csv_of_something_else_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"x\.csv has other columns than this version's; read it with"):
        read_csv(path)


async def test_a_damaged_record_is_named_and_the_others_are_listed(
    archive: VisitsArchive, runs: list[RunProgress]
) -> None:
    run = await run_of(archive, runs, visited(0))
    damaged = archive.path("20260101T000000Z")
    damaged.write_text('{"id": "20260101T000000Z", "began_ns":')
    assert [summary.id for summary in archive.summaries()] == [run.name]
    (problem,) = archive.damaged
    assert problem.startswith(f"{damaged} is no record of a run that this version can read (")
    with pytest.raises(RecordDamaged, match="remove it"):
        archive.read(damaged.stem)


def test_only_the_newest_runs_stay_and_only_one_process_runs_visits(
    archive: VisitsArchive, runs: list[RunProgress]
) -> None:
    for second in range(5):
        begun(archive, runs, f"20260101T00000{second}Z")
    assert archive.remove_old(3) == ["20260101T000001Z", "20260101T000000Z"]
    assert min(path.name for path in archive.folder.glob("*.csv")) == "20260101T000002Z.csv"
    assert ID.fullmatch(archive.new_id())
    with archive.locked(), pytest.raises(VisitsInUse, match=r"another process runs visits in .*; stop that one first"):
        archive.locked().__enter__()


async def test_a_status_tells_what_is_under_way_and_until_when_it_waits(
    archive: VisitsArchive, runs: list[RunProgress]
) -> None:
    run = await run_of(archive, runs, visited(0))
    assert (run.status().visiting_s, run.status().waits_until_ns) == (None, None)
    await run.take(Waiting(until_ns=1_600_000_000_000_000_000))
    assert (run.status().phase, run.status().waits_until_ns) == ("waiting", 1_600_000_000_000_000_000)
    assert state_words(run.status()) == "waiting until 2020-09-13 12:26:40 UTC"
    await run.take(Visiting(visit=1))
    status = run.status()
    assert (status.phase, status.waits_until_ns) == ("visiting", None)
    assert status.visiting_s is not None
    assert 0 <= status.visiting_s < 60
    assert state_words(status.model_copy(update={"visiting_s": 95.0})) == "visit 1 for 95 s so far"
    await run.take(visited(1))
    assert run.status().visiting_s is None


async def test_a_status_tells_how_a_run_is(archive: VisitsArchive, runs: list[RunProgress]) -> None:
    run = begun(archive, runs)
    assert (run.status().state, run.status().remaining_s) == ("starting", None)
    await run.take(Begun(last=None, done=40))
    await run.take(Troubled(problem="the database is away"))
    assert run.status().problem == "the database is away"
    for visit, seconds in ((40, 1.0), (41, 3.0), (42, 3.0)):
        await run.take(visited(visit, seconds))
    status = run.status()
    assert (status.state, status.problem, status.done, status.here, status.visits) == ("running", None, 43, 3, 100)
    assert (status.over_limit, status.slow) == (pytest.approx(2 / 3), 2)
    assert status.remaining_s == pytest.approx(57 * 7 / 3, rel=0.01)
    await run.take(Waiting(until_ns=1))
    assert run.status().phase == "waiting"


def test_the_time_left_takes_the_growth_into_account() -> None:
    grows = Line(intercept=1, slope_per_1000=100, slope_low=90, slope_high=110, visits=50)
    as_well_none = Line(intercept=1, slope_per_1000=100, slope_low=-10, slope_high=210, visits=50)
    left = {"done": 50, "mean_s": 6.0, "overhead_s": 0.5}
    assert remaining_s(SETTINGS, fit=as_well_none, **left) == pytest.approx(50 * 6.5)
    assert remaining_s(SETTINGS, fit=grows, **left) == pytest.approx(50 * (6.5 + 2.45))
    assert remaining_s(SETTINGS, fit=None, done=100, mean_s=1.0, overhead_s=0.0) == 0
    assert remaining_s(SETTINGS, fit=None, done=0, mean_s=None, overhead_s=0.0) is None
    real = SETTINGS.model_copy(update={"cadence": Cadence.REAL})
    # 16 visits a night: three days lie between visit 50 and visit 99.
    by_day_s = 86_400 - 16 * 45 / 0.02
    assert remaining_s(real, fit=grows, **left) == pytest.approx(50 * 45 / 0.02 + 3 * by_day_s)


async def test_what_is_drawn_keeps_the_extremes(archive: VisitsArchive, runs: list[RunProgress]) -> None:
    seconds = {visit: 9.0 if visit == 33 else 1 + visit / 1000 for visit in range(60)}
    run = await run_of(archive, runs, *(visited(visit, seconds[visit]) for visit in seconds))
    told = curves(run.record(RunState.FINISHED), run.series.rows, 20)
    assert len(told["columns"]["visit"]) <= 60
    assert told["columns"]["visit_s"][told["columns"]["visit"].index(33)] == 9.0
    assert told["fits"]["select_s"]["visits"] == 60
    assert sum(part["fraction"] > 0 for part in told["over"]) == 1
    first = [value for visit, value in seconds.items() if visit < told["bin"]]
    assert told["boxes"][0]["mean"] == pytest.approx(sum(first) / len(first), rel=1e-4)
    assert [len(part) for part in told["parts"].values()] == [len(told["boxes"])] * 8
    assert curves(run.record(RunState.FINISHED), run.series.rows[:0], 20)["parts"]["commit_s"] == []
    assert told["paper"] == {
        "label": "LSST DMTN-113, PostgreSQL on NVMe, 15 x 15 tiles; its intercept times the scale of 0.02",
        "intercept": pytest.approx(0.0485),
        "slope_per_1000": 0.164,
    }
