"""What an address says of who can reach it, and of who is behind it: text only, no name is looked up."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

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
