"""Addresses and networks, as text: who can reach an address, who is behind it; no name is looked up."""

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

from schemas.checking.problems import Problem, wrong

IPV6_SITE = 64
"""One host or site has at least so many bits of IPv6 to itself: all of them count as one address."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address to listen on; a name but `localhost` could lead anywhere."""
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def is_everywhere(host: str) -> bool:
    """Whether an address to listen on is every address of the machine (`0.0.0.0`, `::`)."""
    address = _address(host)
    return host == "" or (address is not None and address.is_unspecified)


def is_ip(host: str) -> bool:
    """Whether it is an address and no name."""
    return _address(host) is not None


def may_be_host(host: str) -> bool:
    """Whether it is an address, or can be a name of a machine."""
    try:
        return is_ip(host) or re.fullmatch(rb"[A-Za-z0-9_.-]+", host.encode("idna")) is not None
    except UnicodeError:
        return False


def in_url(host: str) -> str:
    """A host as a URL has it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def neighbourhood(host: str) -> str:
    """Who counts as one where attempts are counted: an IPv4 address, or a site's IPv6 network."""
    address = _address(host)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address, IPV6_SITE), strict=False))
    return host


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


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
