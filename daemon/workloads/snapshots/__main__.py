"""Runs the process of snapshot readers, or that of their clients."""

import os

# What forks must have no thread: numpy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from daemon.workloads.snapshots.process import main

if __name__ == "__main__":
    main()
