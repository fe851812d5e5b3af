"""Readings over TCP: acknowledged, with backpressure."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from functools import partial

import numpy as np

from daemon.core.supervision.fail_stop import fail_stop
from daemon.core.supervision.progress_watch import Part
from daemon.pipeline.gather import NOBODY, Gather
from daemon.pipeline.intake import Subscriber
from daemon.sources.base import Intakes
from daemon.sources.limits import Networks, Refusals
from daemon.sources.tcp.acceptor import Acceptor, MakesListening
from daemon.sources.tcp.admission import Admission
from daemon.sources.tcp.connection import Connection
from schemas.api.status import SourceStatus
from schemas.checking.addresses import host_and_port
from schemas.config import TcpSource as TcpConfig
from schemas.readings import Array
from schemas.sessions import session_key
from schemas.wire import Ack, Greeting

AGAIN_S = 0.1
"""Pause before a sender that did not read its acknowledgements, or still waits for its last, is looked at again."""

FAREWELL_S = 5.0
"""Time that senders have at the end to take their last acknowledgements; a hostile one would take for ever."""


class TcpSource:
    """A listening socket and the senders connected to it.

    tls: what it speaks; None is plain TCP. report: called now and then with one line, what was turned away.
    listening: what accepts connections for it.
    """

    def __init__(
        self,
        config: TcpConfig,
        intakes: Intakes,
        *,
        tls: ssl.SSLContext | None = None,
        report: Callable[[str], None] = lambda line: None,
        listening: MakesListening = Acceptor,
    ) -> None:
        self.intakes = intakes
        self.groups = {name: intake.group for name, intake in intakes.items()}
        self.gathers = {name: Gather(intake) for name, intake in intakes.items()}
        self.handshake_timeout_s = config.handshake_timeout_s
        self._config = config
        self._address = host_and_port(config.host, config.port)
        self._admission: Admission[Connection] = Admission(
            most=config.max_connections,
            most_of_address=config.max_connections_per_address,
            most_ungreeted=config.max_ungreeted,
        )
        self._refusals = Refusals(lambda: f"source tcp {self._address}", report)
        self._listening = listening(
            networks=Networks(config.allow),
            make=self._arrived,
            refuse=self._refusals.count,
            tls=tls,
            handshake_timeout_s=config.handshake_timeout_s,
        )
        self._deserted = asyncio.Event()
        self._is_stopped = False
        self._columns: dict[str, dict[int, Connection]] = {name: {} for name in intakes}
        self._acknowledged: dict[str, Array] = {name: np.empty(0, np.int64) for name in intakes}
        self._again: dict[str, set[int]] = {name: set() for name in intakes}
        self._every_s = config.acknowledge_every_ms / 1e3
        self._timer: asyncio.TimerHandle | None = None
        self._last_round = 0.0
        for name, intake in intakes.items():
            intake.subscribe(
                Subscriber(
                    settled=self.settled,
                    full=partial(self._full, name),
                    flush=self.gathers[name].flush,
                    refused=partial(self._refused, name),
                    moved=partial(self._moved, name),
                )
            )

    async def start(self) -> None:
        """Listen."""
        self._address = await self._listening.listen(self._config.host, self._config.port)

    async def stop(self) -> None:
        """Accept nothing more, read nothing more."""
        self._is_stopped = True
        self._listening.close()
        for connection in self._admission.connections():
            connection.stop()
        for gather in self.gathers.values():
            gather.flush()

    async def close(self) -> None:
        """Send the last acknowledgements and close all connections."""
        self._round()
        if self._timer is not None:
            self._timer.cancel()
        self._deserted.clear()
        for connection in self._admission.connections():
            connection.close()
        if len(self._admission):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._deserted.wait(), FAREWELL_S)
        for connection in self._admission.connections():
            connection.abort()

    def status(self) -> SourceStatus:
        """How it does."""
        received = sum(gather.received for gather in self.gathers.values())
        nbytes = sum(gather.received * self.groups[name].record.itemsize for name, gather in self.gathers.items())
        return SourceStatus(
            kind="tcp",
            address=self._address,
            connections=len(self._admission),
            received=received,
            bytes=nbytes,
            refused=self._refusals.by_reason(),
            refused_most=self._refusals.by_address(),
            lost_datagrams=0,
        )

    def change(self, config: TcpConfig) -> None:
        """Take over the limits; those who are connected stay."""
        self._every_s = config.acknowledge_every_ms / 1e3
        self._admission.change(
            most=config.max_connections,
            most_of_address=config.max_connections_per_address,
            most_ungreeted=config.max_ungreeted,
        )

    def parts(self) -> list[Part]:
        """Whether it listens, and hands on what it reads."""
        name = f"listening at tcp {self._address}"
        accepting = Part(name=name, steps=0, is_busy=not self._listening.is_listening)
        return [accepting, *(gather.part() for gather in self.gathers.values())]

    # --- what connections ask for -------------------------------------------------------------------------------

    def _arrived(self, address: str) -> Connection:
        connection = Connection(self, address)
        leaving = self._admission.arrive(connection)
        if leaving is not None:
            leaving.make_room()
        return connection

    def admit(self, connection: Connection, greeting: Greeting) -> None:
        """Let a connection that has greeted stay, and join the session that it names; an older one of that has to go.

        Raises:
            ProtocolError: there are too many connections, or sessions, already.
        """
        intake, key = self.intakes[greeting.group], None
        if greeting.session is not None:
            assert greeting.sender is not None
            key = session_key(greeting.sender, greeting.session)
            older = intake.connections.get(key)
            if older is not None:
                older.fence()
        self._admission.check(connection)
        if greeting.ack is not Ack.NONE:
            joined = intake.connect(ack=greeting.ack, session=key, first=greeting.first, upto=greeting.next)
            connection.column = joined.column
            refused = int(intake.acknowledged()[1][joined.column])
            first = joined.resume if key is None else greeting.first
            connection.join(key, first=first, resume=joined.resume, refused=refused)
            if key is not None:
                intake.connections[key] = connection
        self._admission.greet(connection)

    def joined(self, connection: Connection) -> None:
        """Note which column of its group's receipts the connection has."""
        assert connection.group is not None
        if connection.column != NOBODY:
            self._columns[connection.group][connection.column] = connection
            self._acknowledged[connection.group][connection.column : connection.column + 1] = -1
        if connection.session is not None:
            self.settled()  # perhaps all of it is, and nothing else would tell its sender
        if self.intakes[connection.group].is_full:
            connection.pause(paused=True)

    def left(self, connection: Connection) -> None:
        """Forget a connection; its readings go on."""
        self.release(connection)
        if not len(self._admission):
            self._deserted.set()

    def release(self, connection: Connection) -> None:
        """Hand on what came from a connection, and take back its column and its place."""
        self._admission.leave(connection)
        if connection.group is None:
            return
        self.gathers[connection.group].flush()
        if connection.column == NOBODY:
            return
        intake, column = self.intakes[connection.group], connection.column
        connection.column = NOBODY
        del self._columns[connection.group][column]
        self._again[connection.group].discard(column)
        if connection.session is not None:
            del intake.connections[connection.session]
        intake.disconnect(column, ended=connection.is_goodbye)

    def refuse(self, reason: str, address: str) -> None:
        """Count a connection, or a part of a record, that was turned away."""
        self._refusals.count(reason, address)

    def ended(self, connection: Connection) -> None:
        """Note that a connection will send nothing more and waits for its last acknowledgement."""
        assert connection.group is not None
        leaving = self._admission.end(connection)
        if leaving is not None:
            leaving.abort()
        self.gathers[connection.group].flush()
        self._again[connection.group].add(connection.column)
        self.settled()

    # --- acknowledgements and backpressure ----------------------------------------------------------------------

    def settled(self) -> None:
        """Plan to send acknowledgements, not more often than the settings allow."""
        if self._timer is not None or not len(self._admission):
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(max(loop.time(), self._last_round + self._every_s), self._round)

    @fail_stop()
    def _round(self) -> None:
        """Send every sender the acknowledgement that is new to it."""
        loop = asyncio.get_running_loop()
        self._timer = None
        self._last_round = loop.time()
        for name, columns in self._columns.items():
            if columns:
                self._acknowledge(name, columns)
        if any(self._again.values()):
            self._timer = loop.call_later(max(self._every_s, AGAIN_S), self._round)

    def _acknowledge(self, group: str, columns: dict[int, Connection]) -> None:
        done, refused = self.intakes[group].acknowledged()
        before, again = self._acknowledged[group], self._again[group]
        before = np.pad(before, (0, len(done) - len(before)), constant_values=-1)
        for column in {*np.flatnonzero(done != before).tolist(), *again}:
            connection = columns.get(column)
            if connection is None:
                continue
            again.discard(column)
            if not connection.acknowledge(int(done[column]), int(refused[column])):
                again.add(column)
        self._acknowledged[group] = done

    def _moved(self, group: str, columns: dict[int, int]) -> None:
        """The connections of a group have other columns now."""
        connections, self._columns[group] = self._columns[group], {}
        for before, connection in connections.items():
            connection.column = columns[before]
            self._columns[group][connection.column] = connection
        self._again[group] = {columns[column] for column in self._again[group]}
        self._acknowledged[group] = np.empty(0, np.int64)

    def _refused(self, group: str) -> None:
        """Close the connections of a group; what is not acknowledged their senders still have, and are told why."""
        for connection in self._admission.connections():
            if connection.group == group:
                connection.abort()

    def _full(self, group: str, is_full: bool) -> None:
        if self._is_stopped:
            return  # nothing more is read, whether there is room or not
        for connection in self._admission.connections():
            if connection.group == group:
                connection.pause(paused=is_full)
