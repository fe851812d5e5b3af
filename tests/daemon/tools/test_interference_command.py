import io
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.interference.analysis import analysed
from daemon.core.outcome import CommandFailed
from daemon.tools.options import NamedConnection
from daemon.tools.workloads.experiment import _line
from daemon.tools.workloads.interference import interference, say_result
from schemas.api.interference import Experiment, Record
from schemas.checking.problems import ConfigError
from tests.support.interference_records import SCAN, made_record
from tests.support.processes import running, triggerlog

pytestmark = pytest.mark.slow

SMALL = ("--instruments", "6", "--rate", "40", "--fill", "200", "--warm-up", "0.3")


def test_a_throw_away_run_from_the_command_line(tmp_path: Path) -> None:
    html = tmp_path / "found.html"

    done = triggerlog(
        "interference",
        *SMALL,
        "--workload",
        "scan:1:0.1",
        "--workload",
        "orbit:1:0.1",
        "--pairs",
        "2",
        "--block",
        "1",
        "-o",
        str(html),
        timeout_s=240,
    )

    assert done.returncode == 0, done.stderr
    record = Record.model_validate_json(html.with_suffix(".json").read_bytes())
    assert [block.kind for block in record.blocks] == list("ABABA")
    assert record.conditions.stored >= 200
    assert record.settings.workloads[0].period_s == 0.1
    for name in ("scan", "orbit"):
        assert all(block.workloads[name].failed == 0 for block in record.blocks)
        assert all((block.workloads[name].cycles > 0) == (block.kind == "B") for block in record.blocks)
    assert record.result is not None
    assert record.result.headline in re.sub(r"\s+", " ", done.stdout)
    report = html.read_text()
    assert record.result.headline in report
    again = (
        "triggerlog interference --backend postgresql --layout rows --rate 40 --instruments 6 --fill 200 --budget 100"
    )
    assert (
        record.command == f"{again} --workload scan:1:0.1:1 --workload orbit:1:0.1:1 --pairs 2 --block 1 --warm-up 0.3"
    )
    assert record.command in report
    assert "5/5 A no readers added" in done.stderr


def test_ctrl_c_ends_it_in_order_and_keeps_what_was_measured(tmp_path: Path) -> None:
    html = tmp_path / "cut.html"
    command = ["interference", *SMALL, "--workload", "newest:1:0.1", "--pairs", "5", "--block", "1", "--doses", "0,1,2"]

    with running(*command, "-o", str(html)) as run:
        run.until_said(r"3/21 A no readers added", 120)
        assert run.end(signal.SIGINT, 120) == 0, run.said

    record = json.loads(html.with_suffix(".json").read_text())
    assert (record["state"], record["problem"]) == ("stopped", "it was stopped on request")
    assert record["settings"]["doses"] == [1, 2]
    assert len([block for block in record["blocks"] if block["whole"]]) >= 3
    assert "It was stopped before its end: it was stopped on request." in html.read_text()


def test_the_terminal_says_the_notes_and_which_blocks_are_left_out() -> None:
    record = made_record(Experiment(workloads=(SCAN,), pairs=2))
    note = "The governor was changed in block 2: it is off."
    said = Console(file=io.StringIO(), width=200)
    say_result(record.model_copy(update={"result": analysed(record), "notes": [note]}), said)
    assert isinstance(said.file, io.StringIO)
    assert note in said.file.getvalue().splitlines()
    block = record.blocks[2]
    ends = [_line(block.model_copy(update=update), 5) for update in ({}, {"drained": False}, {"whole": False})]
    assert ends == [ends[0], f"{ends[0]}, left out", f"{ends[0]}, cut short"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workload": ["scam"]}, "kind: 'scam' is not known here; did you mean `scan`?"),
        ({"doses": "1,x"}, "--doses: '1,x' are no numbers of clients; give some like 1,2,4,8"),
        ({"block": 2.0}, "warm_up_s: not less than block_s, which is 2; leave something of the block to measure"),
        (
            {"output": Path("report.txt")},
            "--output: report.txt does not end in .html; the figures go next to it, as JSON",
        ),
        (
            {"connection": NamedConnection(daemon="http://127.0.0.1:9"), "rate": 5.0},
            "--rate: is of a throw-away daemon; leave it out, or leave FILE and --daemon out",
        ),
        ({"connection": NamedConnection(daemon="http://127.0.0.1:9")}, "no daemon at http://127.0.0.1:9"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises((CommandFailed, ConfigError)) as refused:
        interference(**{"connection": NamedConnection(), **options})
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
