"""What a person orders through the page: sent on with that person's token, and from this page alone."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from dashboard.tabs.orders import REMEMBERED
from tests.page.stage import Process

TOKEN = "the-token-of-the-page-itself"


@pytest.fixture(scope="module")
def page() -> Iterator[httpx.Client]:
    """A page with a token of its own, and no daemon behind it: what reaches one is refused by the connection."""
    process = Process(
        "-m",
        "dashboard",
        "--daemon",
        "http://127.0.0.1:9",
        "--port",
        "{port}",
        health="/healthz",
        TRIGGERLOG_TOKEN=TOKEN,
    )
    process.start()
    try:
        with httpx.Client(base_url=process.url, verify=False, trust_env=False, timeout=60) as client:
            yield client
    finally:
        process.kill()


def sent(page: httpx.Client, token: str, **order: Any) -> dict[str, Any]:
    """What becomes of an order that waits in the browser, once the dialog's button is pressed."""
    waiting = {"method": "POST", "path": "/governor", "body": {}, "what": "", "done": "done", "outcome": "said"} | order
    called = {
        "output": f"{REMEMBERED}.data",
        "outputs": {"id": REMEMBERED, "property": "data"},
        "changedPropIds": ["order-send.n_clicks"],
        "inputs": [
            {"id": "order-send", "property": "n_clicks", "value": 1},
            {"id": "order-token", "property": "n_submit", "value": None},
        ],
        "state": [
            {"id": "order-token", "property": "value", "value": token},
            {"id": "order-remember", "property": "checked", "value": True},
            {"id": "order", "property": "data", "value": waiting},
        ],
    }
    answer = page.post("/_dash-update-component", json=called)
    assert answer.status_code in (200, 204), answer.text
    told: dict[str, Any] = answer.json().get("sideUpdate", {})
    return told


def test_an_order_is_sent_on_with_the_token_of_the_person(page: httpx.Client) -> None:
    told = sent(page, "mine")
    assert "the daemon at http://127.0.0.1:9 cannot be reached" in told["said"]["children"]
    assert told["said"]["data-level"] == "wrong"


class _Daemon(BaseHTTPRequestHandler):
    """Takes every order, and keeps the address that it was passed on for."""

    passed_on_for: list[str | None] = []  # noqa: RUF012 - of the class, which the server makes one of for each request

    def do_POST(self) -> None:
        self.passed_on_for.append(self.headers["X-Forwarded-For"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def test_the_daemon_is_told_which_browser_an_order_came_from() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Daemon) as daemon:
        threading.Thread(target=daemon.serve_forever).start()
        url = f"http://127.0.0.1:{daemon.server_address[1]}"
        options = ("--daemon", url, "--port", "{port}", "--trusted-proxy", "127.0.0.1")
        process = Process("-m", "dashboard", *options, health="/healthz")
        try:
            process.start()
            with httpx.Client(base_url=process.url, trust_env=False, timeout=60) as browser:
                assert sent(browser, "mine")["said"]["children"] == "done"
                browser.headers["x-forwarded-for"] = "10.1.2.3"
                assert sent(browser, "mine")["said"]["children"] == "done"
        finally:
            process.kill()
            daemon.shutdown()
    assert _Daemon.passed_on_for == ["127.0.0.1", "10.1.2.3"]


@pytest.mark.parametrize("token", ["", "  ", "ein Schlüssel", "two words"])
def test_what_is_no_token_is_not_sent(page: httpx.Client, token: str) -> None:
    told = sent(page, token)
    assert "said" not in told
    assert told["order-token"]["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/run"),
        ("POST", "/reload"),
        ("GET", "/readers"),
        ("DELETE", "/governor"),
        ("DELETE", "/readers/../run"),
        ("DELETE", "/readers/a%2Fb"),
        ("DELETE", "/readers/"),
        ("POST", "/readers?x=1"),
    ],
)
def test_what_is_no_order_of_this_page_is_not_sent_on(page: httpx.Client, method: str, path: str) -> None:
    told = sent(page, "mine", method=method, path=path)
    assert told["said"]["children"] == "This page does not give such an order."


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null"])
def test_another_page_cannot_have_a_browser_call_back(page: httpx.Client, origin: str) -> None:
    for body in ("application/json", "text/plain"):
        headers = {"origin": origin, "content-type": body}
        answer = page.post("/_dash-update-component", content=b"{}", headers=headers)
        assert answer.status_code == 403
        assert "a page of another origin" in answer.json()["detail"]
    own = page.post("/_dash-update-component", content=b"{}", headers={"origin": str(page.base_url).rstrip("/")})
    assert own.status_code != 403


CALL: dict[str, Any] = {
    "output": "fill-storage.children",
    "outputs": {"id": "fill-storage", "property": "children"},
    "inputs": [{"id": "open-storage", "property": "data", "value": True}],
    "changedPropIds": ["open-storage.data"],
}


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"", "it is not valid JSON"),
        (b"{", "it is not valid JSON"),
        (b"[" * 200_000, "it is not valid JSON"),
        (b'"\xff"', "it is not valid JSON"),
        ([], "there is no JSON object"),
        ({}, "output: there is no such callback"),
        (CALL | {"output": []}, "output: there is no such callback"),
        (CALL | {"output": "no.such"}, "output: there is no such callback"),
        (CALL | {"inputs": []}, "inputs: there are not 1 of them"),
        (CALL | {"inputs": {}}, "inputs: there are not 1 of them"),
        (CALL | {"inputs": [1]}, "inputs[0]: it is not open-storage.data"),
        (CALL | {"inputs": [{"id": "open-storage"}]}, "inputs[0]: it is not open-storage.data"),
        (CALL | {"inputs": [{"id": [], "property": 3}]}, "inputs[0]: it is not open-storage.data"),
        (CALL | {"state": [1]}, "state: there are not 0 of them"),
        (CALL | {"outputs": [7]}, "outputs: they are not those of the callback"),
        (CALL | {"outputs": [CALL["outputs"]]}, "outputs: they are not those of the callback"),
        (CALL | {"outputs": None}, "outputs: they are not those of the callback"),
        (CALL | {"changedPropIds": 3}, "changedPropIds: it is no list of names"),
        (CALL | {"changedPropIds": [{}]}, "changedPropIds: it is no list of names"),
    ],
)
def test_a_call_that_no_page_sends_is_refused_with_what_is_wrong(page: httpx.Client, body: Any, wrong: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    for url in ("/_dash-update-component", "/_dash-update-component?x=1"):
        answer = page.post(url, content=content, headers={"content-type": "application/json; charset=utf-8"})
        assert answer.status_code == 400, answer.text
        assert answer.json()["detail"] == f"the body is no call of this page: {wrong}"
    assert page.post("/_dash-update-component", content=content).status_code == 400
    called = page.post("/_dash-update-component", json=CALL)
    assert (called.status_code, "fill-storage" in called.text) == (200, True)
