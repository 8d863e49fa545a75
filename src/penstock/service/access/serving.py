"""Which addresses need tokens: decided once, before the service listens."""

from __future__ import annotations

from collections.abc import Sequence
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


def proxy_warning(public_url: str | None, trusted: Sequence[str] | None) -> str | None:
    """What to say where everybody will seem to come from one address."""
    if public_url is None or trusted:
        return None
    return (
        f"the service is public at {public_url}, and no proxy is trusted: to the audit log and to the limit of failed"
        " logins everybody comes from the proxy's address; name it in service.trusted_proxies"
    )


def access_mode(host: str, tokens_exist: bool, *, public_url: str | None = None, proxied: bool = False) -> bool:
    """Whether access is open: nobody needs a token. Otherwise there must be one, or nobody could get in.

    With a public URL (or `proxied`: proxies that are trusted) something stands in front of the service, and everybody
    in the world seems to come from this machine: then tokens are needed on loopback, too.
    """
    behind_proxy = public_url is not None or proxied
    if is_loopback(host) and not behind_proxy:
        return True
    if tokens_exist:
        return False
    if public_url is not None:
        why, otherwise = f"the service is public at {public_url}", ""
    elif proxied:
        why, otherwise = "the service stands behind a proxy (service.trusted_proxies)", ""
    else:
        why, otherwise = f"{host} can be reached from other machines", ", or listen on 127.0.0.1"
    make = "make one with `penstock tokens create NAME --scope admin`"
    raise InvalidConfiguration(f"{why}, and there is no usable token: {make}{otherwise}")
