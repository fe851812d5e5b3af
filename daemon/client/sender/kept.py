"""What a sender keeps until it is acknowledged."""

from collections import deque


class Kept:
    """Records that are not acknowledged yet, in the pieces in which they were handed over.

    nbytes: how much is kept.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._pieces: deque[tuple[int, int, bytes]] = deque()  # number of the first record, of the one after the last

    def add(self, first: int, end: int, data: bytes) -> None:
        """Keep the records with the numbers first ... end - 1; each piece begins where the one before ended."""
        self._pieces.append((first, end, data))
        self.nbytes += len(data)

    def drop(self, done: int) -> None:
        """Let go of the pieces whose records all have lower numbers."""
        while self._pieces and self._pieces[0][1] <= done:
            self.nbytes -= len(self._pieces.popleft()[2])

    def since(self, number: int) -> memoryview:
        """The records from this number on, in one piece: there may be very many small ones."""
        pieces = [piece for piece in self._pieces if piece[1] > number]
        if not pieces:
            return memoryview(b"")
        first, end, data = pieces[0]
        return memoryview(b"".join(data for _, _, data in pieces))[
            max(0, number - first) * (len(data) // (end - first)) :
        ]
