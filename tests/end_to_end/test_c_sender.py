"""What docs/protocol.md shows is true: the C sender compiles and runs, the Python one too, every byte is as written."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from schemas.wire import (
    Ack,
    Acknowledgement,
    Greeting,
    answer_greeting,
    datagram_header,
    newest_acknowledgement,
    parse_datagram,
    parse_greeting,
)
from tests.support.listening import BPM, TOROID, listening

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
    compiler = shutil.which("cc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no C compiler")
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("c") / "sender"
    command = [compiler, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-o", str(program)]

    async def compiled() -> tuple[int, bytes]:
        process = await asyncio.create_subprocess_exec(*command, str(DOCS / "sender.c"), stderr=asyncio.subprocess.PIPE)
        _, err = await process.communicate()
        return process.returncode, err

    code, err = asyncio.run(compiled())
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
    assert len(shown("c").splitlines()) < 100


async def test_the_c_sender_sends_everything_and_waits_for_it(sender: Path) -> None:
    async with listening(BPM) as listener:
        code, out, err = await run(sender, "127.0.0.1", listener.port, "bpm", 500)
        assert (code, out, err) == (0, "sent 60000 acknowledged 60000 refused 0\n", "")
        (connection,) = listener.connections
        records = connection.records
    assert connection.greeting == Greeting(group="bpm", sender="example-in-c", ack=Ack.COMMITTED)
    assert np.array_equal(records["trigger"], np.repeat(np.arange(1, 501), 120))
    assert np.array_equal(records["instrument"], np.tile(np.arange(120), 500))
    assert np.all(records["top_in"] == 0.1 * records["instrument"])
    assert np.all((records["bot_in"] == 1) & (records["bot_out"] == 2) & (records["top_out"] == 3))
    assert np.all(np.diff(records["time_ns"]) >= 0)


async def test_the_c_sender_waits_for_the_last_acknowledgement(sender: Path) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(sender, "127.0.0.1", listener.port, "bpm", 10))
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


async def test_the_c_sender_says_when_not_everything_was_acknowledged(sender: Path) -> None:
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(run(sender, "127.0.0.1", listener.port, "bpm", 10))
        await listener.until(lambda: listener.connections and len(listener.records) == 1200)
        listener.connections[0].cut()
        assert await running == (1, "sent 1200 acknowledged 0 refused 0\n", "")


async def test_the_c_sender_passes_on_why_it_was_refused(sender: Path) -> None:
    async with listening(BPM, TOROID) as listener:
        code, _, err = await run(sender, "127.0.0.1", listener.port, "bpx", 1)
        assert code == 1
        assert "ERROR unknown-group there is no group 'bpx'; name one of: bpm, toroid" in err
        code, _, err = await run(sender, "127.0.0.1", listener.port, "toroid", 1)
        assert (code, err) == (1, "sender: the group has other channels than struct reading\n")
    code, _, err = await run(sender, "127.0.0.1", listener.port, "bpm", 1)
    assert (code, err) == (1, "sender: cannot connect; is the daemon running?\n")


async def test_the_python_example_runs(tmp_path) -> None:
    program = tmp_path / "example.py"
    program.write_text(shown("python"))
    async with listening(BPM) as listener:
        code, out, err = await run(sys.executable, program, "127.0.0.1", listener.port)
        assert (code, out, err) == (0, "12000 of 12000 readings acknowledged, 0 refused\n", "")
        assert len(listener.records) == 12_000


def test_the_bytes_shown_are_those_on_the_wire() -> None:
    greeting = Greeting(group="bpm", sender="crate-07", ack=Ack.COMMITTED, instrument="bpm_007")
    assert hexed("greeting") == greeting.line()
    assert parse_greeting(hexed("greeting")) == greeting
    assert shown("text answer").encode() == answer_greeting(greeting, {"bpm": BPM}).line()
    new_year = np.datetime64("2026-01-01T00:00:00", "ns").astype(int)
    record = np.array([(4711, new_year, 7, 0, 1.5, -0.25, 2.0, 0.0)], BPM.record).tobytes()
    assert hexed("record") == record
    assert newest_acknowledgement(hexed("acknowledgement")) == Acknowledgement(done=1, refused=0)
    assert hexed("datagram") == datagram_header(group="bpm", sequence=0, count=1, record_size=56) + record
    assert parse_datagram(hexed("datagram")).records == record
