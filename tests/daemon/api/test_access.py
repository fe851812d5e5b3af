"""Who may ask the API what: tokens, TLS, limits, over real sockets and with a real daemon."""

import asyncio
import contextlib
import errno
import stat
from pathlib import Path

import httpx
import pytest
import websockets

import daemon.core.configuration.api_token as api_token_module
from daemon.api import parameters, status
from daemon.client.api.reach import reach
from daemon.core.configuration import load_config
from daemon.core.configuration.api_token import api_token, stored_token
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed
from daemon.web import access
from daemon.web.tls import Identity, client_context
from schemas.config import ConfigError
from tests.daemon.api.test_api import TOKEN, WITH_TOKEN, served
from tests.support.certificates import Authority
from tests.support.listening import eventually
from tests.support.processes import (
    GROUP,
    LISTENERS,
    Daemon,
    free_port,
    here,
    running,
    running_daemon,
    triggerlog,
    until,
)
from tests.support.raw_http import MALFORMED_HOSTS, MALFORMED_ORIGINS, status_of

EVERYWHERE = "0.0.0.0"
WRONG = {"authorization": "Bearer not the token"}
READS = ("/api/v1/status", "/ready", "/metrics", "/api/v1/groups", "/docs", "/openapi.json")


async def test_on_loopback_anyone_reads_and_only_the_token_changes() -> None:
    async with served() as api:
        for path in (*READS, "/health"):
            assert (await api.client.get(path)).status_code == 200, path
        refused = await api.client.post("/api/v1/run")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert refused.json() == {
            "detail": "this needs the API's token",
            "fix": "send `Authorization: Bearer TOKEN`; it is in `api-token` in the daemon's state_dir, or where "
            "token_file or token_env in [api] says",
        }
        assert (await api.client.post("/api/v1/run", headers=WRONG)).status_code == 401
        assert api.logger.pipelines["bpm"].figures().run == 1
        assert (await api.client.post("/api/v1/run?epoch=9", headers=WITH_TOKEN)).json() == {"bpm": 1}


async def test_elsewhere_everything_but_a_sign_of_life_needs_the_token() -> None:
    async with served(EVERYWHERE) as api:
        assert (await api.client.get("/health")).json() == {"status": "alive"}
        for path in READS:
            assert (await api.client.get(path)).status_code == 401, path
            assert (await api.client.get(path, headers=WITH_TOKEN)).status_code == 200, path
        stream = api.url.replace("http", "ws") + "/api/v1/stream"
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(stream, proxy=None)
        assert refused.value.response.status_code == 401
        assert b"needs the API's token" in (refused.value.response.body or b"")
        async with websockets.connect(stream, proxy=None, additional_headers=WITH_TOKEN) as listening:
            assert "bpm" in await listening.recv()


async def test_guessing_is_slowed_down_and_the_right_token_never_waits() -> None:
    async with served() as api:
        codes = [(await api.client.get("/api/v1/status", headers=WRONG)).status_code for _ in range(40)]
        assert codes[:10] == [401] * 10
        assert 429 in codes[10:]
        late = await api.client.get("/api/v1/status", headers=WRONG)
        assert late.status_code in (401, 429)
        for _ in range(5):
            assert (await api.client.get("/api/v1/status", headers=WITH_TOKEN)).status_code == 200
        # What needs no token is not refused for another's guesses.
        assert (await api.client.get("/api/v1/status")).status_code == 200


async def test_a_forged_forwarded_address_is_no_other_guesser() -> None:
    async with served() as api:
        codes = []
        for k in range(40):
            forged = {**WRONG, "x-forwarded-for": f"10.0.0.{k}", "x-real-ip": f"10.0.0.{k}"}
            codes.append((await api.client.get("/api/v1/status", headers=forged)).status_code)
        assert codes[:10] == [401] * 10
        assert 429 in codes[10:]


async def test_the_addresses_behind_a_trusted_proxy_are_told_apart() -> None:
    async with served(proxies=("127.0.0.0/8",)) as api:

        async def guess(forwarded: str) -> int:
            headers = {**WRONG, "x-forwarded-for": forwarded}
            return (await api.client.get("/api/v1/status", headers=headers)).status_code

        # What the proxy has added counts; what its client sent before that does not.
        codes = [await guess(f"10.0.0.{k}, 10.1.0.1") for k in range(40)]
        assert codes[:10] == [401] * 10
        assert 429 in codes[10:]
        assert await guess("10.1.0.2") == 401


