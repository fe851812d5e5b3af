"""A proxy before a MongoDB wire server that plays the primary of a replica set of MongoDB 7.0, with faults.

It runs in a thread of its own. It knows which changes a majority has: all up to the last one that was answered at
`w: majority`. `fail_over` takes the others back, as a new primary that never had them.

https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
"""

import asyncio
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import bson
import pymongo

Document = dict[str, Any]

HEADER = struct.Struct("<iiii")
OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
SET_NAME = "set0"
ANSWER_S = 30.0
BITS = "$bitsAnyClear"

NOT_PRIMARY: Document = {"ok": 0.0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "not primary"}
UNMET: Document = {"code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting for replication timed out"}


class Do(StrEnum):
    """The fate of a command."""

    DROP = "drop"  # it is not carried out, and its connection ends
    LOSE = "lose"  # it is carried out, and its connection ends without an answer
    DELAY = "delay"  # its connection ends, and it is carried out by `carry_out`
    ANSWER = "answer"  # it is not carried out, and gets `answer`
    ADD = "add"  # it is carried out, and `answer` is added to what it gets


@dataclass(kw_only=True)
class Fault:
    """A fault of some commands.

    command, collection: those that it is for; an empty collection is any. passes: so many of them are spared first.
    times: so many then have it.
    """

    command: str
    collection: str = ""
    do: Do
    answer: Document = field(default_factory=dict)
    passes: int = 0
    times: int = 1

    def takes(self, command: str, collection: object) -> bool:
        """Tell whether a command has it."""
        if command != self.command or (self.collection and self.collection != collection) or not self.times:
            return False
        if self.passes:
            self.passes -= 1
            return False
        self.times -= 1
        return True


