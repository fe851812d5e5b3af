"""daemon.web.http and daemon.web.http: limits on what clients send and on how long they take, over real sockets."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.web import rates
from daemon.web.errors import Denial
from daemon.web.http import IdleConnections, LimitedServer, Limits, bound
from daemon.web.rates import ADDRESSES, KINDS, LINES, Rates, SeldomLines
from daemon.web.tls import Identity, client_context
from schemas.api.model import Problem
from tests.support.certificates import Authority
from tests.support.listening import eventually

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LARGE = b"x" * (16 << 20)


class Server(LimitedServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with how many bytes came, or with more than any buffer between takes; `/held` waits for the client."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": LARGE})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    if scope["path"] == "/held":
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    answer = LARGE if scope["path"] == "/large" else str(len(body)).encode()
    length = (b"content-length", str(len(answer)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": answer})


@asynccontextmanager
async def listening(
    limits: Limits, identity: Identity | None = None, app: ASGIApp = echo
) -> AsyncIterator[tuple[Server, int]]:
    server = Server(app, limits, identity, lifespan="off", timeout_graceful_shutdown=1)
    with bound("127.0.0.1", 0) as socket:
        serving = asyncio.create_task(server.serve(sockets=[socket]))
        await eventually(lambda: server.started, 60)
        try:
            yield server, socket.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


TOO_LARGE = "the request line and headers are too large; send at most 1000 bytes"


async def said(port: int, *pieces: bytes) -> bytes:
    """Send pieces, and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


def detail(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), str(Problem.model_validate_json(body))


async def test_requests_over_a_limit_are_refused_with_the_fix() -> None:
    async with listening(Limits(head_bytes=1000, body_bytes=100)) as (_, port):
        for pieces in (
            [GET + b"X: " + b"y" * 2000 + b"\r\n\r\n"],
            [GET + b"X: ", b"y" * 2000],  # a header without an end
            [b"GET /" + b"y" * 2000 + b" HTTP/1.1\r\n\r\n"],
            [GET, *[b"X: y\r\n"] * 400],
        ):
            assert detail(await said(port, *pieces)) == (431, TOO_LARGE)
        post = GET.replace(b"GET", b"POST")
        assert detail(await said(port, post + b"Content-Length: 101\r\n\r\n")) == (
            413,
            "the body is too large; send at most 100 bytes",
        )
        assert detail(await said(port, post + b"Transfer-Encoding: chunked\r\n\r\n"))[0] == 411
        assert detail(await said(port, b"\x16\x03\x01 TLS where none is\r\n\r\n"))[0] == 400
        assert detail(await said(port, GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n"))[0] == 400
        body = post + b"Content-Length: 100\r\nConnection: close\r\n\r\n"
        assert (await said(port, body, b"z" * 100)).endswith(b"\r\n\r\n100")
    async with listening(Limits(head_bytes=1000, body_bytes=5000)) as (_, port):
        whole = post + b"Content-Length: 5000\r\nConnection: close\r\n\r\n" + b"z" * 5000
        assert (await said(port, whole)).endswith(b"\r\n\r\n5000"), "a body that comes with its head is not one"


async def test_one_connection_serves_many_requests_one_after_the_other_and_ahead() -> None:
    async with listening(Limits()) as (server, port):
        answer = await said(port, (GET + b"\r\n") * 3, GET + b"Connection: close\r\n\r\n")
        assert answer.count(b"200 OK") == 4
        assert server.server_state.total_requests == 4


async def test_between_two_requests_there_is_no_hurry() -> None:
    async with listening(Limits(request_s=2.0)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(GET + b"\r\n")
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n0")
            await asyncio.sleep(2.2)  # longer than a request may take
        assert server.server_state.total_requests == 2
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET, GET + b"Content-Length: 5\r\n\r\nab"])
async def test_a_request_that_is_never_finished_is_cut(sent: bytes) -> None:
    async with listening(Limits(request_s=0.3)) as (server, port):
        assert b"200" not in await said(port, sent)
        assert not server.server_state.connections


async def test_bytes_that_trickle_in_buy_no_time() -> None:
    async with listening(Limits(request_s=0.5)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                while not reader.at_eof():
                    writer.write(b"G" if not reader.at_eof() else b"")
                    await writer.drain()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), 0.05)
        writer.close()


async def test_an_answer_that_nobody_takes_is_thrown_away() -> None:
    async with listening(Limits(answer_s=0.5)) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(GET.replace(b"/ ", b"/large ") + b"Connection: close\r\n\r\n")
        await eventually(lambda: server.server_state.tasks or server.server_state.total_requests)
        await eventually(lambda: not server.server_state.connections, 60)
        writer.close()


async def test_connections_that_ask_for_nothing_keep_nobody_out() -> None:
    async with listening(Limits(connections=20, request_s=600)) as (server, port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", verify=False, trust_env=False, timeout=60
        ) as client:
            assert (await client.get("/")).status_code == 200
        assert len(server.server_state.connections) <= 20
        for _, writer in idle:
            writer.close()


