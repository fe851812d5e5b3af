"""What docs/protocol.md shows is true: the C sender compiles and runs, the Python one too, every byte is as written."""

import asyncio
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from daemon.pipeline.assembly.sessions import EARLIER_MOST, EARLIER_S, KEPT_S, MOST_SESSIONS
from schemas.wire import (
    NUMBER_MAX,
    RECORD_NUMBER_MAX,
    Ack,
    Acknowledgement,
    Greeting,
    ProtocolError,
    answer_greeting,
    datagram_header,
    newest_acknowledgement,
    parse_datagram,
    parse_greeting,
)
from tests.support.listening import BPM, TOROID, eventually, listening
from tests.support.vanishing import vanish

SESSION = 5577006791947779410
DOCS = Path(__file__).parents[2] / "docs"
PROTOCOL = (DOCS / "protocol.md").read_text()


def shown(kind: str) -> str:
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", PROTOCOL, re.MULTILINE | re.DOTALL)
    return text


def hexed(name: str) -> bytes:
    """The bytes of a hex listing; what stands behind four spaces explains them."""
    return b"".join(bytes.fromhex(line.split("    ")[0]) for line in shown(f"hex {name}").splitlines())


@pytest.fixture(scope="module")
def sender(tmp_path_factory) -> Path:
    return compiled(DOCS / "sender.c", tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def hasty(tmp_path_factory) -> Path:
    """The sender with seconds in place of half a minute."""
    text, folder = (DOCS / "sender.c").read_text(), tmp_path_factory.mktemp("hasty")
    for slow, fast in (("KEEPIDLE, 15", "KEEPIDLE, 1"), ("KEEPINTVL, 5", "KEEPINTVL, 1"), ("30000", "3000")):
        assert slow in text
        text = text.replace(slow, fast)
    (folder / "sender.c").write_text(text)
    return compiled(folder / "sender.c", folder)


def compiled(source: Path, folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no C compiler")
        pytest.skip("no C compiler")
    program = folder / "sender"
    command = [compiler, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-o", str(program), str(source)]

    async def compiling() -> tuple[int, bytes]:
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, err = await process.communicate()
        return process.returncode, err

    code, err = asyncio.run(compiling())
    assert code == 0, err.decode()
    return program


async def run(*command: object) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent)},
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def test_the_listing_is_the_program() -> None:
    assert shown("c") == (DOCS / "sender.c").read_text()
    assert len(shown("c").splitlines()) < 160


async def test_the_c_sender_sends_everything_and_waits_for_it(sender: Path) -> None:
    async with listening(BPM) as listener:
        code, out, err = await run(sender, "127.0.0.1", listener.port, "bpm", 500, 17)
        assert (code, out, err) == (0, "sent 60000 acknowledged 60000 refused 0\n", "")
        (connection,) = listener.connections
        records = connection.records
    session = connection.greeting.session
    assert connection.greeting == Greeting(
        group="bpm", sender="example-in-c", ack=Ack.COMMITTED, session=session, next=0
    )
    assert session is not None
    assert np.all(records["epoch"] == 17)
    assert np.array_equal(records["trigger"], np.repeat(np.arange(1, 501), 120))
    assert np.array_equal(records["instrument"], np.tile(np.arange(120), 500))
    assert np.all(records["top_in"] == 0.1 * records["instrument"])
    assert np.all((records["bot_in"] == 1) & (records["bot_out"] == 2) & (records["top_out"] == 3))
    assert np.all(np.diff(records["time_ns"]) >= 0)


async def test_the_c_sender_waits_for_the_last_acknowledgement(sender: Path) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(sender, "127.0.0.1", listener.port, "bpm", 10, 1))
        await listener.until(lambda: listener.connections and len(listener.records) == 1200)
        # Half a frame, then the rest: frames may come in pieces.
        (connection,) = listener.connections
        frame = Acknowledgement(done=1199, refused=0).frame()
        connection.writer.write(frame[:5])
        await connection.writer.drain()
        done, _ = await asyncio.wait([running], timeout=0.1)
        assert not done
        connection.writer.write(frame[5:])
        await listener.acknowledged(connection, 1200, refused=7)
        assert await running == (0, "sent 1200 acknowledged 1200 refused 7\n", "")


async def test_the_c_sender_goes_on_where_the_daemon_says(sender: Path) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(sender, "127.0.0.1", listener.port, "bpm", 1000, 3))
        await listener.until(lambda: listener.connections and len(listener.records) >= 20_000)
        (first,) = listener.connections
        first.acknowledge(5000, refused=2)
        # It keeps 65,536 readings: so many more are sent once it has read the acknowledgement, and it has to wait.
        await listener.until(lambda: len(first.records) == 5000 + 65_536)
        first.writer.write(Acknowledgement(done=6000, refused=2).frame()[:7])
        listener.resume = 60_001
        listener.acknowledges = True
        first.cut()
        assert await running == (0, "sent 120000 acknowledged 120000 refused 2\n", "")
        _, second = listener.connections
    assert second.greeting.session == first.greeting.session
    assert (first.greeting.first, second.greeting.first) == (0, 5000)
    records = np.concatenate([first.records[:60_001], second.records])
    assert np.array_equal(records["trigger"], np.repeat(np.arange(1, 1001), 120))
    assert np.array_equal(records["instrument"], np.tile(np.arange(120), 1000))


