"""The way into the page: password, session, TLS; in a real browser and over real sockets."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from daemon.web.tls import client_context
from dashboard.access.login import ENDED, LASTS_S, Sessions
from tests.page.browser import Watched, live
from tests.page.stage import ROOT, Process, ask, until
from tests.support.certificates import Authority
from tests.support.raw_http import MALFORMED_HOSTS, MALFORMED_ORIGINS, status_of

PASSWORD = "vacuum & <beam>"
TOKEN = "a token of the served daemon"


@contextmanager
def page(*arguments: str, **environment: str) -> Iterator[str]:
    """A page in a process of its own; its address."""
    command = [sys.executable, "-m", "dashboard", "--port", "0", *arguments]
    settings = {**os.environ, **environment}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=settings) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().removeprefix("page: ").strip().replace("0.0.0.0", "127.0.0.1")
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(60)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Process]:
    daemon = Process("-m", "tests.page.served", "{port}", health="/api/v1/status")
    daemon.start()
    yield daemon
    daemon.kill()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def guarded(daemon: Process, authority: Authority) -> Iterator[str]:
    """A page that everybody reaches: over TLS, with a password."""
    own = authority.certificate("page", "IP:127.0.0.1")
    tls = ["--tls-certificate", str(own.certificate), "--tls-key", str(own.key)]
    with page("--host", "0.0.0.0", "--daemon", daemon.url, *tls, TRIGGERLOG_PAGE_PASSWORD=PASSWORD) as url:
        assert url.startswith("https://")
        yield url


@pytest.fixture
def client(guarded: str, authority: Authority) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded, verify=client_context(authority.ca), trust_env=False, timeout=60) as client:
        yield client


def streamed(
    guarded: str, authority: Authority, act: Callable[[ClientConnection], Coroutine[Any, Any, None]], **headers: str
) -> None:
    """Do something with the stream of the page, which is opened with these headers."""

    # In a loop and not with threads: OpenSSL lets no two threads use a connection, one reading while the other writes.
    async def run() -> None:
        address, trusting = guarded.replace("https", "wss") + "/ws", client_context(authority.ca)
        async with (
            connect(address, ssl=trusting, proxy=None, additional_headers=headers, open_timeout=60) as stream,
            asyncio.timeout(60),
        ):
            await act(stream)

    # Playwright may have a loop in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, run()).result()


async def ended(stream: ClientConnection) -> int | None:
    """Wait for the end of a stream; the code that the page gave."""
    try:
        while True:
            await stream.recv()
    except ConnectionClosed as end:
        return None if end.rcvd is None else end.rcvd.code


def log_in(client: httpx.Client, password: str = PASSWORD, following: str = "/", **headers: str) -> httpx.Response:
    return client.post("/login", data={"password": password, "next": following}, headers=headers)


def test_nobody_sees_anything_without_the_password(client: httpx.Client, guarded: str, authority: Authority) -> None:
    for path in ("/_dash-layout", "/_dash-dependencies", "/assets/stream.js", "/nothing"):
        assert client.get(path).status_code == 401, path
    assert client.post("/_dash-update-component", json={}).status_code == 401
    assert client.get("/healthz").json() == {"page": "ok"}
    led = client.get("/?group=bpm", headers={"accept": "text/html"})
    assert (led.status_code, led.headers["location"]) == (303, "/login?next=%2F%3Fgroup%3Dbpm")

    async def never(_: ClientConnection) -> None:
        pytest.fail("it was opened")

    with pytest.raises(InvalidStatus, match="401"):
        streamed(guarded, authority, never)


def test_the_password_opens_a_session_that_a_log_out_ends(
    client: httpx.Client, guarded: str, authority: Authority
) -> None:
    came = log_in(client, following="/?group=bpm")
    assert (came.status_code, came.headers["location"]) == (303, "/?group=bpm")
    told = came.headers["set-cookie"]
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/", f"Max-Age={LASTS_S}"} <= set(told.split("; "))
    assert client.get("/_dash-layout").status_code == 200
    session = {"Cookie": told.partition(";")[0]}

    async def log_out(stream: ClientConnection) -> None:
        assert json.loads(await stream.recv())["kind"] in ("snapshot", "link", "frame")
        assert (await asyncio.to_thread(client.post, "/logout")).status_code == 303
        assert await ended(stream) == ENDED

    streamed(guarded, authority, log_out, **session)
    assert client.get("/_dash-layout", headers=session).status_code == 401


def test_pages_elsewhere_can_neither_log_in_nor_be_led_to(client: httpx.Client) -> None:
    assert log_in(client, origin="https://evil.example").status_code == 403
    for trick in ("//evil.example", "https://evil.example", "/\\evil.example", "/\n/evil.example", ""):
        assert log_in(client, following=trick).headers["location"] == "/"
    shown = client.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>" not in shown.text
    assert "frame-ancestors" in shown.headers["content-security-policy"]
    assert shown.headers["x-content-type-options"] == "nosniff"


def test_guessing_is_slowed_down_and_the_password_is_taken_a_moment_later(daemon: Process) -> None:
    with (
        page("--daemon", daemon.url, TRIGGERLOG_PAGE_PASSWORD=PASSWORD) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        codes = [log_in(client, f"guess {i}").status_code for i in range(30)]
        assert codes[:5] == [401] * 5
        assert 429 in codes
        assert client.get("/login").status_code == 200
        until(lambda: log_in(client).status_code == 303, "the password is taken once the guessing ends")


def test_a_forged_forwarded_address_is_no_other_guesser(daemon: Process) -> None:
    with (
        page("--daemon", daemon.url, TRIGGERLOG_PAGE_PASSWORD=PASSWORD) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        codes = [log_in(client, f"guess {i}", **{"x-forwarded-for": f"10.0.0.{i}"}).status_code for i in range(30)]
        assert codes[:5] == [401] * 5
        assert 429 in codes


def test_the_addresses_behind_a_trusted_proxy_are_told_apart(daemon: Process) -> None:
    arguments = ("--daemon", daemon.url, "--trusted-proxy", "127.0.0.1")
    with page(*arguments, TRIGGERLOG_PAGE_PASSWORD=PASSWORD) as url, httpx.Client(base_url=url, timeout=60) as client:
        codes = [
            log_in(client, f"guess {i}", **{"x-forwarded-for": f"10.0.0.{i}, 10.1.0.1"}).status_code for i in range(30)
        ]
        assert codes[:5] == [401] * 5
        assert 429 in codes
        assert log_in(client, "guess", **{"x-forwarded-for": "10.1.0.2"}).status_code == 401


@pytest.mark.parametrize("password", ["", PASSWORD])
async def test_a_malformed_host_or_origin_is_answered_400(
    daemon: Process, password: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with page("--daemon", daemon.url, TRIGGERLOG_PAGE_PASSWORD=password) as url:
        port = int(url.rpartition(":")[2])
        host = b"127.0.0.1:%d" % port
        for path, websocket in (("/healthz", False), ("/login", False), ("/ws", True)):
            for value in MALFORMED_HOSTS:
                answer = await status_of(port, path, (b"host", value), websocket=websocket)
                assert answer == 400, (path, value)
            for value in MALFORMED_ORIGINS:
                for method in ("GET",) if websocket else ("GET", "POST"):
                    headers = (b"host", host), (b"origin", value)
                    answer = await status_of(port, path, *headers, method=method, websocket=websocket)
                    assert answer == 400, (path, value)
    assert "Traceback" not in capfd.readouterr().err


def test_a_page_at_another_port_of_this_host_logs_nobody_in(daemon: Process) -> None:
    with (
        page("--daemon", daemon.url, TRIGGERLOG_PAGE_PASSWORD=PASSWORD) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        for origin in ("http://127.0.0.1:1", "http://127.0.0.1", "null"):
            assert log_in(client, origin=origin).status_code == 403
        assert log_in(client, origin=url).status_code == 303


@pytest.mark.parametrize("other", ['consent={"necessary":true}', "x=a b", "name=Müller", "flag", "=x"])
def test_odd_cookies_of_other_services_on_this_host_lock_nobody_out(client: httpx.Client, other: str) -> None:
    ours = log_in(client).headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    for cookies in (f"{other}; {ours}", f"{ours}; {other}"):
        assert client.get("/_dash-layout", headers={b"cookie": cookies.encode()}).status_code == 200
    assert client.get("/_dash-layout", headers={b"cookie": other.encode()}).status_code == 401


def test_sessions_are_signed_and_end() -> None:
    sessions = Sessions()
    session = sessions.begin(1000.0)
    assert sessions.is_valid(session, 1000.0 + LASTS_S - 1)
    assert not sessions.is_valid(session, 1000.0 + LASTS_S + 1)
    until_, _, rest = session.partition(".")
    for forged in (None, "", "x", f"{int(until_) + 1}.{rest}", session[:-1], Sessions().begin(1000.0)):
        assert not sessions.is_valid(forged, 1000.0)


@pytest.mark.page
def test_a_reader_logs_in_with_the_keyboard_looks_and_logs_out(browser: Browser, guarded: str) -> None:
    watched = Watched(browser, guarded + "/?group=bpm", ignore_https_errors=True)
    shown = watched.page
    expect(shown).to_have_title("Log in · triggerlog")
    expect(shown.get_by_label("Password of this page")).to_be_focused()
    assert Axe().run(shown).violations_count == 0
    shown.keyboard.type("not the password")
    shown.keyboard.press("Enter")
    expect(shown.get_by_role("alert")).to_have_text("This is not the password. Try again.")
    shown.keyboard.type(PASSWORD)
    shown.keyboard.press("Enter")
    live(shown, 60_000)
    assert shown.url.endswith("/?group=bpm")
    shown.get_by_role("button", name="Log out").click()
    expect(shown).to_have_title("Log in · triggerlog")
    assert watched.hosts == {"127.0.0.1"}
    shown.close()


@pytest.mark.page
def test_an_open_page_leads_to_the_way_in_when_its_session_is_over(browser: Browser, guarded: str) -> None:
    context = browser.new_context(ignore_https_errors=True)
    first = context.new_page()
    first.goto(guarded)
    first.get_by_label("Password of this page").fill(PASSWORD)
    first.get_by_role("button", name="Log in").click()
    live(first, 60_000)
    # As its button does in another tab.
    assert context.request.post(guarded + "/logout").ok
    expect(first).to_have_title("Log in · triggerlog", timeout=60_000)
    context.close()


# --- what the page is told of the daemon --------------------------------------------------------------------------


def problem(url: str) -> str:
    return str(ask(url + "/healthz")["daemon"])


def test_a_daemon_that_refuses_the_token_is_named(authority: Authority) -> None:
    own = authority.certificate("node", "IP:127.0.0.1")
    command = ["-m", "tests.page.guarded", "{port}", str(own.certificate), str(own.key), TOKEN]
    daemon = Process(*command, health="/health")
    daemon.url = daemon.url.replace("http", "https")
    daemon.trusting = client_context(authority.ca)
    daemon.start()
    ca = ["--ca", str(authority.ca)]
    try:
        with page("--daemon", daemon.url, *ca) as url:
            until(lambda: "it refuses the token of this page" in problem(url), "the refusal is said")
            assert re.search(r"--token-file", problem(url))
        with page("--daemon", daemon.url, *ca, TRIGGERLOG_TOKEN=TOKEN) as url:
            until(lambda: problem(url) == "ok", "the page hears the daemon")
        with page("--daemon", daemon.url, "--daemon-certificate", str(own.certificate), TRIGGERLOG_TOKEN=TOKEN) as url:
            until(lambda: problem(url) == "ok", "the page hears the daemon")
        with page("--daemon", daemon.url, TRIGGERLOG_TOKEN=TOKEN) as url:
            until(lambda: "its certificate is not trusted" in problem(url), "the certificate is named")
    finally:
        daemon.kill()
