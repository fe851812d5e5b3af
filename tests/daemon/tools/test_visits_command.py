"""`triggerlog visits` by itself, on an embedded PostgreSQL and a tiny sky."""

import csv
import io
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from daemon.tools.workloads.tables import say_visits
from daemon.workloads.visits.archive import read_run
from schemas.api.visits import VisitsRun
from schemas.config.visits import VisitsConfig
from schemas.states import RunState
from tests.support.processes import here, running, triggerlog, until
from tests.support.servers import server_folder
from tests.support.visit_records import made_run, visit_of

SMALL = ("--scale", "0.002", "--interval", "0.2", "--seed", "3")


@pytest.mark.slow
def test_a_run_by_itself_is_stopped_goes_on_and_is_looked_at() -> None:
    with server_folder() as folder:
        at = ("--folder", str(folder))
        with running("visits", "run", *SMALL, *at, "--visits", "1000000") as run:
            # Where there is no terminal, a line tells now and then; the files tell at once.
            visits = folder / "visits"
            _until_rows(visits, 2)
            assert run.end(signal.SIGINT, 120) == 0, run.said
        assert "Stopping after the visit that is under way; Ctrl-C again stops at once." in run.said
        assert "of 1,000,000 visits; the same command goes on from there." in run.said
        assert "by the formula" in run.said
        first = read_run(next(visits.glob("*.json")))
        done = first.visits[-1].visit + 1
        assert [visit.visit for visit in first.visits] == list(range(done))
        assert (first.state, first.product) == (RunState.STOPPED, "postgresql")

        more = triggerlog("visits", "run", *SMALL, *at, "--visits", str(done + 2), "--json", timeout_s=120)
        assert more.returncode == 0, more.stderr
        second = VisitsRun.model_validate_json(more.stdout)
        assert [visit.visit for visit in second.visits] == [done, done + 1]
        assert (second.state, second.problem) == (RunState.FINISHED, None)
        assert second.counts.keys() - second.expected.keys() == {"DIAObjectLast"}
        assert second.counts["DIASource"] == sum(visit.sources for run in (first, second) for visit in run.visits)
        assert f"{done + 2}/{done + 2} " in more.stderr

        _other_settings(at)
        _files(folder, at, second)


def _until_rows(folder: Path, rows: int) -> None:
    def found() -> int:
        return sum(len(path.read_text().splitlines()) - 1 for path in folder.glob("*Z.csv"))

    until(lambda: found() >= rows, f"{rows} visits", 90)


def _other_settings(at: tuple[str, str]) -> None:
    """Tables that are there are not taken for others."""
    refused = triggerlog("visits", "run", *SMALL, *at, "--index-mode", "baseline", "--visits", "9", timeout_s=120)
    assert refused.returncode == 1
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("triggerlog:")]
    assert line.startswith("triggerlog: visits.index_mode: the visits in schema 'triggerlog_visits' were made with")


def _files(folder: Path, at: tuple[str, str], run: VisitsRun) -> None:
    listed = here("visits", "list", *at).stdout
    assert run.id in listed
    assert "all visits are done" in listed
    assert here("visits", "list", *at, "--json").stdout.count('"index_mode":"partitioned"') == 2
    for form in ("csv", "parquet"):
        done = here("visits", "export", run.id, *at, "--format", form, "-o", str(folder / f"out.{form}"))
        assert (done.returncode, done.stdout) == (0, f"{folder / f'out.{form}'}\n"), done.stderr
    rows = list(csv.DictReader(io.StringIO((folder / "out.csv").read_text())))
    assert [row["visit"] for row in rows] == [str(visit.visit) for visit in run.visits]
    assert pq.read_table(folder / "out.parquet")["objects"].to_pylist() == [visit.objects for visit in run.visits]
    report = here("visits", "report", run.id, *at, "-o", str(folder / "out.html"))
    assert report.returncode == 0, report.stderr
    html = (folder / "out.html").read_text()
    assert "DIAForcedSource" in html
    assert "<script" not in html


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("run", "--index-mode", "baselin"), "index_mode: 'baselin' is not known here; did you mean `baseline`?"),
        (("run", "--scale", "3"), "survey.scale: 3.0 is out of range; use a number above 0, at most 1"),
        (("run", "--visits", "0"), "visits: 0 is out of range; use 1 to 100000000"),
        (("run", "--last-update", "upsert"), "last_update: index mode partitioned has no table to update; take it out"),
        (("run", "--dsn", "oracle://x"), "dsn: 'oracle' is not a database this version knows; write postgresql://"),
        (("run", "--json", "--csv"), "--csv: --json is given too; print one of them, the files have both"),
        (("run", "nothing.toml"), "nothing.toml: cannot be read (no such file or directory); give the path of a"),
        (("export", "x"), "'x' is no id of a run; `triggerlog visits list` shows them"),
        (("report", "20200101T000000Z"), "there is no "),
        (
            ("start", "--set", "visits", "--daemon", "http://127.0.0.1:9"),
            "--set: 'visits' is no setting; write",
        ),
        (("status", "--daemon", "http://127.0.0.1:9"), "no daemon at http://127.0.0.1:9"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(options: tuple[str, ...], said: str) -> None:
    done = here("visits", *options)
    assert done.returncode == 1, done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"triggerlog: {said}"), line


def test_a_check_says_what_visits_mean_and_whether_the_disk_holds_them(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    groups = '[[groups]]\nname = "bpm"\ncount = 2\nchannels = [{ name = "x" }]\n'
    file.write_text(groups + '[visits]\nvisits = 48\nsurvey = { scale = 0.02 }\nindex_mode = "baseline"\n')
    fits = here("check-config", "--offline", str(file))
    assert (
        "visits     48 on request, one each 2250 s by night, baseline, schema triggerlog_visits: about" in fits.stdout
    )
    assert "disk" not in fits.stderr
    file.write_text(groups + '[visits]\nvisits = 100_000_000\nsurvey = { interval_s = 0.2 }\nindex_mode = "baseline"\n')
    large = here("check-config", "--offline", str(file))
    assert (large.returncode, "warning: visits.visits: these visits take about" in large.stderr) == (0, True)


def test_the_tables_of_a_run_are_without_visits_that_were_resumed_and_with_all_upkeep() -> None:
    settings = VisitsConfig.model_validate({"survey": {"scale": 0.02}, "visits": 60})
    visits = [visit_of(settings, visit, {}).model_copy(update={"upkeep_s": 0.5}) for visit in range(60)]
    rest = {"visit_s": 1000.0, "select_s": 900.0, "resumed": True}
    visits[30:40] = [visit.model_copy(update=rest) for visit in visits[30:40]]
    said = Console(file=io.StringIO(), width=200)
    say_visits(made_run(settings, visits), "made.csv", said)
    assert isinstance(said.file, io.StringIO)
    text = said.file.getvalue()
    assert "0.0% of the visits took more than 10 s" in text
    assert "through 50 visits" in text
    assert "9e+02" not in text
    assert "1000" not in text.split("table")[0]
    assert "30 s to begin and end visits, and to make and drop partitions, between the visits" in text
