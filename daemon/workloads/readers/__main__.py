"""Runs the process of one reader workload."""

from daemon.workloads.readers.process import main

if __name__ == "__main__":
    main()
