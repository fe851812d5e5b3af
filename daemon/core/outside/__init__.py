"""What the daemon needs of the machine that it runs on: clocks, disk, randomness and threads.

`Outside` holds one of each, and is passed to what needs it, so that a test can put its own in their place. `clock`,
`disk` and `workers` each define a protocol and the real thing.
"""

from daemon.core.outside.clock import Clock, Instant, SystemClock, monotonic_ns, now
from daemon.core.outside.disk import Disk, File, Lock, SystemDisk
from daemon.core.outside.outside import Outside
from daemon.core.outside.workers import Stepper, ThreadWorkers, Workers

__all__ = [
    "Clock",
    "Disk",
    "File",
    "Instant",
    "Lock",
    "Outside",
    "Stepper",
    "SystemClock",
    "SystemDisk",
    "ThreadWorkers",
    "Workers",
    "monotonic_ns",
    "now",
]
