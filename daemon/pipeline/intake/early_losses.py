"""Readings that were refused, or lost on their way, before there was a pipeline to count them."""

from collections import Counter

from daemon.core.monitoring.events import Events
from daemon.pipeline.losses import MOST_LOST
from daemon.pipeline.pipeline import Pipeline


class EarlyLosses:
    """Counts until a pipeline has them. refused, lost: readings, by reason."""

    def __init__(self, group: str, events: Events) -> None:
        self.refused: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self._group = group
        self._events = events

    def drop(self, reason: str, count: int) -> None:
        """Count readings that a source had to throw away; of each reason the first is told, and the sum at the end."""
        if reason not in self.refused:
            self._events.warning(
                f"group {self._group}: readings are refused ({reason}), since the database cannot be used yet; the"
                " status counts them"
            )
        self.refused[reason] += count

    def lose(self, readings: int, reason: str) -> None:
        """Count readings that are proven lost on their way."""
        self.lost[reason] = min(MOST_LOST, self.lost[reason] + readings)

    def hand_over(self, pipeline: Pipeline) -> None:
        """Let a pipeline count them."""
        for reason, count in self.refused.items():
            pipeline.drop(reason, count)
        for reason, count in self.lost.items():
            pipeline.note_lost(count, reason)
        self.refused.clear()
        self.lost.clear()

    def end(self, unsynced: int) -> None:
        """Report what no later process knows of. unsynced: readings that are not in the log either."""
        if unsynced:
            self._events.error(
                f"group {self._group}: {unsynced} readings that came since the start are not in the journal, and"
                " nowhere else; TCP senders that ask for acknowledgements still have theirs"
            )
        found = [f"{count} refused ({reason})" for reason, count in self.refused.items() if count]
        found += [f"{count} lost on their way ({reason})" for reason, count in self.lost.items() if count]
        if found:
            self._events.warning(
                f"group {self._group}: of readings since the start, while the database did not answer:"
                f" {', '.join(found)}"
            )
