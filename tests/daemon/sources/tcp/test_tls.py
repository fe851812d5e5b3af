"""The TCP source over TLS, on both loops: readings, mutual trust, pauses, and handshakes that lead nowhere."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from daemon.client.sender import Sender, SenderError
from daemon.sources.tcp import TcpSource
from daemon.web.tls import client_context, own_certificate, server_context
from schemas.config import TcpSource as TcpConfig
from schemas.wire import Ack
from tests.support.certificates import Authority
from tests.support.pipelines import Logger, eventually, logging_to_memory
from tests.support.processes import running, triggerlog
from tests.support.readings import make_group, whole

GROUP = make_group()
ON_BOTH_LOOPS = True


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> ssl.SSLContext:
    mine = authority.certificate("daemon", "IP:127.0.0.1")
    return server_context(mine.certificate, mine.key, "sources[0]")


@asynccontextmanager
async def listening(logger: Logger, tls: ssl.SSLContext, **changes: object) -> AsyncIterator[tuple[TcpSource, int]]:
    source = TcpSource(TcpConfig.model_validate({"kind": "tcp", "port": 0, **changes}), logger.intakes, tls=tls)
    await source.start()
    try:
        yield source, int(source.status().address.rpartition(":")[2])
    finally:
        await source.stop()
        await source.close()


async def connected(port: int, authority: Authority, **options: object) -> Sender:
    return await Sender.connect("127.0.0.1", port, "bpm", tls=client_context(authority.ca), **options)


@pytest.mark.parametrize("ack", [Ack.COMMITTED, Ack.NONE])
async def test_readings_travel_in_tls(ack: Ack, authority: Authority, server: ssl.SSLContext) -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, server) as (source, port):
        async with await connected(port, authority, ack=ack) as sender:
            for trigger in range(1, 201):
                await sender.send(whole(GROUP, trigger))
        await eventually(lambda: source.status().connections == 0)
        assert source.status().received == sender.sent == 1000
        if ack is Ack.COMMITTED:
            assert sender.acknowledged == 1000
    assert len(await logger.stored(GROUP)) == 1000


async def test_a_full_backlog_holds_tls_senders_back_and_loses_nothing(
    authority: Authority, server: ssl.SSLContext
) -> None:
    limits = {"max_batch_mib": 0.05, "max_waiting_mib": 0.1}
    async with logging_to_memory(GROUP, committer=limits) as logger, listening(logger, server) as (source, port):
        sender = await connected(port, authority)
        logger.store.serving.clear()
        sending = asyncio.create_task(_send(sender, 60_000))
        await eventually(lambda: logger.pipelines["bpm"].is_full)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(sending), 0.2)
        assert source.status().received < 300_000
        logger.store.serving.set()
        await sending
        await sender.finish()
        assert sender.acknowledged == 300_000
    assert len(await logger.stored(GROUP)) == 300_000


async def _send(sender: Sender, triggers: int) -> None:
    block = whole(GROUP, *range(1, 1001))
    for _ in range(triggers // 1000):
        await sender.send(block)
        block["trigger"] += 1000


async def test_only_senders_of_the_clients_authority_get_in(authority: Authority) -> None:
    mine = authority.certificate("daemon", "IP:127.0.0.1")
    theirs = authority.certificate("crate-07", client=True)
    mutual = server_context(mine.certificate, mine.key, "sources[0]", authority.ca)
    async with logging_to_memory(GROUP) as logger, listening(logger, mutual) as (source, port):
        with pytest.raises(SenderError, match=r"does it trust this sender's certificate\?"):
            await connected(port, authority)
        assert source.status().refused == {"tls": 1}
        context = client_context(authority.ca)
        own_certificate(context, theirs.certificate, theirs.key, names=("--certificate", "--key"))
        async with await Sender.connect("127.0.0.1", port, "bpm", tls=context) as sender:
            await sender.send(whole(GROUP, 1))
        assert sender.acknowledged == 5


async def test_who_does_not_trust_or_does_not_speak_tls_is_told_so(
    authority: Authority, server: ssl.SSLContext, tmp_path: Path
) -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, server) as (source, port):
        with pytest.raises(SenderError, match=r"its certificate is not trusted \(.*\); give the authority"):
            await connected(port, Authority(tmp_path, "other"))
        with pytest.raises(SenderError, match=r"does it want TLS"):
            await Sender.connect("127.0.0.1", port, "bpm")
        assert source.status().refused == {"tls": 2}
        assert source.status().connections == 0


async def test_a_handshake_that_is_never_finished_ends_in_time_and_takes_nobodys_place(
    authority: Authority, server: ssl.SSLContext
) -> None:
    limits = {"handshake_timeout_s": 0.5, "max_ungreeted": 3}
    async with logging_to_memory(GROUP) as logger, listening(logger, server, **limits) as (source, port):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        for _, writer in silent[:4]:
            writer.write(b"\x16\x03\x01")  # the beginning of a ClientHello
        async with await connected(port, authority) as sender:
            await sender.send(whole(GROUP, 1))
        for reader, writer in silent:
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
        assert source.status().refused == {"timeout": 8}
        await eventually(lambda: source.status().connections == 0)


async def test_garbage_in_tls_costs_others_nothing(authority: Authority, server: ssl.SSLContext) -> None:
    async with logging_to_memory(GROUP) as logger, listening(logger, server) as (source, port):
        good = await connected(port, authority)
        for garbage in (b"TRIGGERLOG/2\n", b"\x00" * 5000, b"TRIGGERLOG/1 group=bpm\n" + b"\xff" * 100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(authority.ca))
            writer.write(garbage)
            writer.transport.abort() if garbage[0] == 0 else writer.close()
            with suppress(OSError):
                await asyncio.wait_for(reader.read(), 20)
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        plain.close()
        await good.send(whole(GROUP, 1))
        await good.finish()
        assert good.acknowledged == 5
        await eventually(lambda: source.status().connections == 0)


CONFIG = """
[[groups]]
name = "bpm"
count = 12
channels = [{ name = "top_in" }]