async def test_the_c_sender_tries_again_while_the_daemon_stops(sender: Path) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(sender, "127.0.0.1", listener.port, "bpm", 10, 3))
        await listener.until(lambda: listener.connections and len(listener.records) == 1200)
        listener.refusal = ProtocolError("stopping", "the daemon is stopping; connect again in a while")
        listener.connections[0].cut()
        await eventually(lambda: listener.refused >= 2)
        listener.refusal, listener.acknowledges = None, True
        assert await running == (0, "sent 1200 acknowledged 1200 refused 0\n", "")


async def test_the_c_sender_says_when_it_cannot_go_on(sender: Path) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(sender, "127.0.0.1", listener.port, "bpm", 10, 3))
        await listener.until(lambda: listener.connections and len(listener.records) == 1200)
        listener.resume = 1201
        listener.connections[0].cut()
        assert await running == (1, "", "sender: the daemon goes on with a reading that is not kept\n")


@pytest.mark.parametrize("triggers", [10, 2000], ids=["waits for the last acknowledgement", "has data under way"])
async def test_the_c_sender_notices_that_the_daemons_host_has_vanished(hasty: Path, triggers: int) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(hasty, "127.0.0.1", listener.port, "bpm", triggers, 3))
        await listener.until(lambda: listener.connections and len(listener.records) >= 1200)
        vanish(listener.connections[0].writer.get_extra_info("socket"))
        listener.acknowledges = True
        assert await running == (0, f"sent {120 * triggers} acknowledged {120 * triggers} refused 0\n", "")
        assert len(listener.connections) == 2


@pytest.mark.parametrize("done", [(1201,), (700, 699)], ids=["more than was sent", "less than before"])
async def test_the_c_sender_does_not_believe_what_cannot_be_acknowledged(sender: Path, done: tuple[int, ...]) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(sender, "127.0.0.1", listener.port, "bpm", 10, 3))
        await listener.until(lambda: listener.connections and len(listener.records) == 1200)
        for number in done:
            listener.connections[0].acknowledge(number)
        code, out, err = await running
    assert (code, out) == (1, "")
    assert err == "sender: the daemon acknowledges fewer readings than before, or more than were sent to it\n"


async def test_the_c_sender_passes_on_why_it_was_refused(sender: Path) -> None:
    async with listening(BPM, TOROID) as listener:
        code, _, err = await run(sender, "127.0.0.1", listener.port, "bpx", 1, 3)
        assert code == 1
        assert "ERROR unknown-group there is no group 'bpx'; name one of: bpm, toroid" in err
        code, _, err = await run(sender, "127.0.0.1", listener.port, "toroid", 1, 3)
        assert (code, err) == (1, "sender: the group has other channels than struct reading\n")
    code, _, err = await run(sender, "127.0.0.1", listener.port, "bpm", 1, 3)
    assert (code, err) == (1, "sender: cannot connect; is the daemon running?\n")


async def test_the_python_example_runs(tmp_path) -> None:
    program = tmp_path / "example.py"
    program.write_text(shown("python"))
    async with listening(BPM) as listener:
        code, out, err = await run(sys.executable, program, "127.0.0.1", listener.port)
        assert (code, out, err) == (0, "12000 of 12000 readings acknowledged, 0 refused\n", "")
        assert len(listener.records) == 12_000


def test_the_limits_shown_are_those_in_force() -> None:
    text = " ".join(PROTOCOL.split())
    assert f"more than {MOST_SESSIONS} in the group" in text
    assert f"none of {MOST_SESSIONS} sessions" in text
    assert f"when nobody has gone on with it for {KEPT_S // 86_400} days" in text
    assert f"for an hour, or {EARLIER_MOST} others of the same sender's name came later" in text
    assert EARLIER_S == 3600
    assert (NUMBER_MAX, RECORD_NUMBER_MAX) == (2**63 - 1, 2**48 - 1)
    assert "the session that this connection begins or resumes, 0 to 2^63 - 1 |" in text
    assert "that the sender still holds, 0 to 2^48 - 1 |" in text
    assert "that was not sent on any connection yet, `first` to 2^48 - 1 |" in text


def test_the_bytes_shown_are_those_on_the_wire() -> None:
    greeting = Greeting(
        group="bpm", sender="crate-07", session=SESSION, ack=Ack.COMMITTED, instrument="bpm_007", next=0
    )
    assert hexed("greeting") == greeting.line()
    assert parse_greeting(hexed("greeting")) == greeting
    answer = replace(answer_greeting(greeting, {"bpm": BPM}), resume=0)
    assert shown("text answer").encode() == answer.line()
    new_year = np.datetime64("2026-01-01T00:00:00", "ns").astype(int)
    record = np.array([(4711, new_year, 7, 17, 1.5, -0.25, 2.0, 0.0)], BPM.record).tobytes()
    assert hexed("record") == record
    assert newest_acknowledgement(hexed("acknowledgement")) == Acknowledgement(done=1, refused=0)
    assert shown("text greeting-again").encode() == replace(greeting, first=1, next=5).line()
    assert shown("text answer-again").encode() == replace(answer, resume=3).line()
    assert newest_acknowledgement(hexed("acknowledgement-again")) == Acknowledgement(done=5, refused=0)
    assert hexed("datagram") == datagram_header(group="bpm", sequence=0, count=1, record_size=56) + record
    assert parse_datagram(hexed("datagram")).records == record
