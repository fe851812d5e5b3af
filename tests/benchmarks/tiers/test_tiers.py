"""The benchmark of tiers: what follows from a record, which slow disk is taken, and the library that is one."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sql.tables import group_tables
from benchmarks.load.workload import GROUP
from benchmarks.report.model import Verdict
from benchmarks.report.render import render, text
from benchmarks.tiers.figures import block_ratio
from benchmarks.tiers.parts.planning import questions
from benchmarks.tiers.parts.queries import ids
from benchmarks.tiers.plan import (
    ALL,
    FAST,
    FILTER,
    HOT,
    HOT_PART,
    INSERT_DELETE,
    MIX,
    OURS,
    PARTS,
    PEAKS,
    QUERIES,
    RANGE,
    SLOW,
    SPECTRA,
    WHOLE,
    Asked,
    Block,
    Disk,
    Moved,
    Plan,
    Planned,
    Record,
    Searched,
    Size,
    predicted,
)
from benchmarks.tiers.report import findings, report
from benchmarks.tiers.run import BEGIN, END, MEASURED, WIDTH, main, with_figures
from benchmarks.tiers.slow_disk import choice
from benchmarks.tiers.slow_disk.choice import LOOP, SHIM, NoSlowDisk, chosen, slow_disk
from benchmarks.tiers.slow_disk.probe import measured
from benchmarks.tiers.tiered import first_hour_ns, forget, tiered
from schemas.batch import Layout


def record_of(**figures: Any) -> Record:
    return Record(
        date="2026-01-01 00:00 UTC",
        machine={"processor": "a <processor>", "cores": "2"},
        server="PostgreSQL 18",
        commands={part: f"python -m benchmarks.tiers.run --only {part}" for part in PARTS},
        scales=dict.fromkeys(PARTS, 1.0),
        **figures,
    )


def asked(question: str, fast: float, slow: float, mix: float, noise: float = 1.0) -> list[Asked]:
    """Two rounds of a question, of which the second took twice as long, and the mix by `noise` besides."""
    return [
        Asked(
            layout="rows",
            place=place,
            question=question,
            round=number,
            seconds=factor * each * (noise if number and place == MIX else 1.0),
            readings=120,
        )
        for number, factor in enumerate((2 / 3, 4 / 3))
        for place, each in zip((FAST, SLOW, MIX), (fast, slow, mix), strict=True)
    ]


def moved(way: str, **more: Any) -> Moved:
    figures: dict[str, Any] = {
        "seconds": 3.0,
        "committed": 1000,
        "lost": 0,
        "doubled": 0,
        "thrown_away": 0,
        "writer_s": 0.1,
        "reader_s": 0.1,
        "asked": 100,
        "wrong": 0,
        "pages_before": 200,
        "pages_after": 100,
        "pages_full": 100,
    }
    return Moved(way=way, **{**figures, **more})


def block(number: int, commit_p99_ms: float, reader_p99_ms: float | None = 10.0, wrong: int = 0) -> Block:
    """A block; every second has moves."""
    return Block(
        number=number,
        seconds=11.0,
        down=4 * (number % 2),
        up=number % 2,
        tries=5 * (number % 2),
        rate=100.0,
        commit_p99_ms=commit_p99_ms,
        readers_p99_ms={"newest": reader_p99_ms},
        counted=10,
        wrong=wrong,
    )


def planned(question: str, factor: float, periods: int = 2000) -> Planned:
    plain = (1.0, 1.1, 0.9, 1.0)
    leaves = tuple(factor * each for each in plain)
    return Planned(
        periods=periods,
        question=question,
        first=False,
        plain_ms=plain,
        leaves_ms=leaves,
        plain_locks=3,
        leaves_locks=6,
    )


def verdicts(record: Record) -> dict[str, Verdict]:
    return {each.claim: each.verdict for each in findings(record)}


class TestPlan:
    def test_the_mix_is_predicted_as_the_blog_does(self) -> None:
        assert predicted(ALL, 90, 210) == pytest.approx(186)
        assert predicted(WHOLE, 6, 100) == pytest.approx(81.2)
        assert predicted(HOT, 5, 80) == 5

    @given(scale=st.floats(0.001, 100))
    def test_every_scale_can_be_measured(self, scale: float) -> None:
        plan = Plan(scale=scale)
        assert list(plan.planned_periods) == sorted(plan.planned_periods)
        assert plan.ids <= HOT_PART * plan.periods * plan.triggers
        assert plan.pairs >= 2

    def test_the_whole_run_moves_20_periods_down_and_5_up(self) -> None:
        assert (Plan().pairs * Plan().down, Plan().pairs) == (20, 5)
        assert Plan().spectra == 270_000

    def test_random_triggers_are_the_same_wherever_they_lie_and_others_in_the_next_round(self) -> None:
        plan = Plan(scale=0.1)
        everything = plan.periods * plan.triggers
        for question, first in ((WHOLE, 0), (HOT, everything * 4 // 5)):
            found = ids(plan, question, 0)
            assert found == ids(plan, question, 0)
            assert found != ids(plan, question, 1)
            assert len(set(found)) == len(found) == plan.ids
            assert first <= min(found) < max(found) < everything

    def test_every_part_fills_a_field_of_the_record(self) -> None:
        assert tuple(MEASURED) == PARTS
        assert {part.field for part in MEASURED.values()} <= set(Record.model_fields)

    def test_every_question_that_is_planned_is_a_statement(self) -> None:
        hour_ns = first_hour_ns(100)
        found = dict(questions(group_tables("s", GROUP, Layout.ROWS), hour_ns, hour_ns))
        assert len(found) == 7
        assert all(statement.startswith("SELECT") and "s.bpm" in statement for statement in found.values())


class TestSlowDisk:
    def test_the_device_is_taken_where_nothing_is_lacking(self) -> None:
        assert chosen(None, None, None) == (LOOP, "")
        kind, note = chosen(None, "it takes root", None)
        assert kind == SHIM
        assert "it takes root" in note
        assert chosen(SHIM, None, None) == (SHIM, "")

    @pytest.mark.parametrize(
        ("wanted", "words"), [(None, ["root", "compiler"]), (LOOP, ["root"]), (SHIM, ["compiler"])]
    )
    def test_without_any_a_line_says_what_is_lacking(self, wanted: str | None, words: list[str]) -> None:
        with pytest.raises(NoSlowDisk) as caught:
            chosen(wanted, "it takes root", "there is no C compiler")
        assert [word for word in ("root", "compiler") if word in str(caught.value)] == words
        assert "\n" not in str(caught.value)

    @pytest.mark.skipif(choice.shim_lacking() is not None, reason="there is no C compiler")
    def test_the_library_is_as_slow_as_a_hard_disk_and_leaves_nothing(self, tmp_path: Path) -> None:
        before = dict(os.environ)
        said: list[str] = []
        with slow_disk(tmp_path, SHIM, said.append) as disk:
            found = measured(disk.folder)
            folder = disk.folder
            assert disk.settings == {"io_method": "sync"}
        assert dict(os.environ) == before
        assert not folder.exists()
        # A machine that is busy makes it slower, and nothing makes it faster.
        assert found["iops"] <= 1.1 * choice.IOPS
        assert found["mb_per_s"] <= 1.1 * choice.READ_BYTES / 1e6
        assert measured(tmp_path)["iops"] > found["iops"]

    @pytest.mark.skipif(choice.loop_lacking() is not None, reason="there are no limits of devices, or no root")
    def test_the_device_is_as_slow_as_a_hard_disk_and_is_gone_after_an_interruption(self, tmp_path: Path) -> None:
        def interrupted() -> None:
            with slow_disk(tmp_path, LOOP, print) as disk:
                places.append(disk.folder)
                devices.extend(choice.devices_of(tmp_path / "slow.img"))
                found.update(measured(disk.folder))
                raise KeyboardInterrupt

        places: list[Path] = []
        devices: list[str] = []
        found: dict[str, float] = {}
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert len(devices) == 1
        assert found["iops"] <= 1.1 * choice.LIMITS["read_iops"]
        assert not places[0].exists()
        assert not (tmp_path / "slow.img").exists()
        assert choice.devices_of(tmp_path / "slow.img") == []
        number = Path(f"/sys/block/{Path(devices[0]).name}/dev").read_text().strip()
        limits = [path.read_text() for path in choice.LIMITS_FOLDER.glob("blkio.throttle.*_device")]
        assert not [line for each in limits for line in each.splitlines() if line.split()[0] == number]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [LOOP, SHIM])
    def test_a_server_reads_as_slowly_from_it_and_its_cache_can_be_made_cold(self, kind: str, tmp_path: Path) -> None:
        lacks = choice.loop_lacking() if kind == LOOP else choice.shim_lacking()
        if lacks is not None:
            pytest.skip(lacks)
        # As root the server runs under another account.
        with (
            tempfile.TemporaryDirectory(prefix="triggerlog-bench-") as folder,
            slow_disk(tmp_path, kind, print) as disk,
        ):
            Path(folder).chmod(0o711)
            with tiered(Path(folder) / "t", disk, cache_mib=1) as found:
                with psycopg.connect(found.server.dsn, autocommit=True) as connection:
                    # Pages that are nearly empty.
                    like = "WITH (fillfactor = 10) TABLESPACE slow"
                    connection.execute(f"CREATE TABLE t {like} AS SELECT n FROM generate_series(1, 60000) AS n")
                found.make_cold()
                with psycopg.connect(found.server.dsn) as connection:
                    begun = time.perf_counter()
                    for page in range(40):
                        (row,) = connection.execute("SELECT count(*) FROM t WHERE ctid = %s", [f"({page * 50},1)"])
                        assert row == (1,)
                    seconds = time.perf_counter() - begun
        assert seconds > 0.5 * 40 / choice.LIMITS["read_iops"]

    def test_what_is_forgotten_is_as_it_was(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "file").write_bytes(b"abc")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        forget(tmp_path)
        assert (tmp_path / "folder" / "file").read_bytes() == b"abc"


class TestRun:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--only", "movers,nothing"], "choose from queries, movers,"),
            (["--scale", "0"], "use 0 < scale <= 100"),
            (["--rounds", "0"], "use 1 or more"),
        ],
    )
    def test_what_cannot_be_measured_is_refused(
        self, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert words in capsys.readouterr().err

    def test_parts_without_a_slow_disk_are_left_out_and_the_line_says_why(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("benchmarks.tiers.run.signal.signal", lambda *_: None)
        monkeypatch.setattr(choice, "loop_lacking", lambda: "it takes root")
        monkeypatch.setattr(choice, "shim_lacking", lambda: "there is no C compiler (cc)")
        assert main(["--only", "movers,beside", "-o", str(tmp_path / "f.json")]) == 1
        said = capsys.readouterr().err
        assert said.count("there is no slow disk") == 2
        assert "it takes root" in said
        assert "no C compiler" in said
        assert list(tmp_path.iterdir()) == []


class TestFindings:
    def test_the_mix_is_judged_by_its_prediction(self) -> None:
        as_blog = [*asked(ALL, 90, 210, 178), *asked(WHOLE, 6, 100, 50), *asked(HOT, 5, 80, 4)]
        assert set(verdicts(record_of(asked=as_blog)).values()) == {Verdict.REPRODUCED}
        otherwise = [*asked(ALL, 90, 210, 300), *asked(WHOLE, 6, 100, 81), *asked(HOT, 5, 80, 40)]
        found = verdicts(record_of(asked=otherwise))
        assert list(found.values()) == [*[Verdict.REFUTED] * 3, Verdict.REPRODUCED]

    def test_rounds_that_say_both_say_nothing(self) -> None:
        mixes = ((ALL, 70), (WHOLE, 50), (HOT, 6))
        noisy = [each for question, mix in mixes for each in asked(question, 6, 100, mix, noise=1.3)]
        assert list(verdicts(record_of(asked=noisy)).values())[:3] == 3 * [Verdict.UNKNOWN]

    def test_a_mover_that_loses_nothing_here_proves_nothing(self) -> None:
        claim = "INSERT, then DELETE loses rows that are committed in between"
        assert verdicts(record_of(moved=[moved(INSERT_DELETE)]))[claim] is Verdict.UNKNOWN
        lost = record_of(moved=[moved(INSERT_DELETE, lost=3, pages_after=200)])
        assert set(verdicts(lost).values()) == {Verdict.REPRODUCED}
        assert verdicts(record_of(moved=[moved(OURS)])) == {
            "Ours loses and doubles nothing, and leaves no room unused": Verdict.REPRODUCED
        }
        for more in ({"lost": 1}, {"doubled": 1}, {"wrong": 1}, {"pages_after": 120}):
            assert set(verdicts(record_of(moved=[moved(OURS, **more)])).values()) == {Verdict.REFUTED}

    def test_blocks_with_moves_are_compared_with_their_neighbours(self) -> None:
        blocks = [block(k, 10.0 * 1.2**k * (1.3 if k % 2 else 1.0)) for k in range(7)]
        ratio = block_ratio(blocks, None)
        assert ratio is not None
        assert ratio.value == pytest.approx(1.3)
        assert block_ratio(blocks[:2], None) is None
        nobody = [block(k, 10.0, None) for k in range(3)]
        assert block_ratio(nobody, "newest") is None

    @pytest.mark.parametrize(("factor", "verdict"), [(1.2, Verdict.REPRODUCED), (3.0, Verdict.REFUTED)])
    def test_moves_may_make_commits_half_as_long_again(self, factor: float, verdict: Verdict) -> None:
        blocks = [block(k, 10.0 * (factor if k % 2 else 1.0) * (1.02 if k == 2 else 1.0)) for k in range(9)]
        found = verdicts(record_of(blocks=blocks))
        assert found["Moves make the commit p99 at most 1.5 times as long"] is verdict
        assert found["Moves make the p99 of readers at most 2 times as long"] is Verdict.REPRODUCED
        assert found["Counts are right at every moment of a move"] is Verdict.REPRODUCED
        wrong = verdicts(record_of(blocks=[block(0, 10.0), block(1, 10.0, wrong=1), block(2, 10.0)]))
        assert wrong["Counts are right at every moment of a move"] is Verdict.REFUTED

    def test_planning_is_judged_by_the_most_periods(self) -> None:
        few = planned("everything", 9.0, periods=100)
        good = verdicts(record_of(planned=[few, planned("everything", 1.5), planned("window", 1.0)]))
        bad = verdicts(record_of(planned=[few, planned("everything", 2.5), planned("window", 1.0)]))
        assert (set(good.values()), set(bad.values())) == ({Verdict.REPRODUCED}, {Verdict.REFUTED})

    def test_searches_and_sizes(self) -> None:
        searched = [
            Searched(way=way, spectra=270_000, hits=71, seconds=(seconds,))
            for way, seconds in ((FILTER, 18.7), (PEAKS, 0.8), (RANGE, 0.035))
        ]
        sizes = [
            Size(layout=layout, readings=1000, data=each, indexes=10, ledger=100)
            for layout, each in (("rows", 93_000), ("arrays", 33_000), ("figures", 370))
        ]
        assert set(verdicts(record_of(searched=searched, sizes=sizes)).values()) == {Verdict.REPRODUCED}


class TestReport:
    def test_a_later_record_takes_the_place_of_its_parts_alone(self) -> None:
        disk = Disk(part=QUERIES, kind="a disk", iops=68, mb_per_s=140, fast_iops=5986, fast_mb_per_s=431)
        first = record_of(asked=asked(ALL, 1, 2, 3), moved=[moved(OURS)], disks=[disk])
        again = record_of(asked=asked(ALL, 4, 5, 6)).model_copy(update={"commands": {QUERIES: "new"}})
        both = first.and_then(again)
        assert both.asked == again.asked
        assert (both.moved, both.disks) == (first.moved, ())
        assert both.commands[QUERIES] == "new"
        assert first.and_then(record_of().model_copy(update={"commands": {SPECTRA: "x"}})).disks == (disk,)

    def test_it_has_what_was_measured(self) -> None:
        found = record_of(
            asked=asked(ALL, 1, 2, 3),
            moved=[moved(INSERT_DELETE, lost=1590, committed=60_270)],
            blocks=[block(k, 10.0) for k in range(5)],
            planned=[planned("everything", 1.5)],
        )
        written, page_ = text(report(found)), render(report(found))
        for words in ("1,590", "60,270", "python -m benchmarks.tiers.run --only movers", "everything"):
            assert words in written
            assert words in page_
        assert "a &lt;processor&gt;" in page_
        assert "<script" not in page_

    def test_the_figures_of_a_document_are_replaced_and_its_lines_fit(self) -> None:
        document = f"# Title\n\nbefore\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n"
        once = with_figures(document, record_of(asked=asked(ALL, 1, 2, 3)))
        assert once == with_figures(once, record_of(asked=asked(ALL, 1, 2, 3)))
        assert once.startswith("# Title\n\nbefore\n")
        assert once.endswith(f"{END}\n\nafter\n")
        assert "\nold\n" not in once
        assert "mean of all" in once
        assert not [line for line in once.splitlines() if len(line) > WIDTH and not line.startswith("|")]
        with pytest.raises(ValueError, match="figures of tiers"):
            with_figures("nothing", record_of())
