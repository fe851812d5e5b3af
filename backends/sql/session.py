"""A connection to a SQL database for stores whose calls are transactions, and what is shared of their SQL.

Statements have their values as $1, $2, ...; each as often, and in whatever order, as the text needs.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

WRITE = "write"
READ = "read"
"""How a transaction begins: to change something; or to see everything as it is at one moment."""

Rows = Sequence[Sequence[Any]]


class SqlSession(ABC):
    """One connection, used by one caller at a time."""

    @abstractmethod
    def quoted(self, table: str) -> str:
        """Name of a table of the schema, quoted."""

    @abstractmethod
    def terminate(self) -> None:
        """End the connection now."""

    @abstractmethod
    async def begin(self, kind: str) -> None:
        """Begin a transaction: WRITE or READ."""

    @abstractmethod
    async def end(self, *, commit: bool) -> None:
        """Commit the transaction, or roll it back."""

    @abstractmethod
    async def fetch(self, text: str, *values: Any) -> Rows:
        """The rows that a query finds."""

    @abstractmethod
    async def run(self, text: str, *values: Any) -> None:
        """Run a statement that gives no rows."""

    @abstractmethod
    async def insert(self, table: str, **values: Any) -> int | None:
        """Insert a row, and return the id that it gets; None where a row with its name is there."""

    @abstractmethod
    async def insert_rows(self, table: str, columns: Sequence[str], rows: Rows) -> None:
        """Insert rows, as fast as it goes where they are many."""


def placeholders(count: int, first: int = 1) -> str:
    """$1, $2, ...: so many, to be compared with IN."""
    return ", ".join(f"${number}" for number in range(first, first + count))
