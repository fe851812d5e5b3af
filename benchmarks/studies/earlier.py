"""An earlier commit beside this one: its sources in a folder of their own, and processes that find them."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(tree: Path) -> dict[str, str]:
    """Have a process find the sources of a tree before those that are installed."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}


def tree_of(commit: str, folder: Path) -> Path:
    """The sources of a commit, in a folder of their own."""
    tree = folder / "earlier"
    tree.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "--extract", "--directory", tree], input=archive, check=True)
    return tree
