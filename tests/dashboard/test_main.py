import asyncio
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from daemon.web.tls import client_context
from dashboard.__main__ import main
from tests.page.stage import ROOT, Stage, ask, until
from tests.support.certificates import Authority
from tests.support.processes import GROUP, running


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
    [
        (["--daemon", "localhost:8120"], "http://host:port"),
        (["--port", "70000"], "0 to 65535"),
        (["--port", "x"], "x"),
        (["--trusted-proxy", "10.1.0.1/16"], "10.1.0.0/16"),
        (["--origin", "https://["], "https://host:port"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert named in capsys.readouterr().err


def test_a_tab_that_cannot_have_its_name_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "0", "--tab", "own/orbit.py", "--tab", "own/live.py"]) == 1
    assert capsys.readouterr().err == (
        "triggerlog page: --tab: the page has a tab 'live' of its own; give the file another name\n"
    )


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
        page.wait(60)


async def first(url: str, **options: Any) -> dict[str, Any]:
    async with connect(url, proxy=None, **options) as socket_, asyncio.timeout(60):
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


def test_off_loopback_it_does_not_start_without_a_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIGGERLOG_PAGE_PASSWORD", raising=False)
    assert main(["--host", "0.0.0.0", "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("triggerlog page: --host: 0.0.0.0 is reachable from other machines")
    assert "--password-file" in told
    assert told.count("\n") == 1
    monkeypatch.setenv("TRIGGERLOG_PAGE_PASSWORD", "short")
    assert main(["--host", "0.0.0.0", "--port", "0"]) == 1
    assert "has 5 characters, and at least 8 are needed" in capsys.readouterr().err
    monkeypatch.setenv("TRIGGERLOG_PAGE_PASSWORD", "a password of this test")
    assert main(["--host", "a..b", "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert "cannot listen on a..b:0 (name or service not known); give an address of this machine as --host" in told


def test_the_command_takes_everything_from_the_configuration(tmp_path: Path) -> None:
    Authority(tmp_path).certificate("node", "IP:127.0.0.1")
    (tmp_path / "password").write_text("a password of this test\n")
    doors = '[dashboard]\nhost = "0.0.0.0"\nport = 0\npassword_file = "password"\ntrusted_proxies = ["127.0.0.1"]\n'
    file = tmp_path / "beam.toml"
    file.write_text(f'{GROUP}{doors}tls_certificate = "node.crt"\ntls_key = "node.key"\n')
    with running("dashboard", str(file)) as page:
        port = page.until_said(r"page: https://0\.0\.0\.0:(\d+)")[1]
        trusting = client_context(tmp_path / "ca.crt")
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting, trust_env=False, timeout=60) as client:
            assert client.get("/_dash-layout").status_code == 401
            for k in range(20):
                forwarded = {"x-forwarded-for": f"10.0.0.{k}"}
                assert client.post("/login", data={"password": "a guess"}, headers=forwarded).status_code == 401
            assert client.post("/login", data={"password": "a password of this test"}).status_code == 303
            assert client.get("/_dash-layout").status_code == 200
        arguments = Path(f"/proc/{page.process.pid}/cmdline").read_text()
        assert "a password of this test" not in arguments


def test_an_unknown_time_zone_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "0", "--time-zone", "berlin"]) == 1
    assert capsys.readouterr().err == (
        "triggerlog page: --time-zone: 'berlin' is no time zone; did you mean `Europe/Berlin`?\n"
    )
