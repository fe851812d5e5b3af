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

ROOT = Path(__file__).parents[2]
COPIED = ("backends", "daemon", "schemas", "tests/simulation", "tests/__init__.py")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A change of the sources. text: found just once in the file; to: what stands there instead."""

    name: str
    file: str
    text: str
    to: str


MUTANTS: tuple[Mutant, ...] = ()


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


def run(mutant: Mutant, seeds: int, jobs: int) -> str | None:
    """Run seeds against a mutant; return the first finding, None where there is none."""
    with tempfile.TemporaryDirectory(prefix="triggerlog-mutant-") as name:
        copy_with(mutant, Path(name))
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", *f"--most 1 --shrink 0 --seeds {seeds} --jobs {jobs}".split()],
            cwd=name,
            env={**os.environ, "PYTHONPATH": name},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return None
    found = re.search(r"^seed \d+: .*", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{mutant.name}: {done.stdout}{done.stderr}")
    return found[0]


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="those to run, by a part of their names; all when left out")
    parser.add_argument("--seeds", type=int, default=1000, help="how many are run at most against each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    status = 0
    for mutant in MUTANTS:
        if arguments.names and not any(name in mutant.name for name in arguments.names):
            continue
        finding = run(mutant, arguments.seeds, arguments.jobs)
        say(f"{mutant.name}: {finding[:200] if finding else f'not found by {arguments.seeds} seeds'}")
        status |= finding is None
    return status


if __name__ == "__main__":
    sys.exit(main())
