"""What bounds the sources: networks, refusals, admission."""

import pytest

from daemon.sources.limits import refusals
from daemon.sources.limits.networks import Networks
from daemon.sources.limits.refusals import ADDRESSES_KEPT, ADDRESSES_LISTED, Refusals
from schemas.config import ConfigError, parse_config

GROUP = """
[[groups]]
name = "bpm"
count = 3
channels = [{ name = "x" }]

[[sources]]
"""


@pytest.mark.parametrize(
    ("address", "is_in"),
    [
        ("10.1.2.3", True),
        ("10.2.0.0", False),
        ("::ffff:10.1.2.3", True),
        ("::ffff:10.2.0.1", False),
        ("192.168.7.20", True),
        ("192.168.7.21", False),
        ("fd00::1", True),
        ("fe80::1%eth0", False),
    ],
)
def test_networks_tell_who_is_let_in(address: str, is_in: bool) -> None:
    networks = Networks(("10.1.0.0/16", "192.168.7.20", "fd00::/8"))
    for _ in range(2):  # looked up, then remembered
        assert (address in networks) is is_in
    assert address in Networks(())


def test_the_addresses_refused_most_are_told_in_bounded_memory() -> None:
    counts = Refusals(lambda: "source", lambda line: None)
    for number in range(10 * ADDRESSES_KEPT):
        counts.count("bad-datagram", f"10.0.{number >> 8}.{number & 255}")
        counts.count("bad-datagram", "10.9.9.9")
        counts.count("timeout")
    assert counts.by_reason() == {"bad-datagram": 20 * ADDRESSES_KEPT, "timeout": 10 * ADDRESSES_KEPT}
    most = counts.by_address()
    assert len(most) == ADDRESSES_LISTED
    assert next(iter(most.items())) == ("10.9.9.9", 10 * ADDRESSES_KEPT)
    assert len(counts._addresses) == ADDRESSES_KEPT


def test_a_reason_is_said_once_a_minute_with_how_often_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    clock = iter([1000.0, 1001.0, 1002.0, 1061.0])
    monkeypatch.setattr(refusals.time, "monotonic", lambda: next(clock))
    counts = Refusals(lambda: "source tcp here", said.append)
    for _ in range(4):
        counts.count("timeout", "10.0.0.1")
    assert said == [
        "source tcp here: refused 1 x timeout, the last from 10.0.0.1",
        "source tcp here: refused 3 x timeout, the last from 10.0.0.1",
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            'kind = "udp"\nallow = ["10.1.2.0/16"]',
            "sources[0].allow[0]: '10.1.2.0/16' is no network; write `10.1.0.0/16` for the whole network",
        ),
        (
            'kind = "tcp"\nallow = ["10.1.0.0/16", "crate-7"]',
            "sources[0].allow[1]: 'crate-7' is no network; write it as 10.1.0.0/16, 192.168.7.20 or fd00::/8",
        ),
        (
            'kind = "tcp"\ntls_certificate = "daemon.crt"',
            "sources[0].tls_key: missing; give the private key of `tls_certificate`",
        ),
        (
            'kind = "tcp"\ntls_key = "daemon.key"',
            "sources[0].tls_certificate: missing; give the certificate that `tls_key` belongs to",
        ),
    ],
)
def test_a_wrong_source_is_told_by_its_field(lines: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(GROUP + lines)
    assert str(refused.value) == said
