"""`triggerlog dead-letters`: the folder as an operator sees it, and files that are there already."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from daemon.pipeline.closed_blocks import aside_parts
from daemon.pipeline.dead_letters import DeadLetters, folder_of
from schemas.batch import Aside, ClosedBlock
from schemas.config import parse_config
from schemas.states import AsideReason
from tests.support.batches import batch_of, readings_of
from tests.support.disks import REAL
from tests.support.processes import here

CONFIGURATION = """
state_dir = "{state}"

[[groups]]
name = "bpm"
count = 3
channels = [{{ name = "x" }}, {{ name = "y" }}]
"""


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A configuration with two dead letters: a trigger, and two readings that were set aside."""
    file = tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(state=tmp_path / "state"))
    group = parse_config(file.read_text()).groups[0].group()
    rng = np.random.default_rng(1)
    readings = readings_of(group, np.array([7, 8]), np.array([1000, 2000]), rng)
    block = batch_of(group, 1, readings[:1])
    aside = Aside(
        readings=readings[1, :2], run=np.array([0, 4], np.int32), reason=np.full(2, int(AsideReason.CONFLICT), np.uint8)
    )
    letters = DeadLetters(folder_of(tmp_path / "state", "bpm"), group, REAL)
    letters.open()
    parts = [(part, "another is there") for part, _ in aside_parts(ClosedBlock(**{**block.parts, "aside": aside}))]
    await letters.keep(letters.address([(block, "out of range"), *parts], 1))
    return file


@pytest.mark.parametrize("name", ["letters.npz", "letters.csv"])
def test_an_export_overwrites_nothing_unless_it_is_told_to(file: Path, tmp_path: Path, name: str) -> None:
    to = tmp_path / name
    to.write_text("the only copy of something")
    done = here("dead-letters", "export", str(file), "--to", str(to))
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "is there already" in line
    assert "--force" in line
    assert to.read_text() == "the only copy of something"
    assert here("dead-letters", "export", str(file), "--to", str(to), "--force").returncode == 0
    assert to.stat().st_size > 100


def test_what_was_set_aside_is_listed_and_exported(file: Path, tmp_path: Path) -> None:
    trigger, aside = json.loads(here("dead-letters", "list", str(file), "--json").stdout)
    assert (trigger["run"], trigger["trigger"], trigger["readings"], trigger["aside"]) == (1, 7, 3, False)
    assert (aside["run"], aside["trigger"], aside["readings"], aside["aside"]) == (None, None, 2, True)
    shown = here("dead-letters", "list", str(file)).stdout
    assert "another is there" in " ".join(shown.split())
    here("dead-letters", "export", str(file), "--to", str(tmp_path / "a.csv"))
    rows = list(csv.reader((tmp_path / "a.csv").read_text().splitlines()))[1:]
    assert [row[:3] for row in rows] == [
        ["1", "7", "0"],
        ["1", "7", "1"],
        ["1", "7", "2"],
        ["0", "8", "0"],
        ["4", "8", "1"],
    ]
    here("dead-letters", "export", str(file), "--to", str(tmp_path / "a.npz"))
    with np.load(tmp_path / "a.npz") as found:
        assert found["bpm"]["run"].tolist() == [1, 1, 1, 0, 4]
        assert found["bpm_letter"].tolist() == [0, 0, 0, 1, 1]
        assert len(found["bpm_ledger"]) == 1
