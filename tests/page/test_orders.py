"""What a person orders through the page: sent on with that person's token, and from this page alone."""

from collections.abc import Iterator
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
