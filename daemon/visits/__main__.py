"""Runs the process of visits."""

from daemon.visits.process import main

if __name__ == "__main__":
    main()
