"""Which addresses of the network may be asked: the public ones, and none that hides another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from penstock.engine.errors import Permanent, Transient
from penstock.pipelines.ingestion.sources.web_addresses import Forbidden, checked, is_allowed

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::808:808", "::ffff:8.8.8.8"]

OWN = [
    "127.0.0.1",
    "127.255.0.9",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "100.64.0.1",
    "::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "::ffff:10.1.2.3",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
]

NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::7f00:1",
    "::ffff:0.0.0.0",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_asked(address: str) -> None:
    assert is_allowed(ip_address(address))


@pytest.mark.parametrize("address", OWN)
def test_private_addresses_may_be_asked_only_where_the_configuration_says_so(address: str) -> None:
    assert not is_allowed(ip_address(address))
    assert is_allowed(ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", NEVER)
def test_other_addresses_are_never_asked(address: str) -> None:
    assert not is_allowed(ip_address(address))
    assert not is_allowed(ip_address(address), allow_private=True)


def resolved(*answers: str, allow_private: bool = False) -> list[str]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return answers

    return asyncio.run(checked("site.example", 80, resolve=resolve, allow_private=allow_private))


def test_one_address_that_may_not_be_asked_condemns_the_host() -> None:
    assert resolved("8.8.8.8", "93.184.216.34") == ["8.8.8.8", "93.184.216.34"]
    with pytest.raises(Forbidden, match=r"site\.example is 10\.0\.0\.1.*allow_private_addresses"):
        resolved("8.8.8.8", "10.0.0.1")


def test_the_way_out_is_told_only_where_there_is_one() -> None:
    with pytest.raises(Forbidden) as error:
        resolved("169.254.169.254")
    assert "allow_private_addresses" not in str(error.value)
    with pytest.raises(Forbidden):
        resolved("169.254.169.254", allow_private=True)


def test_a_host_without_addresses_and_an_answer_that_is_none() -> None:
    with pytest.raises(Permanent, match="no host"):
        resolved()
    with pytest.raises(Transient, match="no address"):
        resolved("nonsense")
