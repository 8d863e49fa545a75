"""Which addresses need tokens: decided once, before the service listens."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from penstock.engine.errors import InvalidConfiguration


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than `localhost` is not looked up: what it means
    may change."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def access_mode(host: str, tokens_exist: bool, *, public_url: str | None = None) -> bool:
    """Whether access is open: nobody needs a token. Otherwise there must be one, or nobody could get in.

    With a public URL there is a proxy in front, and everybody in the world seems to come from this machine: then
    tokens are needed on loopback, too.
    """
    if public_url is None and is_loopback(host):
        return True
    if tokens_exist:
        return False
    why = (
        f"{host} can be reached from other machines" if public_url is None else f"the service is public at {public_url}"
    )
    raise InvalidConfiguration(
        f"{why}, and there is no usable token: make one with `penstock tokens create NAME --scope admin`"
        + ("" if public_url else ", or listen on 127.0.0.1")
    )
