"""What the benchmark runs on."""

import os
import platform
from pathlib import Path

import psutil

from benchmarks.servers.disk import fdatasync_ms
from benchmarks.wording import number


def machine(folder: Path) -> dict[str, str]:
    """Processor, cores, memory, load and disk, in words. folder: the disk that is meant is the one it is on."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "disk": f"an fdatasync of 8 KiB takes {number(fdatasync_ms(folder))} ms (median)",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
