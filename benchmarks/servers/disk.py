"""What the disk under a server can do."""

import os
import time
from pathlib import Path

FDATASYNCS = 200


def fdatasync_ms(folder: Path) -> float:
    """Median time to append 8 KiB to a file and have it on the disk, in ms: what a commit cannot do without."""
    path = folder / "fdatasync"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        os.pwrite(descriptor, bytes(8192 * FDATASYNCS), 0)
        os.fsync(descriptor)
        times = []
        for k in range(FDATASYNCS):
            begun = time.perf_counter()
            os.pwrite(descriptor, os.urandom(8192), 8192 * k)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - begun)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(times)[FDATASYNCS // 2] * 1e3
