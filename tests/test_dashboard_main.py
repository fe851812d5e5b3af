import asyncio
import json
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from dashboard.__main__ import main
from tests.page.stage import ROOT, Stage, ask, until


@pytest.fixture(scope="module")
def stage() -> Any:
    stage = Stage()
    try:
        stage.start()
        until(lambda: bool(ask(stage.page.url + "/healthz")["daemon"] == "ok"), "the page hears the daemon")
        yield stage
    finally:
        stage.end()


def test_a_taken_port_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"127.0.0.1:{port}" in told
    assert "--port" in told


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--daemon", "localhost:8120"], "http://host:port"), (["--port", "70000"], "0 to 65535"), (["--port", "x"], "x")],
)
def test_a_wrong_argument_is_named(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert named in capsys.readouterr().err


def test_port_0_takes_a_free_one_and_prints_it_and_a_stop_is_quick() -> None:
    command = [sys.executable, "-m", "dashboard", "--port", "0", "--daemon", "http://127.0.0.1:9"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as page:
        assert page.stdout is not None
        line = page.stdout.readline()
        assert line.startswith("page: http://127.0.0.1:")
        health = ask(line.removeprefix("page: ").strip() + "/healthz")
        assert health["page"] == "ok"
        assert health["daemon"] != "ok"
        page.send_signal(signal.SIGTERM)
        page.wait(5)


async def first(url: str, **options: Any) -> dict[str, Any]:
    async with connect(url, proxy=None, **options) as socket_, asyncio.timeout(5):
        return dict(json.loads(await socket_.recv()))


async def test_a_page_of_another_origin_may_not_listen(stage: Stage) -> None:
    url = stage.page.url.replace("http", "ws") + "/ws"
    with pytest.raises(InvalidStatus, match="403"):
        await first(url, origin="http://elsewhere.example")
    assert (await first(url, origin=stage.page.url))["kind"] == "snapshot"


async def test_a_browser_that_names_its_last_frame_is_not_sent_the_history_again(stage: Stage) -> None:
    url = stage.page.url.replace("http", "ws") + "/ws"
    told = await first(url)
    again = await first(f"{url}?epoch={told['epoch']}&sequence={told['sequence']}")
    assert (again["kind"], again["sequence"]) == ("frame", told["sequence"] + 1)


def test_a_stop_does_not_wait_for_the_browsers_to_leave(stage: Stage) -> None:
    async def stay() -> None:
        async with connect(stage.page.url.replace("http", "ws") + "/ws", proxy=None) as socket_:
            await socket_.recv()
            await asyncio.to_thread(stage.page.terminate, 6.0)

    asyncio.run(stay())
    stage.page.start()
