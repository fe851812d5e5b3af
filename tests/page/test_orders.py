"""What a person orders through the page: sent on with that person's token, and from this page alone."""

from collections.abc import Iterator

import httpx
import pytest

from dashboard.access.orders import LARGEST_ORDER
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


def test_an_order_needs_the_token_of_the_person_though_the_page_has_one(page: httpx.Client) -> None:
    refused = page.post("/orders/governor", json={"commit_p99_ms": 5})
    assert refused.status_code == 401
    assert refused.json() == {"detail": "this needs the API's token"}
    assert refused.headers["www-authenticate"].startswith("Bearer")
    sent = page.post("/orders/governor", json={"commit_p99_ms": 5}, headers={"authorization": "Bearer mine"})
    assert sent.status_code == 502
    assert "the daemon at http://127.0.0.1:9 cannot be reached" in sent.json()["detail"]


@pytest.mark.parametrize(
    ("order", "body", "headers", "status", "words"),
    [
        ("governor", b"{}", {"origin": "https://evil.example"}, 403, "a page of another origin"),
        ("governor", b"{}", {"origin": "http://127.0.0.1:1"}, 403, "a page of another origin"),
        ("governor", b"{}", {"origin": "null"}, 403, "a page of another origin"),
        ("run", b"{}", {}, 404, "there is no order 'run'; there is: readers/start, readers/stop, governor"),
        ("governor", b"{}", {"content-type": "text/plain"}, 415, "application/json"),
        ("governor", b"{", {}, 400, "not JSON"),
        ("governor", b"[1]", {}, 400, "not a JSON object"),
        ("governor", b" " * (LARGEST_ORDER + 1), {}, 413, f"may have {LARGEST_ORDER} bytes"),
        ("readers/stop", b'{"name": "../run"}', {}, 422, "name: give the name of what is meant"),
        ("readers/stop", b"{}", {}, 422, "name: give the name of what is meant"),
    ],
)
def test_what_is_no_order_of_this_page_is_not_sent_on(
    page: httpx.Client, order: str, body: bytes, headers: dict[str, str], status: int, words: str
) -> None:
    given = {"content-type": "application/json", "authorization": "Bearer mine"} | headers
    answer = page.post(f"/orders/{order}", content=body, headers=given)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null"])
def test_another_page_cannot_have_a_browser_call_back(page: httpx.Client, origin: str) -> None:
    for body in ("application/json", "text/plain"):
        headers = {"origin": origin, "content-type": body}
        answer = page.post("/_dash-update-component", content=b"{}", headers=headers)
        assert answer.status_code == 403
        assert "a page of another origin" in answer.json()["detail"]
    own = page.post("/_dash-update-component", content=b"{}", headers={"origin": str(page.base_url).rstrip("/")})
    assert own.status_code != 403


def test_what_is_told_says_why_the_daemon_is_not_heard(page: httpx.Client) -> None:
    answer = page.get("/answers/interference/x/report")
    assert answer.status_code == 502
    assert "cannot be reached" in answer.text
    assert page.get("/answers/interference/a%20b/report").text == "there is no report of a run 'a b'"
