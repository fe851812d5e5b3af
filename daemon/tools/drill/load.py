"""The load of a drill: senders that reconnect, and which readings of each are acknowledged."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from daemon.client.sender import Sender, SenderError
from daemon.tools.drill.machine import GROUP, Machine
from schemas.readings import Array
from schemas.wire import Ack

HOST = "127.0.0.1"
BUFFER_MIB = 256.0

ACKS = (Ack.COMMITTED, Ack.RECEIVED, Ack.COMMITTED, Ack.RECEIVED)
"""What the senders ask for; each serves every fourth instrument, so that no trigger is complete without all four."""


class Stream:
    """One sender, and the instruments it serves.

    events: how many it has sent, from event 1 on. said: about its connection; the last line counts.
    """

    def __init__(
        self,
        name: str,
        sender: Sender,
        machine: Machine,
        *,
        ack: Ack,
        instruments: Array,
        delay_s: float,
        said: Sequence[str],
    ) -> None:
        self.name = name
        self.ack = ack
        self.said = said
        self.instruments = instruments
        self.events = 0
        self.last: float = math.inf
        self._sender = sender
        self._machine = machine
        self._delay_s = delay_s

    @property
    def sent(self) -> int:
        """Readings handed to the sender."""
        return self._sender.sent

    @property
    def acknowledged(self) -> int:
        """How many readings, from the first on, the daemon has acknowledged."""
        return self._sender.acknowledged

    @property
    def refused(self) -> int:
        """Readings the daemon refused for good; a drill sends none that it may refuse."""
        return self._sender.refused

    @property
    def reconnects(self) -> int:
        """How often it reconnected."""
        return self._sender.reconnects

    @property
    def situation(self) -> str:
        """Return how far it is, and what it waits for, in one line."""
        done = f"{self.sent} readings up to event {self.events} sent, {self.acknowledged} acknowledged ({self.ack})"
        return f"{self.name}: {done}, {self.refused} refused, {self.reconnects} reconnects; {self.said[-1]}"

    async def run(self, began: float) -> None:
        """Send event after event, each when it is due, until the last."""
        loop = asyncio.get_running_loop()
        while self.events < self.last:
            event = self.events + 1
            due = began + event / self._machine.rate + self._delay_s
            # What is late is sent at once; sleeping for 0 s lets the others run.
            await asyncio.sleep(max(0.0, due - loop.time()))
            taken = self.instruments[self._machine.taken(event, self.instruments)]
            block = np.zeros(len(taken), self._sender.record)
            self._machine.fill(block, event, taken)
            self.events = event
            if len(block):
                await self._sender.send(block)

    def mark(self, matrix: Array, readings: int) -> None:
        """Mark the first so many readings in a bool matrix of shape (events, instruments); row 0 is event 1."""
        taken = self._machine.taken(np.arange(1, len(matrix) + 1)[:, None], self.instruments)
        order = np.cumsum(taken.reshape(-1)).reshape(taken.shape)
        matrix[:, self.instruments] = taken & (order <= readings)

    async def settle(self, timeout_s: float) -> None:
        """Wait until all that was sent is acknowledged.

        Raises:
            SenderError: nothing was acknowledged for so long, and something is awaited.
        """
        while True:
            acknowledged = self.acknowledged
            try:
                return await self._sender.drain_acknowledged(timeout_s)
            except SenderError:
                if self.acknowledged == acknowledged:
                    raise

    async def close(self) -> None:
        """Close the connection."""
        await self._sender.close()


class Load:
    """All senders of a drill."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.streams: list[Stream] = []
        self._running: list[asyncio.Task[None]] = []

    async def start(self, port: int) -> None:
        """Connect, and begin to send.

        Raises:
            SenderError, ProtocolError: the daemon does not take them.
        """
        for name, ack, instruments, delay_s in self._shares():
            said = deque(["connected"], maxlen=1)
            sender = await Sender.connect(
                HOST,
                port,
                GROUP,
                sender=name,
                ack=ack,
                reconnect=True,
                buffer_mib=BUFFER_MIB,
                on_problem=said.append,
            )
            self.streams.append(
                Stream(name, sender, self.machine, ack=ack, instruments=instruments, delay_s=delay_s, said=said)
            )
        began = asyncio.get_running_loop().time()
        self._running = [asyncio.create_task(stream.run(began)) for stream in self.streams]

    async def finish(self, timeout_s: float) -> None:
        """Send what is due, all streams to the same event, and wait until everything is acknowledged.

        Raises:
            SenderError, ProtocolError: a sender gave up, or not all was acknowledged in time.
        """
        last = self.events + 1
        for stream in self.streams:
            stream.last = last
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*self._running)
        except TimeoutError:
            pass  # the result counts what is missing as not acknowledged
        await asyncio.gather(*(stream.settle(timeout_s) for stream in self.streams))

    def restart_numbers(self) -> None:
        """Let the timing system restart: with the next event that nothing was sent of, triggers begin at 1 again."""
        self.machine.runs.restart(self.events + 1)

    async def close(self) -> None:
        """Stop all senders."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for stream in self.streams:
            await stream.close()

    def check(self) -> None:
        """Check that every sender still runs.

        Raises:
            SenderError, ProtocolError: a sender gave up.
        """
        for task in self._running:
            if task.done():
                task.result()

    @property
    def events(self) -> int:
        """The newest event of which any reading may have been sent."""
        return max((stream.events for stream in self.streams), default=0)

    @property
    def sent(self) -> int:
        """Readings sent."""
        return sum(stream.sent for stream in self.streams)

    @property
    def acknowledged(self) -> int:
        """Readings acknowledged."""
        return sum(stream.acknowledged for stream in self.streams)

    @property
    def refused(self) -> int:
        """Readings refused."""
        return sum(stream.refused for stream in self.streams)

    @property
    def committing(self) -> Sequence[Stream]:
        """The streams whose readings are acknowledged once they are in the database."""
        return [stream for stream in self.streams if stream.ack is Ack.COMMITTED]

    def marked(self, *, acknowledged: bool) -> Array:
        """Which readings were sent, or acknowledged: bool, shape (events, instruments)."""
        matrix = np.zeros((self.events, self.machine.instruments), bool)
        for stream in self.streams:
            stream.mark(matrix, stream.acknowledged if acknowledged else stream.sent)
        return matrix

    def _shares(self) -> list[tuple[str, Ack, Array, float]]:
        """Name, acknowledgement, instruments and delay of each sender."""
        everyone = np.arange(self.machine.instruments)
        quick = everyone[everyone != self.machine.slow]
        shares = [
            (f"drill-{number}", ack, quick[number :: len(ACKS)], 0.0)
            for number, ack in enumerate(ACKS)
            if len(quick) > number
        ]
        if self.machine.slow is not None:
            slow = np.array([self.machine.slow])
            shares.append(("drill-slow", Ack.COMMITTED, slow, self.machine.slow_s))
        return shares
