"""What a person orders through the page: sent on with that person's token, and from this page alone."""

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
