"""Origins: of which connection each reading is."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from schemas.readings import Array


@dataclass(frozen=True, slots=True)
class Origin:
    """Which reading of which connection each reading of a block is, for acknowledgements.

    column: int32, shape (n,), the connection's column in the receipts.
    sequence: int64, shape (n,), number of the reading on its connection, from 0, ascending for each column.
    """

    column: Array
    sequence: Array

    def __getitem__(self, part: Array | slice) -> Self:
        return type(self)(self.column[part], self.sequence[part])

    @property
    def wanted(self) -> Self:
        """Those whose connections want acknowledgements."""
        wanted = self.column >= 0
        return self if wanted.all() else self[wanted]

    @classmethod
    def of(cls, column: int, first: int, count: int) -> Self:
        """`count` readings in a row of one connection."""
        return cls(np.full(count, column, np.int32), np.arange(first, first + count, dtype=np.int64))
