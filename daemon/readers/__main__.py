"""Runs the process of one reader workload."""

from daemon.readers.process import main

if __name__ == "__main__":
    main()
