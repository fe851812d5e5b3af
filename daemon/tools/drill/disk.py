"""A small disk for a drill that fills it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[str | None]:
    """Mount a file system of so many KiB at an empty folder meanwhile; give None, or why that could not be."""
    folder.mkdir()
    if os.geteuid() != 0:
        yield "only root may mount one"
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0755", "triggerlog-drill", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if result.returncode:
        yield result.stderr.strip() or "mount refuses"
        return
    try:
        yield None
    finally:
        # A process may still have it open; it is unmounted when the last one closes it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607