@pytest.mark.parametrize("websocket", [False, True])
async def test_a_malformed_host_or_origin_is_answered_400(websocket: bool, caplog: pytest.LogCaptureFixture) -> None:
    path = "/api/v1/stream" if websocket else "/api/v1/status"
    async with served() as api:
        port = int(api.url.rpartition(":")[2])
        host = b"127.0.0.1:%d" % port
        token = b"authorization", WITH_TOKEN["authorization"].encode()
        for given in ((), (token,)):
            for value in MALFORMED_HOSTS:
                assert await status_of(port, path, (b"host", value), *given, websocket=websocket) == 400, value
            for value in MALFORMED_ORIGINS:
                headers = (b"host", host), (b"origin", value), *given
                assert await status_of(port, path, *headers, websocket=websocket) == 400, value
        for twice in (b"host", b"origin"):
            headers = (b"host", host), (b"origin", b"http://" + host), (twice, host)
            assert await status_of(port, path, *headers, websocket=websocket) == 400
        assert await status_of(port, path, (b"host", host), websocket=websocket) == (101 if websocket else 200)
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_page_at_another_port_of_this_host_gives_no_orders() -> None:
    async with served() as api:
        host, _, port = api.url.rpartition(":")
        for origin in (f"{host}:{int(port) % 65_535 + 1}", host, "null"):
            answer = await api.client.post("/api/v1/run", headers={"origin": origin, **WITH_TOKEN})
            assert answer.status_code == 403, origin
            with pytest.raises(websockets.InvalidStatus, match="403"):
                await websockets.connect(
                    api.url.replace("http", "ws") + "/api/v1/stream", origin=websockets.Origin(origin), proxy=None
                )
        assert (await api.client.post("/api/v1/run", headers={"origin": api.url, **WITH_TOKEN})).status_code == 200


async def test_a_name_that_leads_to_loopback_by_a_trick_reads_nothing() -> None:
    async with served() as api:
        for host, code in (("evil.example:8120", 403), ("localhost:8120", 200), ("node", 200), ("[::1]:8120", 200)):
            assert (await api.client.get("/api/v1/status", headers={"host": host})).status_code == code
        trusted = {"host": "node.example.org", **WITH_TOKEN}
        assert (await api.client.get("/api/v1/status", headers=trusted)).status_code == 200


async def test_an_address_that_asks_without_end_is_told_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(access.REQUESTS, "burst", 5.0)
    monkeypatch.setitem(access.REQUESTS, "per_s", 0.01)
    async with served() as api:
        answers = [await api.client.get("/api/v1/groups") for _ in range(7)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
        assert int(answers[-1].headers["retry-after"]) >= 1


async def test_questions_for_readings_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parameters.RATE, "burst", 4.0)
    monkeypatch.setitem(parameters.RATE, "per_s", 0.01)
    async with served() as api:
        answers = [await api.client.get("/api/v1/groups/bpm/newest") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
        assert answers[-1].json()["detail"].startswith("too many questions for readings from this address")
        assert (await api.client.get("/api/v1/status")).status_code == 200


async def test_streams_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "STREAMS", 2)
    async with served() as api, contextlib.AsyncExitStack() as listening:
        stream = api.url.replace("http", "ws") + "/api/v1/stream"
        for _ in range(2):
            await listening.enter_async_context(websockets.connect(stream, proxy=None))
        await eventually(lambda: api.service.stream.listeners == 2)
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(stream, proxy=None)
        assert refused.value.response.status_code == 503


