"""Runs the process of visits, or a worker of it."""

import os

# A worker that forks must have no thread, and a few thousand numbers are multiplied faster by one: numpy reads this
# when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from daemon.workloads.visits.process import main

if __name__ == "__main__":
    main()
