"""Processor time: of the whole machine, and of a process with those that it started."""

import contextlib

import psutil


def machine_seconds() -> tuple[float, float]:
    """Seconds in which the cores did something, and all, since the machine's start; of all cores together."""
    machine = psutil.cpu_times()
    idle = machine.idle + getattr(machine, "iowait", 0.0)
    # Linux counts what guests use among what users do, too.
    everything = sum(machine) - getattr(machine, "guest", 0.0) - getattr(machine, "guest_nice", 0.0)
    return everything - idle, everything


def family_seconds(first: psutil.Process) -> float:
    """Processor time of a process and of all below it, those that have ended among them.

    Raises:
        psutil.Error: it is gone.
    """
    own = first.cpu_times()
    seconds = own.user + own.system + own.children_user + own.children_system
    for process in first.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system
    return float(seconds)