async def test_browsers_are_told_what_not_to_do_with_an_answer() -> None:
    async with served() as api:
        for path in ("/api/v1/status", "/docs", "/nothing"):
            headers = (await api.client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    node = authority.certificate("node", "IP:127.0.0.1")
    async with served(EVERYWHERE, Identity(node.certificate, node.key, "api")) as api:
        assert api.url.startswith("https://")
        trusting = client_context(authority.ca)
        async with httpx.AsyncClient(
            base_url=api.url, verify=trusting, headers=WITH_TOKEN, trust_env=False, timeout=60
        ) as client:
            assert (await client.get("/api/v1/status")).status_code == 200
        stream = api.url.replace("https", "wss") + "/api/v1/stream"
        async with websockets.connect(stream, ssl=trusting, proxy=None, additional_headers=WITH_TOKEN) as listening:
            assert "bpm" in await listening.recv()


# --- the token that the daemon makes ------------------------------------------------------------------------------


def write(folder: Path, text: str = "") -> Path:
    file = folder / "beam.toml"
    file.write_text(GROUP + text)
    return file


def test_the_daemon_makes_a_token_once_and_keeps_it_to_itself(tmp_path: Path) -> None:
    loaded = load_config(write(tmp_path), {})
    assert stored_token(loaded.state_dir) is None
    token = api_token(loaded, {})
    kept = loaded.state_dir / "api-token"
    assert len(token) > 40
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert api_token(loaded, {}) == stored_token(loaded.state_dir) == token
    kept.write_text("")  # a disk that was full
    assert api_token(loaded, {}) not in ("", token)


def test_a_configured_token_counts_and_has_to_be_long(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert api_token(load_config(write(tmp_path, '[api]\ntoken_file = "token"\n'), {}), {}) == TOKEN
    assert not (tmp_path / "state").exists()
    named = load_config(write(tmp_path, '[api]\ntoken_env = "TOKEN"\n'), {})
    assert api_token(named, {"TOKEN": TOKEN}) == TOKEN
    with pytest.raises(ConfigError, match=r"api\.token_env: .* is not set; set it, or use `token_file`"):
        api_token(named, {})
    with pytest.raises(ConfigError, match=r"api\.token_env: what it holds has 5 characters, and at least 16"):
        api_token(named, {"TOKEN": "short"})


@pytest.mark.parametrize(
    "token", [b"operators-own", "p\u00e4ssw\u00f6rtchen-0123456789".encode(), b"\xff\xfe0123456789abcdef"]
)
def test_a_token_of_the_operators_that_cannot_be_one_is_not_replaced(tmp_path: Path, token: bytes) -> None:
    loaded = load_config(write(tmp_path), {})
    loaded.state_dir.mkdir()
    kept = loaded.state_dir / "api-token"
    kept.write_bytes(token + b"\n")
    with pytest.raises(CommandFailed) as refused:
        api_token(loaded, {})
    assert str(refused.value) == (
        f"{kept}: a token has at least 16 characters, all ASCII; make one that nobody guesses: openssl rand -hex 24, "
        "or delete the file"
    )
    assert kept.read_bytes() == token + b"\n"
    with pytest.raises(CommandFailed, match="a token has at least 16 characters, all ASCII"):
        reach(loaded.path, environment={})


def test_a_token_that_cannot_be_sent_is_refused_by_its_field(tmp_path: Path) -> None:
    foreign = "p\u00e4ssw\u00f6rtchen-0123456789"
    named = load_config(write(tmp_path, '[api]\ntoken_env = "TOKEN"\n'), {})
    with pytest.raises(ConfigError, match=r"api\.token_env: what it holds has other characters than ASCII; make one"):
        api_token(named, {"TOKEN": foreign})
    with pytest.raises(CommandFailed, match="TRIGGERLOG_TOKEN: what it holds has other characters than ASCII"):
        reach(environment={"TRIGGERLOG_TOKEN": foreign})
    (tmp_path / "token").write_text(foreign)
    with pytest.raises(CommandFailed, match="--token-file: what it holds has other characters than ASCII"):
        reach(token_file=tmp_path / "token", environment={})


async def test_a_full_disk_keeps_no_daemon_from_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    loaded, events = load_config(write(tmp_path), {}), Events()
    with monkeypatch.context() as patch:
        patch.setattr(api_token_module, "_write", full)
        token = api_token(loaded, {})
        assert api_token(loaded, {}) == token
        assert stored_token(loaded.state_dir) is None
        patch.setattr(api_token_module, "AGAIN_S", 0.01)
        writing = asyncio.create_task(api_token_module.write_token(loaded.state_dir, events))
        while not events.newest():  # noqa: ASYNC110 - an event tells nobody
            await asyncio.sleep(0.01)
    await writing
    assert stored_token(loaded.state_dir) == token
    (event,) = events.newest()
    assert event.text == (
        f"{loaded.state_dir / 'api-token'} cannot be written (no space left on device): no command finds the API's"
        " token; free space on its disk"
    )


# --- the command line, with a real daemon -------------------------------------------------------------------------


@pytest.mark.slow
def test_commands_find_the_token_of_a_daemon_by_its_configuration(state_dir: Path) -> None:
    state_dir.mkdir()
    port = free_port()
    with running_daemon(state_dir, api=port) as daemon:
        until(lambda: daemon.status()["state"] == "running", "the daemon runs")
        refused = here("announce-run", "--daemon", daemon.api)
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1
        assert "answers 401: this needs the API's token" in refused.stderr
        assert "--token-file" in refused.stderr
        assert triggerlog("announce-run", str(daemon.file), "--epoch", "9").stdout == "bpm: run 1\n"
        token = state_dir / "state" / "api-token"
        by_file = here("announce-run", "--epoch", "10", "--daemon", daemon.api, "--token-file", str(token))
        assert by_file.stdout == "bpm: run 2\n"
        named = here(
            "announce-run", "--epoch", "11", TRIGGERLOG_DAEMON=daemon.api, TRIGGERLOG_TOKEN=token.read_text().strip()
        )
        assert named.stdout == "bpm: run 3\n"
        assert '"state": "running"' in here("status", str(daemon.file), "--json").stdout
        assert token.read_text().strip() not in daemon.run.said
        half_open(port, daemon.api)


def test_a_daemon_believes_the_proxies_of_its_configuration(state_dir: Path) -> None:
    state_dir.mkdir()
    file = state_dir / "beam.toml"
    trusting = LISTENERS.format(api=0).replace("[api]\n", '[api]\ntrusted_proxies = ["127.0.0.1"]\n')
    file.write_text(GROUP + trusting)
    with (
        running("run", str(file)) as run,
        httpx.Client(base_url=Daemon(run, file).api, trust_env=False, timeout=60) as client,
    ):
        for k in range(30):
            forwarded = {**WRONG, "x-forwarded-for": f"10.0.0.{k}"}
            assert client.get("/api/v1/status", headers=forwarded).status_code == 401
        assert run.end() == 0, run.said


def half_open(port: int, url: str) -> None:
    """200 connections that begin a request and never end it stop neither the health check nor the API."""

    async def crowd() -> None:
        ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in ends:
            writer.write(b"GET /health HTTP/1.1\r\nX: ")
        async with httpx.AsyncClient(base_url=url, verify=False, trust_env=False, timeout=60) as client:
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/api/v1/status")).json()["state"] == "running"
        for _, writer in ends:
            writer.close()

    asyncio.run(crowd())


@pytest.mark.slow
def test_commands_and_a_daemon_over_tls(state_dir: Path) -> None:
    state_dir.mkdir()
    authority, stranger = Authority(state_dir), Authority(state_dir, "stranger")
    authority.certificate("node", "DNS:localhost")
    (state_dir / "token").write_text(TOKEN)
    port = free_port()
    listeners = f'[api]\nport = {port}\nhost = "0.0.0.0"\ntoken_file = "token"\n'
    tls = 'tls_certificate = "node.crt"\ntls_key = "node.key"\n[dashboard]'
    listeners = LISTENERS.format(api=0).replace("[api]\nport = 0\n", listeners).replace("\n[dashboard]", tls)
    file = write(state_dir, listeners)
    with running("run", str(file)) as daemon:
        daemon.until_said(rf"taking readings at .*; API at https://0\.0\.0\.0:{port}")
        url = f"https://localhost:{port}"
        # By the configuration the daemon's own certificate is known, whatever names it has.
        assert '"state": "running"' in here("status", str(file), "--json").stdout
        ca = ["--ca", str(authority.ca)]
        token = ["--token-file", str(state_dir / "token")]
        assert here("announce-run", "--epoch", "9", "--daemon", url, *ca, *token).stdout == "bpm: run 1\n"

        def refused(*arguments: str) -> str:
            done = here("status", "--once", *arguments)
            assert done.returncode == 1
            assert done.stderr.count("\n") == 1
            return done.stderr

        assert "its certificate is not trusted" in refused("--daemon", url, "--ca", str(stranger.ca))
        assert "made for another name" in refused("--daemon", f"https://127.0.0.1:{port}", *ca)
        assert "needs the API's token" in refused("--daemon", url, *ca)
        assert "no daemon at" in refused("--daemon", url.replace("https", "http"))
        assert "has no certificate in PEM" in refused("--daemon", url, "--ca", str(state_dir / "node.key"))
        assert daemon.end() == 0


def test_check_config_looks_at_the_listeners(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.certificate("node")
    authority.certificate("other")
    listeners = '[{}]\nhost = "0.0.0.0"\n{}\ntls_certificate = "node.crt"\ntls_key = "{}.key"\n'
    (tmp_path / "token").write_text(TOKEN)
    right = here(
        "check-config", "--offline", str(write(tmp_path, listeners.format("api", 'token_file = "token"', "node")))
    )
    assert right.returncode == 0
    assert "https://0.0.0.0:8120" in right.stdout
    for secret, key, said in (
        ('token_file = "token"', "other", "api.tls_key: "),
        ('token_file = "none"', "node", "api.token_file: "),
    ):
        wrong = here("check-config", "--offline", str(write(tmp_path, listeners.format("api", secret, key))))
        assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
        assert wrong.stderr.startswith(said)
    # The page is a process of its own, perhaps of a user who may read what this one may not.
    page = here(
        "check-config",
        "--offline",
        str(write(tmp_path, listeners.format("dashboard", 'password_file = "none"', "other"))),
    )
    assert page.returncode == 0
    assert "warning: dashboard.password_file: " in page.stderr
    assert "warning: dashboard.tls_key: " in page.stderr
