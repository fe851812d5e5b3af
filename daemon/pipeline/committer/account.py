"""The account of one group: how much this logger ever committed into it, and where that leaves the store."""

from dataclasses import dataclass

from backends.columns.filling import readings_in
from daemon.pipeline.backlog import Waiting
from daemon.pipeline.files import Amount
from daemon.pipeline.placing import Placed
from schemas.batch import ClosedBlock, JournalPosition


@dataclass(kw_only=True)
class CommitCounts:
    """Counts since the start."""

    commits: int = 0
    retries: int = 0
    triggers: int = 0
    readings: int = 0
    dead_triggers: int = 0
    dead_readings: int = 0
    placed: int = 0  # readings that assembly had set aside for the database to tell where they go
    placed_doubtful: int = 0  # of these, those that were doubtful
    late_aside: int = 0  # readings that assembly had as late, and that are set aside, whoever closed their block
    placed_doubles: int = 0  # readings that were there already, of these and of late ones

    def place(self, placed: Placed, sign: int = 1) -> None:
        """Count what placing did to a block, or take it back."""
        self.placed += sign * placed.aside
        self.placed_doubtful += sign * placed.doubtful
        self.late_aside += sign * placed.late
        self.placed_doubles += sign * placed.doubles


class Account:
    """Counts what is committed on from what the store had of this logger at the start.

    counts: what this process committed. journal: the id that numbers are of.
    at_start: what of the account is of earlier processes. acknowledged: where the store is by what it said last.
    follows: the same, for the next batch to say.
    """

    def __init__(self, counts: CommitCounts, journal: int, at_start: JournalPosition) -> None:
        self._counts = counts
        self._journal = journal
        self.at_start = self.acknowledged = at_start
        self.follows = at_start

    def position(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> JournalPosition:
        """Where the store will be once it has these, too: what is good of these blocks."""
        before, since = self.at_start, self._counts
        return JournalPosition(
            sequence=blocks[-1].number,
            state=blocks[-1].state.encoded,
            triggers=before.triggers + since.triggers + sum(part.triggers for part in parts),
            readings=before.readings + since.readings + sum(readings_in(part) for part in parts),
            journal=self._journal,
        )

    def commit(self, parts: list[ClosedBlock], blocks: list[Waiting]) -> int:
        """The store has these; return how many readings they are."""
        self.acknowledged = self.follows = self.position(parts, blocks)
        readings = sum(readings_in(part) for part in parts)
        self._counts.commits += 1
        self._counts.triggers += sum(part.triggers for part in parts)
        self._counts.readings += readings
        return readings

    def go_back(self, found: JournalPosition, *, is_alone: bool) -> tuple[Amount, int]:
        """The store is there; return what it has lost: what this process committed, and readings of earlier ones.

        is_alone: the position alone is gone, since an operator removed a row: what is in the account is there.
        """
        was, self.follows = self.acknowledged, found
        if is_alone:
            return Amount(), 0
        self.acknowledged = found
        # Neither came in nor was committed, as far as this process is concerned, what was so before it began.
        triggers = max(0, min(was.triggers - found.triggers, self._counts.triggers))
        readings = max(0, min(was.readings - found.readings, self._counts.readings))
        self._counts.triggers -= triggers
        self._counts.readings -= readings
        self.at_start = JournalPosition(
            sequence=min(self.at_start.sequence, found.sequence),
            triggers=found.triggers - self._counts.triggers,
            readings=found.readings - self._counts.readings,
        )
        return Amount(triggers=triggers, readings=readings), max(0, was.readings - found.readings - readings)
