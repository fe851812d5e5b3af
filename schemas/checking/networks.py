"""Networks as a configuration names them: addresses, or address and length of the prefix."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, ip_network

from schemas.checking.problems import Problem, wrong


def wrong_networks(networks: Sequence[str]) -> Iterator[Problem]:
    """A problem for each text that is no network."""
    for i, network in enumerate(networks):
        fix = "write it as 10.1.0.0/16, 192.168.7.20 or fd00::/8"
        try:
            fix = f"write `{ip_network(network, strict=False)}` for the whole network"  # one with bits of a host
            ip_network(network)
        except ValueError:
            yield wrong(f"{network[:60]!r} is no network", fix, f"[{i}]")


def host_and_port(host: str, port: int) -> str:
    """Both as one text: an IPv6 address stands in brackets (RFC 3986, 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def with_mapped(networks: Sequence[str]) -> list[str]:
    """Networks, those of IPv4 also as a socket that listens on both protocols shows them (RFC 4291, 2.5.5.2)."""
    found = [ip_network(network) for network in networks]
    mapped = [f"::ffff:{each.network_address}/{96 + each.prefixlen}" for each in found if isinstance(each, IPv4Network)]
    return [*map(str, found), *mapped]