[[sources]]
kind = "tcp"
port = 0
tls_certificate = "daemon.crt"
tls_key = "daemon.key"
tls_client_ca = "ca.crt"

[api]
port = 0
"""


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return request.param


def test_simulate_speaks_tls_with_a_daemon_that_knows_its_senders(loop: str, state_dir: Path) -> None:
    folder = state_dir.parent
    authority = Authority(folder)
    authority.certificate("daemon", "IP:127.0.0.1")
    crate = authority.certificate("crate", client=True)
    (folder / "beam.toml").write_text(CONFIG)
    with running("run", str(folder / "beam.toml"), "--loop", loop) as run:
        port = run.until_said(r"taking readings at \S+:(\d+)")[1]
        trusted = ("--port", port, "--tls", "--ca", str(authority.ca))
        mine = ("--certificate", str(crate.certificate), "--key", str(crate.key))
        done = triggerlog("simulate", *trusted, *mine, "--triggers", "50", "--connections", "each", "--json")
        assert done.returncode == 0, done.stderr
        assert '"acknowledged": 600' in done.stdout
        refused = triggerlog("simulate", *trusted, "--triggers", "5")
        assert refused.returncode == 1
        assert "does it trust this sender's certificate?" in refused.stderr
        assert run.end() == 0, run.said
        assert "Traceback" not in run.said


def test_options_of_tls_that_cannot_work_are_told_in_one_line() -> None:
    for options, said in (
        (["--ca", "x"], "triggerlog: --ca needs --tls; add it"),
        (["--tls", "--key", "x"], "triggerlog: --key needs --certificate; give both"),
        (["--tls", "--ca", "/nowhere"], "triggerlog: --ca: /nowhere cannot be read (no such file or directory)"),
    ):
        done = triggerlog("simulate", *options)
        assert done.returncode == 1
        assert done.stderr.startswith(said)
