"""Rows of `positions` in SQL text: which batch moves one, and to what; as `backends.base.is_committed` has it."""

from collections.abc import Mapping

from schemas.batch import Batch


def least_of_ours(batch: Batch) -> int:
    """The least sequence at which a store at our own journal may be before a batch."""
    follows = batch.follows
    if follows is None or not follows.sequence:
        return 0
    # At 0 it would have lost what it acknowledged; else our journal took over, and the answer was lost.
    return follows.sequence if follows.journal == batch.position.journal else 1


def move(table: str, *, key: str, to: Mapping[str, str], least: str, followed: tuple[str, str]) -> str:
    """The statement that moves a position; that it changes no row says that it may not, or that the batch is there.

    key: the condition that names the row. to: by column its new value. least: `least_of_ours`. followed: journal and
    sequence of `batch.follows`, NULL without one. All are SQL.
    """
    journal, sequence = followed
    return (
        f"UPDATE {table} SET {', '.join(f'{name} = {value}' for name, value in to.items())} WHERE {key} AND"
        f" (journal = {to['journal']} AND sequence >= {least} AND sequence < {to['sequence']}"
        f" OR journal <> {to['journal']} AND ({sequence} IS NULL OR sequence = {sequence}"
        f" AND (journal = {journal} OR sequence = 0)))"
    )


def followed(batch: Batch) -> tuple[int, int] | tuple[None, None]:
    """Journal and sequence of the position that a batch follows."""
    return (None, None) if batch.follows is None else (batch.follows.journal, batch.follows.sequence)


def followed_in_sql(batch: Batch) -> tuple[str, str]:
    """The same as constants."""
    journal, sequence = followed(batch)
    return ("NULL", "NULL") if sequence is None else (str(journal), str(sequence))
