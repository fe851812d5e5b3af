"""Which addresses are let in."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

ADDRESSES_KEPT = 4096
"""Addresses whose answer is remembered: a datagram needs one, and its address may be forged."""


class Networks:
    """The networks of an allow list; without any, all are let in.

    Args:
        allow: networks as in the configuration, checked there.
    """

    def __init__(self, allow: Sequence[str]) -> None:
        self._networks = tuple(ip_network(network) for network in allow)
        self._remembered = lru_cache(maxsize=ADDRESSES_KEPT)(self._look)

    def __contains__(self, address: str) -> bool:
        return not self._networks or self._remembered(address)

    def _look(self, address: str) -> bool:
        found = ip_address(address.partition("%")[0])  # a link-local address comes with its interface
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped  # a socket for both kinds of address shows IPv4 senders so
        return any(found in network for network in self._networks)
