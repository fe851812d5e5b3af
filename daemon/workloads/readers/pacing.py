"""When a client of a workload is due to ask, and how it slips when it is late. Pure: the clock is the caller's."""

import math

FAILED_PAUSE_S = 0.5
"""A client whose question failed waits at least this long: a database that is away is not asked in a busy loop."""


class Pace:
    """The pace of one client, in seconds of one clock.

    A client that has no answer yet when its next question is due asks again as soon as it has, and all its later
    questions move by that lateness, as in the paper on snapshot readers (COOL for Atlas): never does it catch up by
    asking more often than once in a period.

    While it is held back to a share of its time, the time from one question to the next is so much longer.

    Args:
        first_s: when it asks first.
        period_s: time between the starts of two questions; 0 asks again as soon as the answer is there, and knows no
            lateness.
    """

    def __init__(self, first_s: float, period_s: float) -> None:
        self.due_s = first_s
        self._asked_s = self._free_s = first_s
        self._period_s = period_s

    def answered(self, now_s: float, share: float = 1.0) -> float:
        """Settle when it is due next after an answer; return by how much its questions slip, in seconds."""
        due_s = self.due_s + self._period_s
        self._settle(max(due_s, now_s), share)
        return self._free_s - due_s if self._period_s else 0.0

    def failed(self, now_s: float, share: float = 1.0) -> None:
        """Settle when it is due next after a question without an answer."""
        self._settle(now_s + max(self._period_s, FAILED_PAUSE_S), share)

    def shared(self, share: float) -> None:
        """Settle again when it is due next, for another share of its time (above 0, up to 1)."""
        self.due_s = self._asked_s + (self._free_s - self._asked_s) / share

    def _settle(self, free_s: float, share: float) -> None:
        """free_s: when it would be due if nobody held it back."""
        self._asked_s, self._free_s = self.due_s, free_s
        self.shared(share)

    def admitted(self, now_s: float) -> None:
        """Settle when it is due next after it was held back: in step with the others, and without what it missed."""
        missed_s = now_s - self.due_s
        if missed_s <= 0:
            return
        periods = math.ceil(missed_s / self._period_s) if self._period_s else 0
        self.due_s = self._asked_s = self._free_s = max(now_s, self.due_s + periods * self._period_s)
