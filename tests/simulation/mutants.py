"""Mutants: each takes one protection out of a copy of the sources, and seeds are run until one finds it.

`python -m tests.simulation.mutants` runs all of them, or those that are named, and exits with 1 where one is not found.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.__main__ import say
from tests.simulation.seeds import run_seed

ROOT = Path(__file__).parents[2]
COPIED = ("backends", "daemon", "schemas", "tests/simulation", "tests/__init__.py")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of the sources. text: found just once in the file; to: what stands there instead."""

    name: str
    file: str
    text: str
    to: str


MUTANTS = (
    Mutant(
        name="believe what an earlier life wrote without a sync",
        file="daemon/pipeline/journal/journal.py",
        text='            segment.is_durable = int(segment.records["sequence"].max(initial=0)) <= synced\n',
        to="            segment.is_durable = True\n",
    ),
    Mutant(
        name="sync the same file again after a failed sync",
        file="daemon/pipeline/journal/journal.py",
        text=(
            "                self._writer.sync()\n"
            "            except OSError:\n"
            "                self._end_segment()\n"
            "                raise\n"
        ),
        to=(
            "                self._writer.sync()\n"
            "            except OSError:\n"
            "                self._is_dirty = False\n"
            "                raise\n"
        ),
    ),
    Mutant(
        name="do not sync the name of a segment",
        file="daemon/pipeline/journal/segment.py",
        text=("            self._disk.sync_folder(self.path.parent)\n            self._is_named = True\n"),
        to="            self._is_named = True\n",
    ),
    Mutant(
        name="do not sync the names of the journal's folders",
        file="daemon/pipeline/journal/journal.py",
        text=(
            "        self._disk.make_folder(self._folder)\n"
            "        # An earlier process may have made it, and ended before it was on the disk.\n"
            "        self._disk.sync_folder(self._folder.parent.parent)\n"
            "        self._disk.sync_folder(self._folder.parent)\n"
            "        self._take_lock()\n"
        ),
        to=("        self._disk.make_folder(self._folder)\n        self._take_lock()\n"),
    ),
    Mutant(
        name="do not sync dead letters",
        file="daemon/pipeline/dead_letters/folder.py",
        text=("            writer.append(records)\n            writer.sync()\n"),
        to="            writer.append(records)\n",
    ),
    Mutant(
        name="acknowledge as spooled what is written and not synced",
        file="daemon/pipeline/backlog.py",
        text="        self._spooled(max(0, state.synced + 1 - self._first - self._settled_here))\n",
        to="        self._spooled(max(0, state.written + 1 - self._first - self._settled_here))\n",
    ),
    Mutant(
        name="believe what lies behind a hole of the journal",
        file="daemon/pipeline/journal/chain.py",
        text="    is_whole: Array = follows <= before\n",
        to="    is_whole: Array = follows <= before.max(initial=2**62)\n",
    ),
    Mutant(
        name="trim a journal by the position of another one",
        file="daemon/pipeline/journal/chain.py",
        text="    held = position.sequence if position is not None and position.journal == journal else 0\n",
        to="    held = position.sequence if position is not None else 0\n",
    ),
    Mutant(
        name="take a journal for history that does not lead on",
        file="daemon/pipeline/recovery/recovery.py",
        text="    leads_on = _leads_on(journal.id, noted, position)\n",
        to="    leads_on = True\n",
    ),
    Mutant(
        name="do not take the readings of loose and foreign blocks again",
        file="daemon/pipeline/recovery/recovery.py",
        text="    again = [*journal.read_loose(), *journal.read_foreign()]\n",
        to="    again = list[ClosedBlock]()\n",
    ),
    Mutant(
        name="commit a batch again whose number is there",
        file="backends/base.py",
        text=("    if is_ours and found.sequence >= to.sequence:\n        return True\n"),
        to=("    if is_ours and found.sequence > to.sequence:\n        return True\n"),
    ),
    Mutant(
        name="do not see that the database is behind",
        file="backends/base.py",
        text="        raise CommitsLost(found)\n",
        to="        return False\n",
    ),
    Mutant(
        name="hold nothing of what an asynchronous database may lose",
        file="daemon/pipeline/committer.py",
        text="HOLD_TIMES * risk_ms / 1e3)\n",
        to="0.0)\n",
    ),
    Mutant(
        name="write in parts without a note",
        file="tests/simulation/store.py",
        text="TAKES_OUT = True\n",
        to="TAKES_OUT = False\n",
    ),
    Mutant(
        name="do not fence the older connection of a session",
        file="daemon/sources/tcp/source.py",
        text=("            if older is not None:\n                older.fence()\n"),
        to=("            if older is not None:\n                pass\n"),
    ),
    Mutant(
        name="go on with a session where it was received, not settled",
        file="daemon/pipeline/assembly/sessions.py",
        text="        resume = max(first, known.settled)\n",
        to="        resume = max(first, known.settled, known.received)\n",
    ),
    Mutant(
        name="take a conflict for a double",
        file="daemon/pipeline/assembly/assembly.py",
        text=("        new = self.sessions.is_new(origin)\n        double ="),
        to=("        new = self.sessions.is_new(origin) & False\n        double ="),
    ),
    Mutant(
        name="forget what is set aside",
        file="daemon/pipeline/assembly/assembly.py",
        text="        self._set_aside(block[new], origin[new], run.run, AsideReason.CONFLICT)\n",
        to="",
    ),
    Mutant(
        name="one run for all epochs",
        file="daemon/pipeline/assembly/assembly.py",
        text=('        epochs = block["epoch"]\n        if (epochs == epochs[:1]).all():\n'),
        to=('        block["epoch"] = 0\n        epochs = block["epoch"]\n        if (epochs == epochs[:1]).all():\n'),
    ),
)


