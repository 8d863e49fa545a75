"""Which addresses of the network may be asked, so that a page's link, a redirect or a name server cannot turn the
worker against the network it stands in. A host is resolved once, every answer is checked, and it is a checked address
that is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from penstock.engine.errors import Permanent, Transient

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses, in the order in which they are to be tried."""

WAY_OUT = "the configuration can allow it: ingestion.allow_private_addresses"

_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")
_SPECIAL = (
    ip_network("192.0.0.0/24"),
    ip_network("192.88.99.0/24"),
    ip_network("2001::/23"),
    ip_network("2002::/16"),
    ip_network("2001:db8::/32"),
    ip_network("3fff::/20"),
)
"""Not for everybody, though versions of Python differ about them; 2001::/23 and 2002::/16 are tunnels too (Teredo,
6to4), which carry an IPv4 address that nobody has checked."""

_OWN = (
    ip_network("127.0.0.0/8"),
    ip_network("10.0.0.0/8"),
    ip_network("172.16.0.0/12"),
    ip_network("192.168.0.0/16"),
    ip_network("100.64.0.0/10"),
    ip_network("::1/128"),
    ip_network("fc00::/7"),
)
"""What can be allowed: this machine and private networks. Link-local addresses never are: cloud providers hand out
credentials there."""


class Forbidden(Permanent):
    """The host is not one that may be asked."""


async def checked(host: str, port: int, *, resolve: Resolve, allow_private: bool) -> list[str]:
    """The addresses of a host. One that may not be asked condemns all: an honest name does not mix them."""
    written = literal(host)
    found = [written] if written else [_parsed(host, text) for text in await resolve(host, port)]
    if not found:
        raise Permanent(f"there is no host {host}")
    for address in found:
        if not is_allowed(address, allow_private=allow_private):
            raise Forbidden(refusal(host, address))
    return [str(address) for address in found]


def refusal(host: str, address: Address) -> str:
    named = f"{host} is {address}, which" if host.strip("[]") != str(address) else f"{address}"
    way_out = f"; {WAY_OUT}" if is_allowed(address, allow_private=True) else ""
    return f"{named} is not on the public internet and is not asked{way_out}"


def is_allowed(address: Address, *, allow_private: bool = False) -> bool:
    """Public addresses; with `allow_private` also this machine's and those of private networks."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        inner = _inner(address)
        if inner is not None:
            return is_allowed(inner, allow_private=allow_private)
    return is_public(address) or (allow_private and _within(address, _OWN))


def is_public(address: Address) -> bool:
    if _within(address, _SPECIAL) or address.is_multicast or not address.is_global:
        return False
    return isinstance(address, IPv4Address) or address in _UNICAST


def literal(host: str) -> Address | None:
    """The address that a host is, where it is one and no name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


async def system_resolve(host: str, port: int) -> list[str]:
    """By the machine's resolver."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            raise Permanent(f"there is no host {host}") from error
        raise Transient(f"{host} could not be resolved: {error.strerror}") from error
    except UnicodeError as error:
        raise Permanent(f"{host} is no host's name") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _within(address: Address, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that is really meant."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None


def _parsed(host: str, text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise Transient(f"{host} resolved to {text!r}, which is no address") from None