@dataclass(frozen=True, kw_only=True)
class Request:
    """A message of a client."""

    raw: bytes
    number: int
    code: int
    name: str
    body: Document
    sequences: Mapping[str, list[Document]]

    @property
    def collection(self) -> object:
        """Name of the collection of a write command."""
        return self.body[self.name]

    @property
    def is_majority(self) -> bool:
        """Tell whether it waits for a majority."""
        return bool(self.body.get("writeConcern", {}).get("w") == "majority")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A document that was changed, and what it was before; None where it was not there."""

    database: str
    collection: str
    id: object
    before: Document | None = None


class ReplicaSet:
    """The proxy; use it in a `with`.

    upstream: DSN of the server.
    """

    def __init__(self, upstream: str) -> None:
        self.faults: list[Fault] = []
        self.commands: list[tuple[str, Document]] = []
        self._upstream = upstream
        self._uncommitted: list[Change] = []
        self._delayed: list[Request] = []
        self._indexes: dict[tuple[object, object], list[Document]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="replica set")
        self._port = 0

    @property
    def dsn(self) -> str:
        """Its DSN."""
        return f"mongodb://127.0.0.1:{self._port}"

    def __enter__(self) -> "ReplicaSet":
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def having(self, *faults: Fault) -> Iterator[None]:
        """Have faults meanwhile."""
        self.faults += faults
        try:
            yield
        finally:
            for fault in faults:
                self.faults.remove(fault)

    def forget_indexes(self) -> None:
        """Have no indexes but those of `_id`."""
        self._indexes.clear()

    def fail_over(self) -> int:
        """Let another server become primary, which has what a majority has; return how much was taken back."""
        return self._do(self._fail_over())

    def carry_out(self) -> None:
        """Carry out the commands that were delayed."""
        self._do(self._carry_out())

    def _do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(ANSWER_S)

    async def _end(self) -> None:
        self._server.close()
        await self._drop_connections()

    async def _drop_connections(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("client")]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fail_over(self) -> int:
        await self._drop_connections()
        gone, self._uncommitted = self._uncommitted, []
        await asyncio.to_thread(self._take_back, gone)
        return len(gone)

    def _take_back(self, gone: list[Change]) -> None:
        with pymongo.MongoClient[Document](self._upstream) as client:
            for change in reversed(gone):
                collection = client[change.database][change.collection]
                collection.delete_one({"_id": change.id})
                if change.before is not None:
                    collection.insert_one(change.before)

    def _before(self, request: Request) -> list[Change]:
        """Return what updates and deletes are about to change."""
        database, collection = str(request.body["$db"]), str(request.collection)
        with pymongo.MongoClient[Document](self._upstream) as client:
            return [
                Change(database=database, collection=collection, id=before["_id"], before=before)
                for name in ("updates", "deletes")
                for each in request.sequences.get(name, request.body.get(name, []))
                for before in client[database][collection].find(each["q"])
            ]

    async def _carry_out(self) -> None:
        delayed, self._delayed = self._delayed, []
        for request in delayed:
            there = await self._connect()
            await self._change(request, there, is_heard=True)
            there[1].close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        at = urlsplit(self._upstream)
        return await asyncio.open_connection(at.hostname, at.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("client of a replica set")
        there = await self._connect()
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while answer := await self._answered(await _read(reader), there):
                    writer.write(answer)
                    await writer.drain()
        finally:
            writer.transport.abort()
            there[1].transport.abort()

    async def _answered(
        self, request: Request, there: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> bytes | None:
        """Return the message that answers a request; None where its connection ends."""
        self.commands.append((request.name, request.body))
        fault = next((fault for fault in self.faults if fault.takes(request.name, request.collection)), None)
        do = None if fault is None else fault.do
        if do is Do.DROP:
            return None
        if do is Do.DELAY:
            self._delayed.append(request)
            return None
        if fault is not None and do is Do.ANSWER:
            return _message(request, fault.answer)
        own = self._own_answer(request)
        if own is not None:
            return _message(request, own)
        if request.name == "find":
            return await self._found(request, there)
        is_met = fault is None or (do is not Do.LOSE and "writeConcernError" not in fault.answer)
        raw = await self._change(request, there, is_heard=is_met)
        if do is Do.LOSE:
            return None
        if fault is not None:
            return _message(request, {**_decoded(raw), **fault.answer})
        return self._as_primary(request, raw)

    async def _found(self, request: Request, there: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
        """Answer a query; FerretDB does not know the bits of binary data."""
        bits = {name: each for name, each in request.body["filter"].items() if BITS in str(each)}
        if not bits:
            return await _asked(*there, request)
        rest = {name: each for name, each in request.body["filter"].items() if name not in bits}
        raw = await _asked(*there, replace(request, raw=_message(request, {**request.body, "filter": rest})))
        answer = _decoded(raw)
        answer["cursor"]["firstBatch"] = [
            each
            for each in answer["cursor"]["firstBatch"]
            if all(_is_any_clear(each[name], wanted[BITS]) for name, wanted in bits.items())
        ]
        return _message(request, answer)

    async def _change(
        self, request: Request, there: tuple[asyncio.StreamReader, asyncio.StreamWriter], *, is_heard: bool
    ) -> bytes:
        """Carry a command out, and note what it changed and what a majority has then."""
        if request.name not in ("insert", "update", "delete"):
            return await _asked(*there, request)
        changes = [] if request.name == "insert" else await asyncio.to_thread(self._before, request)
        raw = await _asked(*there, request)
        failed = {error["index"] for error in _decoded(raw).get("writeErrors", [])}
        documents = request.sequences.get("documents", request.body.get("documents", []))
        database, collection = str(request.body["$db"]), str(request.collection)
        changes += [
            Change(database=database, collection=collection, id=each["_id"])
            for k, each in enumerate(documents)
            if k not in failed
        ]
        self._uncommitted += changes
        if request.is_majority and is_heard:
            self._uncommitted.clear()
        return raw

    def _own_answer(self, request: Request) -> Document | None:
        """Return what a MongoDB answers and FerretDB does not; None where it does."""
        place = request.body.get("$db"), request.collection
        match request.name:
            case "createIndexes":
                self._indexes[place] = [*self._indexes.get(place, []), *request.body["indexes"]]
                return {"ok": 1.0}
            case "listIndexes":
                found = [{"v": 2, "key": {"_id": 1}, "name": "_id_"}, *self._indexes.get(place, [])]
                return {
                    "ok": 1.0,
                    "cursor": {"id": bson.Int64(0), "ns": ".".join(map(str, place)), "firstBatch": found},
                }
            case "serverStatus":
                return {"ok": 1.0, "storageEngine": {"name": "wiredTiger"}}
            case "getCmdLineOpts":
                return {"ok": 1.0, "parsed": {}}
        return None

    def _as_primary(self, request: Request, raw: bytes) -> bytes:
        here = f"127.0.0.1:{self._port}"
        if request.name.lower() in ("hello", "ismaster"):
            primary = {"setName": SET_NAME, "setVersion": 1, "hosts": [here], "primary": here, "me": here}
            return _message(request, {**_decoded(raw), **primary, "isWritablePrimary": True, "secondary": False})
        if request.name.lower() == "buildinfo":
            plain = {name: value for name, value in _decoded(raw).items() if "ferret" not in name}
            return _message(request, {**plain, "version": "7.0.5"})
        return raw


def _is_any_clear(field: bytes, positions: list[int]) -> bool:
    """Evaluate `$bitsAnyClear` on binary data, whose bits count from the least significant of the first byte."""
    number = int.from_bytes(field, "little")
    return any(not number >> position & 1 for position in positions)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = await reader.readexactly(HEADER.size)
    length, number, _, code = HEADER.unpack(head)
    rest = await reader.readexactly(length - HEADER.size)
    if code == OP_QUERY:
        # Flags, the name of a collection, and two numbers come before the document.
        body, sequences = bson.decode(rest[rest.index(b"\0", 4) + 9 :]), {}
    else:
        body, sequences = _sections(rest)
    return Request(raw=head + rest, number=number, code=code, name=next(iter(body)), body=body, sequences=sequences)


def _sections(rest: bytes) -> tuple[Document, dict[str, list[Document]]]:
    body: Document = {}
    sequences: dict[str, list[Document]] = {}
    at = 4
    while at < len(rest):
        kind, (length,) = rest[at], struct.unpack_from("<i", rest, at + 1)
        part, at = rest[at + 1 : at + 1 + length], at + 1 + length
        if kind == 0:
            body = bson.decode(part)
        else:
            name, _, documents = part[4:].partition(b"\0")
            sequences[name.decode()] = bson.decode_all(documents)
    return body, sequences


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request) -> bytes:
    writer.write(request.raw)
    await writer.drain()
    head = await reader.readexactly(HEADER.size)
    return head + await reader.readexactly(HEADER.unpack(head)[0] - HEADER.size)


def _decoded(raw: bytes) -> Document:
    code = HEADER.unpack_from(raw)[3]
    return bson.decode(raw[HEADER.size + (20 if code == OP_REPLY else 5) :])


def _message(request: Request, answer: Document) -> bytes:
    raw = bson.encode(answer)
    is_query = request.code == OP_QUERY
    before = struct.pack("<iqii", 8, 0, 0, 1) if is_query else struct.pack("<IB", 0, 0)
    length = HEADER.size + len(before) + len(raw)
    return HEADER.pack(length, 1, request.number, OP_REPLY if is_query else OP_MSG) + before + raw
