"""Files of payloads: from a folder and over HTTP, never from outside, never with a wrong checksum."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daemon.calibration import payloads
from daemon.calibration.payloads import PayloadUnusable, payload_files, verified

CONTENT = b'{"kind": "bpm"}'


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept = tmp_path / "payloads"
    (kept / "bpm").mkdir(parents=True)
    (kept / "bpm" / "a b.json").write_bytes(CONTENT)
    (tmp_path / "secret.json").write_bytes(b"{}")
    (kept / "link.json").symlink_to(tmp_path / "secret.json")
    return kept


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder.parent)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/payloads/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["name", "file", "http"])
def place(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "http":
        return str(request.getfixturevalue("address"))
    return folder.as_uri() if request.param == "file" else folder.name


async def test_a_payload_is_read_by_its_name_below_the_place(place: str, tmp_path: Path) -> None:
    assert await payload_files(place, tmp_path).read("bpm/a b.json") == CONTENT


@pytest.mark.parametrize("url", ["../secret.json", "bpm/../../secret.json", "/etc/passwd", "%2e%2e/secret.json"])
async def test_a_path_that_leads_outside_is_refused(place: str, tmp_path: Path, url: str) -> None:
    with pytest.raises(PayloadUnusable) as refused:
        await payload_files(place, tmp_path).read(url)
    # In a folder %2e is part of a name.
    assert "leads outside" in str(refused.value) or (url.startswith("%") and "there is no file" in str(refused.value))


async def test_a_link_that_leads_outside_and_another_server_are_refused(folder: Path, address: str) -> None:
    with pytest.raises(PayloadUnusable, match=r"^url: 'link.json' leads outside"):
        await payload_files(str(folder), folder).read("link.json")
    with pytest.raises(PayloadUnusable, match="leads outside"):
        await payload_files(address, folder).read("http://127.0.0.1:1/x.json")


async def test_what_is_not_there_is_said_in_a_line(place: str, tmp_path: Path) -> None:
    for url in ("bpm/none.json", "none/", "bpm\0.json"):
        with pytest.raises(PayloadUnusable) as refused:
            await payload_files(place, tmp_path).read(url)
        assert str(refused.value).startswith("url: ")
        assert str(refused.value).isprintable()
    with pytest.raises(PayloadUnusable, match=r"^url: http://127.0.0.1:1/x.json cannot be read"):
        await payload_files("http://127.0.0.1:1", tmp_path).read("x.json")


async def test_a_payload_that_is_too_large_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "MOST_BYTES", len(CONTENT))
    assert await payload_files(place, tmp_path).read("bpm/a b.json") == CONTENT
    monkeypatch.setattr(payloads, "MOST_BYTES", len(CONTENT) - 1)
    with pytest.raises(PayloadUnusable, match="has more than"):
        await payload_files(place, tmp_path).read("bpm/a b.json")


def test_only_the_content_with_the_checksum_is_used() -> None:
    sha256, md5 = hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    assert (verified(CONTENT, sha256.upper(), "x"), verified(CONTENT, md5, "x")) == (sha256, md5)
    assert verified(CONTENT, "", "x") == sha256
    for checksum in (sha256, md5):
        with pytest.raises(PayloadUnusable, match=rf"^checksum: payload 'x' has \w+ \w+, and its .* says {checksum};"):
            verified(CONTENT + b" ", checksum, "x")
    with pytest.raises(PayloadUnusable, match=r"^checksum: 'abc' of payload 'x' is neither sha256 nor md5"):
        verified(CONTENT, "abc", "x")
