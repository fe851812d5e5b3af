"""What the benchmark runs on."""

import os
import platform
from pathlib import Path

import psutil

from benchmarks.report.formatting import number
from benchmarks.servers.disk import fdatasync_ms
from daemon.core.process.processor import processor


def machine(folder: Path) -> dict[str, str]:
    """Processor, cores, memory, load and disk, in words. folder: the disk that is meant is the one it is on."""
    return {
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "disk": f"an fdatasync of 8 KiB takes {number(fdatasync_ms(folder))} ms (median)",
        "python": platform.python_version(),
    }
