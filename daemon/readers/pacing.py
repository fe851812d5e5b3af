"""When a client of a workload is due to ask, and how it slips when it is late. Pure: the clock is the caller's."""

import math

FAILED_PAUSE_S = 0.5
"""A client whose question failed waits at least this long: a database that is away is not asked in a busy loop."""


class Pace:
    """The pace of one client, in seconds of one clock.

    A client that has no answer yet when its next question is due asks again as soon as it has, and all its later
    questions move by that lateness, as in the paper on snapshot readers (COOL for Atlas): never does it catch up by
    asking more often than once in a period.

    Args:
        first_s: when it asks first.
        period_s: time between the starts of two questions; 0 asks again as soon as the answer is there, and knows no
            lateness.
    """

    def __init__(self, first_s: float, period_s: float) -> None:
        self.due_s = first_s
        self._period_s = period_s

    def answered(self, now_s: float) -> float:
        """Settle when it is due next after an answer; return by how much its questions slip, in seconds."""
        due_s = self.due_s + self._period_s
        self.due_s = max(due_s, now_s)
        return self.due_s - due_s if self._period_s else 0.0

    def failed(self, now_s: float) -> None:
        """Settle when it is due next after a question without an answer."""
        self.due_s = now_s + max(self._period_s, FAILED_PAUSE_S)

    def admitted(self, now_s: float) -> None:
        """Settle when it is due next after it was held back: in step with the others, and without what it missed."""
        missed_s = now_s - self.due_s
        if missed_s <= 0:
            return
        periods = math.ceil(missed_s / self._period_s) if self._period_s else 0
        self.due_s = max(now_s, self.due_s + periods * self._period_s)
