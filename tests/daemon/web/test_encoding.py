"""What an Accept-Encoding means."""

import pytest

from daemon.web.headers import takes_gzip


@pytest.mark.parametrize(
    "accepted",
    [
        "gzip",
        "GZip",
        "x-gzip",
        "deflate, gzip;q=1.0, *;q=0.5",
        "br ; q = 0.9 , gzip ; q = 0.1",
        "*",
        "identity;q=0, *",
        "identity;q=0.5, gzip;q=0.5",
        "br;q=7, gzip",
    ],
)
def test_gzip_is_taken(accepted: str) -> None:
    assert takes_gzip(accepted)


@pytest.mark.parametrize(
    "accepted",
    [
        "",
        "identity",
        "br, zstd",
        "gzip;q=0",
        "gzip;Q=0",
        "gzip; q=0.000, *",
        "x-gzip;q=0",
        "*;q=0",
        "gzip;q=0.5, identity",
        "gzip;q=",
        "gzip;q=x",
        "gzip;q=2",
        "gzip;q=-1",
        "gzip;q=nan",
        "gzip;q=1e0",
        "gzip;q=²",
        "gzip;q=0.00000001",
        "notgzip, gzipped",
        ",;=,;q,",
    ],
)
def test_gzip_is_not_taken(accepted: str) -> None:
    assert not takes_gzip(accepted)
