"""Dead letters for other programs: a numpy archive, or a table for a spreadsheet."""

import csv
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from daemon.core.words import cell
from daemon.pipeline.dead_letters.folder import DeadLetters
from daemon.pipeline.dead_letters.format import Letter
from daemon.tools.dead_letters.folder import Taken, read_each
from schemas.batch import Aside, ClosedBlock
from schemas.queries import answer_dtype
from schemas.readings import Array, InstrumentGroup


def readings_of(block: ClosedBlock, group: InstrumentGroup) -> Array:
    """The readings of a letter; `answer_dtype(group)`, shape (n,), late ones last.

    Of what assembly set aside, the run is 0 where it is unknown, and the trigger is what the sender said.
    """
    counts = block.present.sum(axis=1)
    of = block.revised[block.late_of]
    aside = block.aside or Aside(readings=block.late[:0], run=of["run"][:0], reason=of["run"][:0])
    runs = np.concatenate([np.repeat(block.ledger["run"], counts), of["run"], aside.run])
    answer = np.empty(len(runs), answer_dtype(group))
    answer["run"] = runs
    answer["trigger"] = np.concatenate(
        [np.repeat(block.ledger["trigger"], counts), of["trigger"], aside.readings["trigger"]]
    )
    for name in ("instrument", "time_ns", *(channel.name for channel in group.channels)):
        answer[name] = np.concatenate([block.readings[name][block.present], block.late[name], aside.readings[name]])
    return answer


def export_npz(path: Path, groups: Sequence[tuple[InstrumentGroup, DeadLetters]]) -> Taken:
    """Write a numpy archive; return what is in it.

    For each group: `GROUP/readings`, as `schemas.queries.answer_dtype`; `GROUP/ledger`, the ledger rows, of a late
    letter the revised one; `GROUP/letter`, to which letter each reading belongs; and `about`, JSON: by group the units
    and the names of the instruments, and of each letter when it was kept and why.

    Raises:
        OSError: it cannot be written.
    """
    arrays: dict[str, Array] = {}
    about: dict[str, Any] = {}
    taken = Taken()
    for group, letters in groups:
        whole = list(read_each(letters, group, taken))
        parts = [readings_of(block, group) for _, block in whole]
        readings = np.concatenate([np.empty(0, answer_dtype(group)), *parts])
        # No group has a slash in its name: none is taken for another's ledger, or for an argument of savez.
        arrays[f"{group.name}/readings"] = readings
        arrays[f"{group.name}/letter"] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        rows = [block.ledger if block.triggers else block.revised for _, block in whole]
        if rows:
            arrays[f"{group.name}/ledger"] = np.concatenate(rows)
        about[group.name] = {
            "instruments": list(group.instruments),
            "units": {"time_ns": "ns since 1970-01-01 UTC", **{each.name: each.unit for each in group.channels}},
            "letters": [as_json(letter) for letter, _ in whole],
        }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)
    return taken


def export_csv(path: Path, group: InstrumentGroup, letters: DeadLetters) -> Taken:
    """Write a row a reading, with the units in the header; return what is in it.

    Raises:
        OSError: it cannot be written.
    """
    channels = [f"{each.name} [{each.unit}]" if each.unit else each.name for each in group.channels]
    head = ["run", "trigger", "instrument", "name", "time_ns [ns since 1970-01-01 UTC]", *channels, "kept", "reason"]
    taken = Taken()
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(map(cell, head))
        for letter, block in read_each(letters, group, taken):
            for run, trigger, instrument, *values in readings_of(block, group).tolist():
                name = group.instruments[instrument]
                row = [run, trigger, instrument, cell(name), *values, clock(letter.kept_ns), cell(letter.reason)]
                rows.writerow(row)
    return taken


def as_json(letter: Letter) -> dict[str, Any]:
    """A letter as JSON gives it."""
    run, trigger = letter.key
    return {
        "run": None if letter.is_aside else run,
        "trigger": None if letter.is_aside else trigger,
        "late": not letter.triggers and not letter.is_aside,
        "aside": letter.is_aside,
        "readings": letter.readings,
        "kept_ns": letter.kept_ns,
        "reason": letter.reason,
        "detail": letter.detail,
    }


def clock(time_ns: int) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
