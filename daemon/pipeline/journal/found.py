"""What is found in a journal at the start."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.pipeline.journal.segment import Damage, Scan
from schemas.readings import Array


@dataclass(kw_only=True)
class Amount:
    """How much waits somewhere."""

    blocks: int = 0
    triggers: int = 0
    readings: int = 0

    def change(self, triggers: int, readings: int, blocks: int) -> None:
        """Add, or take away what is negative."""
        self.triggers += triggers
        self.readings += readings
        self.blocks += blocks

    def plus(self, other: "Amount") -> "Amount":
        """Both together."""
        return Amount(
            blocks=self.blocks + other.blocks,
            triggers=self.triggers + other.triggers,
            readings=self.readings + other.readings,
        )

    def less(self, other: "Amount") -> "Amount":
        """What is left without the other."""
        return Amount(
            blocks=self.blocks - other.blocks,
            triggers=self.triggers - other.triggers,
            readings=self.readings - other.readings,
        )


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A segment of another journal. journal: its id; 0 where the head is not whole."""

    path: Path
    journal: int
    amount: Amount


@dataclass(frozen=True, kw_only=True)
class JournalRecovery:
    """What was found at the start.

    amount: what the database lacks. held: what it has, and is kept all the same; INDEX. damages: what could not be
    read, and is set aside in `copies`.
    loose: whole records behind a hole: what they follow, from one number to another (`hole`), is lost. foreign:
    segments of other journals. Both are left where they are; see `read_loose` and `read_foreign`.
    reach: the last number of the history, which the database may have.
    state: what the head of the newest segment of the history holds; with the blocks above `state_at` it is how things
    are. newest_state: what the head of the newest segment of this journal holds, history or not.
    problem: why what was found is not surely on the disk, else None; syncing tries again.
    """

    amount: Amount
    held: Array
    damages: tuple[Damage, ...]
    copies: tuple[Path, ...]
    loose: Amount
    hole: tuple[int, int] | None
    foreign: tuple[Foreign, ...]
    reach: int
    state: bytes
    state_at: int
    newest_state: bytes
    problem: str | None


def amount_of(parts: Sequence[Array]) -> Amount:
    """How much records hold together; INDEX."""
    return Amount(
        blocks=sum(len(records) for records in parts),
        triggers=sum(int(records["triggers"].sum()) for records in parts),
        readings=sum(int(records["readings"].sum()) for records in parts),
    )


def journal_of(found: Scan) -> int:
    """The id of the journal that a segment says it is of; 0 where its head is not whole."""
    return 0 if found.head is None else found.head.journal


def foreign(found: Scan) -> Foreign:
    """What a segment of another journal holds."""
    return Foreign(path=found.path, journal=journal_of(found), amount=amount_of([found.records]))
