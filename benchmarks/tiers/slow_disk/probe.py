"""`python -m benchmarks.tiers.slow_disk.probe FOLDER`: what the disk of a folder reads, without the page cache."""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

FILE_MIB = 48
BLOCK = 131_072
PAGE = 8192
RANDOM_S = 2.0
LEAST, MOST = 20, 2000
"""Random reads."""


def measured(folder: Path) -> Mapping[str, float]:
    """Ask the command, in a process that has what is preloaded: `iops` and `mb_per_s`."""
    command = [sys.executable, "-m", "benchmarks.tiers.slow_disk.probe", str(folder)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def probe(folder: Path) -> dict[str, float]:
    """Random reads of 8 KiB a second, and MB a second of a sequential read."""
    path = folder / "probe"
    size = FILE_MIB * 2**20
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.pwrite(file, os.urandom(2**20) * FILE_MIB, 0)
        _forget(file)
        begun = time.perf_counter()
        for offset in range(0, size, BLOCK):
            os.pread(file, BLOCK, offset)
        sequential_s = time.perf_counter() - begun
        _forget(file)
        # The kernel reads no more than what is asked for.
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        pages = random.sample(range(size // PAGE), MOST)
        begun, read = time.perf_counter(), 0
        while read < MOST and (read < LEAST or time.perf_counter() - begun < RANDOM_S):
            os.pread(file, PAGE, pages[read] * PAGE)
            read += 1
        return {"iops": read / (time.perf_counter() - begun), "mb_per_s": size / sequential_s / 1e6}
    finally:
        os.close(file)
        path.unlink()


def _forget(file: int) -> None:
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    json.dump(probe(parser.parse_args().folder), sys.stdout)


if __name__ == "__main__":
    main()