class NoSuchText(Exception):
    """The text of a mutant is not in its file, or several times: the sources have changed."""


def copy_with(mutant: Mutant | None, folder: Path) -> None:
    """Copy the sources, changed."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so.lock"))
        elif source.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    if mutant is not None:
        path = folder / mutant.file
        before = path.read_text()
        if before.count(mutant.text) != 1:
            raise NoSuchText(f"{mutant.name}: {mutant.file} has its text {before.count(mutant.text)} times")
        path.write_text(before.replace(mutant.text, mutant.to))


def run(mutant: Mutant, seeds: int, jobs: int, skip: set[int]) -> str | None:
    """Run seeds against a mutant; return the first finding, None where there is none.

    skip: seeds that have findings without any mutant, to which those found on the way are added.
    """
    with tempfile.TemporaryDirectory(prefix="triggerlog-mutant-") as name:
        copy_with(mutant, Path(name))
        while True:
            found = _first_finding(Path(name), f"--seeds {seeds} --jobs {jobs}", skip)
            if found is None or not run_seed(int(found[1])).findings:
                return None if found is None else found[0]
            skip.add(int(found[1]))


def _first_finding(tree: Path, arguments: str, skip: set[int]) -> re.Match[str] | None:
    command = [sys.executable, "-m", "tests.simulation", *f"--most 1 --shrink 0 {arguments}".split()]
    done = subprocess.run(
        [*command, "--skip", *map(str, sorted(skip))],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    found = re.search(r"^seed (\d+): .*", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{tree}: {done.stdout}{done.stderr}")
    return found


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="those to run, by a part of their names; all when left out")
    parser.add_argument("--seeds", type=int, default=1000, help="how many are run at most against each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    status, skip = 0, set[int]()
    for mutant in MUTANTS:
        if arguments.names and not any(name in mutant.name for name in arguments.names):
            continue
        finding = run(mutant, arguments.seeds, arguments.jobs, skip)
        say(f"{mutant.name}: {finding[:200] if finding else f'not found by {arguments.seeds} seeds'}")
        status |= finding is None
    return status


if __name__ == "__main__":
    sys.exit(main())
