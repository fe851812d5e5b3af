"""What is kept of a run of visits: in memory, as CSV, as JSON, as Parquet; and what is reckoned from it."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from daemon.tools.visits.parquet import write_parquet
from daemon.workloads.visits.course import Course
from daemon.workloads.visits.curves import curves
from daemon.workloads.visits.kept import CUT_OFF, ID, STOPPED, Kept, VisitsInUse, Writing, read_csv, read_run
from daemon.workloads.visits.messages import Beginning, Begun, Compacting, Rewritten, Troubled, Visited, Waiting
from daemon.workloads.visits.outlook import remaining_s
from daemon.workloads.visits.series import DTYPE, MOST, Series, measure_of
from schemas.api.visits import COUNTS, Compaction, Line, TileMeasure, VisitMeasure, VisitsRun
from schemas.config.visits import Cadence, VisitsConfig
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
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "visits")


@pytest.fixture
def courses() -> Iterator[list[Course]]:
    """Those that a test began."""
    begun: list[Course] = []
    yield begun
    for course in begun:
        course.close()


def begun(kept: Kept, courses: list[Course], name: str | None = None) -> Course:
    course = Course(kept, name or kept.new_id(), SETTINGS, target="here")
    courses.append(course)
    course.begin()
    return course


async def course_of(kept: Kept, courses: list[Course], *messages: Visited) -> Course:
    """A run that got so far."""
    course = begun(kept, courses)
    await course.take(Begun(begun=Beginning(last=None, done=0)))
    for message in messages:
        await course.take(message)
    return course


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
    kept: Kept, courses: list[Course]
) -> None:
    course = await course_of(kept, courses, visited(0))
    done = [
        Compaction(
            table="DIASource", period=700 + number, after_visit=number, compact_s=0.25, packs_before=9, packs=3,
            records_before=20, records=20,
        )
        for number in range(2)
    ]  # fmt: skip
    await course.take(Compacting(compacting="DIASource", period=700))
    assert course.state == "compacting"
    await course.take(Rewritten(compacted=done[0]))
    await course.take(visited(1))
    assert (course.state, course.status().compactions, course.status().compact_s) == ("running", 1, 0.25)
    course.close()  # as a kill leaves it
    before = kept.read(course.name)
    assert before.compactions == (done[0],)
    series = Series()
    series.take(kept.rows(before.id))
    after = Course(kept, before.id, SETTINGS, target="here", series=series, compactions=before.compactions)
    courses.append(after)
    after.begin()
    await after.take(Rewritten(compacted=done[1]))
    after.end(after.run(STOPPED))
    assert kept.read(course.name).compactions == read_run(kept.path(course.name, ".json")).compactions == tuple(done)


async def test_a_run_is_kept_with_its_visits_and_can_be_read_in_every_way(
    kept: Kept, courses: list[Course], tmp_path: Path
) -> None:
    course = await course_of(kept, courses, *(visited(visit, 0.5 + visit / 100, tiles=2) for visit in range(20)))
    course.end(course.run(STOPPED, product="postgresql", version="18"))
    run = kept.read(course.name)
    assert [visit.visit for visit in run.visits] == list(range(20))
    assert run.visits[3] == measure(3, 0.53)
    assert (run.problem, run.product, run.settings) == (STOPPED, "postgresql", SETTINGS)
    path = kept.path(course.name, ".json")
    assert VisitsRun.model_validate_json(path.read_bytes()) == read_run(path) == run
    assert kept.head(course.name).visits == ()
    with kept.path(course.name, ".csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == tuple(VisitMeasure.model_fields)
    assert (rows[3]["visit_s"], rows[3]["resumed"]) == ("0.530000", "0")
    assert len(kept.path(course.name, ".tiles.csv").read_text().splitlines()) == 1 + 40
    write_parquet(kept.path(course.name, ".csv"), tmp_path / "visits.parquet")
    table = pq.read_table(tmp_path / "visits.parquet")
    assert table.column_names == list(VisitMeasure.model_fields)
    assert table["time_ns"].to_pylist() == [10**18 + visit for visit in range(20)]
    (summary,) = kept.summaries()
    assert (summary.id, summary.visits, summary.index_mode, summary.problem) == (
        course.name,
        20,
        "partitioned",
        STOPPED,
    )


async def test_a_crash_leaves_a_csv_that_reads_and_that_goes_on(kept: Kept, courses: list[Course]) -> None:
    course = await course_of(kept, courses, visited(0), visited(1))
    path = kept.path(course.name, ".csv")
    with path.open("a") as file:
        file.write("2,1000000000000000002,12.5")  # the power went
    assert read_csv(path)["visit"].tolist() == [0, 1]
    run = kept.read(course.name)
    assert (run.problem, len(run.visits)) == (CUT_OFF, 2)
    writing = Writing(kept, course.name)
    writing.add(measure(2), ())
    writing.close()
    assert read_csv(path)["visit"].tolist() == [0, 1, 2]
    assert path.read_text().count("visit_s") == 1


def test_a_csv_of_something_else_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"x\.csv has other columns than this version's; read it with"):
        read_csv(path)


def test_only_the_newest_runs_stay_and_only_one_process_runs_visits(kept: Kept, courses: list[Course]) -> None:
    for second in range(5):
        begun(kept, courses, f"20260101T00000{second}Z")
    assert kept.forget_old(3) == ["20260101T000001Z", "20260101T000000Z"]
    assert min(path.name for path in kept.folder.glob("*.csv")) == "20260101T000002Z.csv"
    assert ID.fullmatch(kept.new_id())
    with kept.alone(), pytest.raises(VisitsInUse, match=r"another process runs visits in .*; stop that one first"):
        kept.alone().__enter__()


async def test_a_status_tells_how_a_run_is(kept: Kept, courses: list[Course]) -> None:
    course = begun(kept, courses)
    assert (course.status().state, course.status().remaining_s) == ("starting", None)
    await course.take(Begun(begun=Beginning(last=None, done=40)))
    await course.take(Troubled(problem="the database is away"))
    assert course.status().problem == "the database is away"
    for visit, seconds in ((40, 1.0), (41, 3.0), (42, 3.0)):
        await course.take(visited(visit, seconds))
    status = course.status()
    assert (status.state, status.problem, status.done, status.here, status.visits) == ("running", None, 43, 3, 100)
    assert (status.over_limit, status.slow) == (pytest.approx(2 / 3), 2)
    assert status.remaining_s == pytest.approx(57 * 7 / 3, rel=0.01)
    await course.take(Waiting(waiting=1))
    assert course.status().state == "waiting"


def test_the_time_left_takes_the_growth_into_account() -> None:
    grows = Line(intercept=1, slope_per_1000=100, slope_low=90, slope_high=110, visits=50)
    as_well_none = Line(intercept=1, slope_per_1000=100, slope_low=-10, slope_high=210, visits=50)
    left = {"done": 50, "mean_s": 6.0, "beside_s": 0.5}
    assert remaining_s(SETTINGS, fit=as_well_none, **left) == pytest.approx(50 * 6.5)
    assert remaining_s(SETTINGS, fit=grows, **left) == pytest.approx(50 * (6.5 + 2.45))
    assert remaining_s(SETTINGS, fit=None, done=100, mean_s=1.0, beside_s=0.0) == 0
    assert remaining_s(SETTINGS, fit=None, done=0, mean_s=None, beside_s=0.0) is None
    real = SETTINGS.model_copy(update={"cadence": Cadence.REAL})
    assert remaining_s(real, fit=grows, **left) == pytest.approx(50 * 45 / 0.02)


async def test_what_is_drawn_keeps_the_extremes(kept: Kept, courses: list[Course]) -> None:
    seconds = {visit: 9.0 if visit == 33 else 1 + visit / 1000 for visit in range(60)}
    course = await course_of(kept, courses, *(visited(visit, seconds[visit]) for visit in seconds))
    told = curves(course.run(None), course.series.rows, 20)
    assert len(told["columns"]["visit"]) <= 60
    assert told["columns"]["visit_s"][told["columns"]["visit"].index(33)] == 9.0
    assert told["fits"]["select_s"]["visits"] == 60
    assert sum(part["fraction"] > 0 for part in told["over"]) == 1
    first = [value for visit, value in seconds.items() if visit < told["bin"]]
    assert told["boxes"][0]["mean"] == pytest.approx(sum(first) / len(first), rel=1e-4)
    assert [len(part) for part in told["parts"].values()] == [len(told["boxes"])] * 8
    assert curves(course.run(None), course.series.rows[:0], 20)["parts"]["commit_s"] == []
    assert told["paper"] == {
        "label": "LSST DMTN-113, PostgreSQL on NVMe, 15 x 15 tiles; its intercept times the scale of 0.02",
        "intercept": pytest.approx(0.0485),
        "slope_per_1000": 0.164,
    }
