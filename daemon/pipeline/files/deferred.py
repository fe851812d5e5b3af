"""Writes of a start that may wait: a disk that takes nothing keeps no daemon from its database."""

from collections import deque
from collections.abc import Callable
from pathlib import Path

from daemon.core.outcome import reason_of


class Deferred:
    """Steps on the disk, done at once where the disk takes them, and else later, in their order.

    A step may be done twice. folder: the one that an error names.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps: deque[tuple[Callable[[], object], Path | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._steps)

    def release(self, file: Path) -> None:
        """Do what needs a file as it is, before it is removed or replaced.

        Raises:
            OSError: the disk still does not take it.
        """
        if any(file == needed for _, needed in self._steps):
            self.settle()

    def do(self, step: Callable[[], object], file: Path | None = None) -> str | None:
        """Do a step, or keep it for `settle`; return why it was not done.

        file: the one that the step needs as it is; see `release`.
        """
        self._steps.append((step, file))
        try:
            self.settle()
        except OSError as error:
            return str(error)
        return None

    def settle(self) -> None:
        """Do what is left to do.

        Raises:
            OSError: the disk still does not take it.
        """
        while self._steps:
            try:
                self._steps[0][0]()
            except OSError as error:
                raise OSError(f"{self._folder} cannot be written ({reason_of(error)})") from error
            self._steps.popleft()
