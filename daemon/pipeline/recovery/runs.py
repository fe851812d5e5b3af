"""Runs: one number for all groups, so that (run, trigger) means the same in every table."""


class Runs:
    """Numbers the runs of a daemon.

    Each group notices a restart of the timing system by itself, one a little after the other. The first to notice
    opens a number, and the others join it.
    """

    def __init__(self, current: int = 1) -> None:
        self.current = current

    def after(self, run: int) -> int:
        """The number for a group whose run `run` has ended."""
        if self.current <= run:
            self.current = run + 1
        return self.current