async def test_busy_connections_keep_their_place_and_a_newcomer_is_told() -> None:
    async with listening(Limits(connections=3)) as (server, port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in held:
            writer.write(GET.replace(b"/ ", b"/held ") + b"\r\n")
        await eventually(lambda: len(server.server_state.tasks) == 3, 60)
        assert detail(await said(port)) == (503, "too many connections, all of them busy; try again later")
        assert len(server.server_state.tasks) == 3
        for _, writer in held:
            writer.close()


async def test_a_renewed_certificate_is_shown_to_those_who_come_then(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first, second = authority.certificate("first", "IP:127.0.0.1"), authority.certificate("second", "IP:127.0.0.1")
    identity = Identity(first.certificate, first.key, "api")

    async def shown(port: int) -> bytes:
        ends = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(authority.ca))
        certificate: bytes = ends[1].get_extra_info("ssl_object").getpeercert(binary_form=True)
        ends[1].close()
        return certificate

    async with listening(Limits(), identity) as (_, port):
        before = await shown(port)
        assert not identity.renew()
        first.certificate.write_bytes(second.certificate.read_bytes())
        assert not identity.renew()  # not its key: the old pair stays
        assert await shown(port) == before
        first.key.write_bytes(second.key.read_bytes())
        assert identity.renew()
        assert await shown(port) != before
        # A client that never finishes its handshake is let go.
        assert await said(port) == b""


def test_rates_are_kept_for_each_address_and_memory_is_bounded() -> None:
    rates = Rates(burst=2, per_s=0.5)
    assert [rates.take("10.0.0.1", 0.0) for _ in range(3)] == [0, 0, 2]
    assert rates.take("10.0.0.2", 0.0) == 0
    assert rates.take("10.0.0.1", 1.0) == 1
    assert rates.take("10.0.0.1", 2.0) == 0
    assert [rates.take(f"2001:db8::{i}", 5.0) for i in range(3)] == [0, 0, 2]
    for i in range(ADDRESSES + 10):
        rates.take(f"10.{i // 65536}.{i // 256 % 256}.{i % 256}", 9.0)
    assert len(rates._buckets) == ADDRESSES


async def test_a_stream_that_is_closing_when_the_server_ends_is_not_closed_again() -> None:
    """A browser that leaves and does not read what is under way keeps its connection from being gone at once."""
    async with listening(Limits()) as (server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await eventually(lambda: any(hasattr(each, "conn") for each in server.server_state.connections), 60)
        writer.write(b"\x88\x80\x00\x00\x00\x00")
        await eventually(lambda: all(each.transport.is_closing() for each in server.server_state.connections), 60)
        assert server.server_state.connections
    # The server has ended without an error.
    writer.close()


UPGRADE = (
    GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def test_a_refused_websocket_writes_no_line(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await Denial(status=401, detail="this needs the API's token", fix="send it").answer(scope, send)

    async with listening(Limits(), app=refuse) as (_, port):
        assert detail(await said(port, UPGRADE)) == (401, "this needs the API's token; send it")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_whoever_holds_many_connections_costs_the_next_one_no_more() -> None:
    """Room is made in as many steps among 300 unfinished requests as among 30."""

    async def steps(count: int) -> int:
        async with listening(Limits(connections=count, request_s=600)) as (server, port):
            held = []
            for number in range(count):
                held.append(await asyncio.open_connection("127.0.0.1", port))
                held[-1][1].write(GET[: number % len(GET)])
                await held[-1][1].drain()
            await eventually(lambda: len(server.server_state.connections) == count, 60)
            calls = 0

            def counting(frame: FrameType, event: str, argument: object) -> None:
                nonlocal calls
                calls += frame.f_code.co_name != "counting" and "daemon/web/http.py" in frame.f_code.co_filename

            sys.setprofile(counting)
            try:
                async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                    assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 200
            finally:
                sys.setprofile(None)
            for _, writer in held:
                writer.close()
            return calls

    few, many = await steps(30), await steps(300)
    assert many <= few + 30, "a step or so for each connection that is there"


async def test_room_is_made_by_the_address_with_the_most_and_of_those_the_longest_idle() -> None:
    class One:
        def __init__(self, who: str) -> None:
            self.who = who

    idle = IdleConnections()
    many, few = [One("10.0.0.1") for _ in range(3)], [One("10.0.0.2") for _ in range(2)]
    for one in (few[0], many[0], many[1], few[1], many[2]):
        idle.add(one)  # type: ignore[arg-type]
    left = []
    idle.add(many[0])  # type: ignore[arg-type] # it asked again
    while (longest := idle.longest()) is not None:
        left.append(longest)
        idle.remove(longest)
    of_many = [one for one in left if one.who == "10.0.0.1"]
    assert left[0] is many[1]
    assert of_many == [many[1], many[2], many[0]]
    assert [one for one in left if one.who == "10.0.0.2"] == few
    assert left.index(few[0]) <= 2, "not one address after the other: the one that has the most at the time"


def test_lines_that_are_alike_are_written_seldom_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 100.0
    monkeypatch.setattr(rates.time, "monotonic", lambda: moment)
    lines = SeldomLines("triggerlog")

    def written(name: str, text: str, *arguments: object) -> str | None:
        record = logging.LogRecord(name, logging.ERROR, __file__, 1, text, arguments, None)
        return record.getMessage() if lines.filter(record) else None

    flood = [written("uvicorn.error", "%s sends rubbish", number) for number in range(1000)]
    assert sum(line is not None for line in flood) == LINES
    assert written("uvicorn.error", "something else") == "something else"
    assert all(written("triggerlog", "an event") for _ in range(100))
    assert sum(written("asyncio", f"SSL failed\ntransport: {number}") is not None for number in range(1000)) == LINES
    moment += 10.0
    assert written("uvicorn.error", "%s sends rubbish", 7) == "7 sends rubbish (and 980 more times before)"
    for number in range(5 * KINDS):
        written("x", f"unlike {number}")
    assert len(lines._seldom._kinds) == KINDS
