"""Files of the page travel compressed, and those whose address has their version only once."""

import gzip
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from dashboard.app import FOR_EVER, CompressedFiles

SCRIPT = b"let figure = 1;\n" * 500


@pytest.fixture
def client(tmp_path: Path) -> httpx.AsyncClient:
    (tmp_path / "a.js").write_bytes(SCRIPT)
    (tmp_path / "small.js").write_bytes(b"1")
    app = FastAPI()
    app.mount("/assets", StaticFiles(directory=tmp_path))
    app.add_middleware(CompressedFiles)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page")


async def test_a_script_is_compressed_for_those_who_take_that(client: httpx.AsyncClient) -> None:
    for _ in range(2):  # the second time from what was kept
        answer = await client.get("/assets/a.js", headers={"accept-encoding": "gzip"})
        assert answer.content == SCRIPT
        assert answer.headers["content-encoding"] == "gzip"
        assert int(answer.headers["content-length"]) == len(gzip.compress(SCRIPT, 9)) < len(SCRIPT) / 10
        assert answer.headers["vary"] == "Accept-Encoding"
    plain = await client.get("/assets/a.js", headers={"accept-encoding": "identity"})
    assert plain.content == SCRIPT
    assert "content-encoding" not in plain.headers
    assert (await client.get("/assets/small.js", headers={"accept-encoding": "gzip"})).content == b"1"


async def test_a_version_is_kept_for_ever_and_what_changes_is_asked_for_again(client: httpx.AsyncClient) -> None:
    assert (await client.get("/assets/a.js?m=17")).headers["cache-control"] == FOR_EVER
    answer = await client.get("/assets/a.js")
    assert "cache-control" not in answer.headers
    again = await client.get("/assets/a.js", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304
    assert (await client.get("/assets/none.js?m=17")).status_code == 404
