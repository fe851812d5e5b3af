"""Runs one process of the server of conditions."""

from daemon.conditions.process import main

if __name__ == "__main__":
    main()
