"""The machine: its processor, cores and memory."""

import os
import platform
from pathlib import Path

import psutil


def processor() -> str:
    """Its name as Linux tells it; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine() -> dict[str, str]:
    """The processor, its cores, the memory, and Python's version."""
    return {
        "processor": processor(),
        "cores": str(os.cpu_count() or 1),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "python": platform.python_version(),
    }
