"""Rules of access that need no service: tokens, throttles, where to go after a login, which addresses are open."""

from __future__ import annotations

import logging
import re

import pytest

from penstock.cli.logs import JsonLines, PlainLines
from penstock.cli.output import without_password
from penstock.engine.errors import InvalidConfiguration, InvalidRequest
from penstock.service.access.csrf import same
from penstock.service.access.guard import local_path
from penstock.service.access.principal import Principal
from penstock.service.access.serving import access_mode, is_loopback
from penstock.service.access.throttle import CEILING, MOST_ADDRESSES, Throttle, block_of
from penstock.service.access.tokens import checked_scopes, hash_of, new_secret, standing
from penstock.store.protocol import TokenRow


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_a_secret_is_256_random_bits_with_a_prefix_that_can_be_searched_for() -> None:
    made = {new_secret() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"penstock_[A-Za-z0-9_-]{43}", secret) for secret in made)


def test_what_is_kept_of_a_secret_is_its_sha256() -> None:
    assert hash_of("penstock_x") == "fa8a4889da9d7b3268d2f99425745c497463da06d6edfc765905530aa529739c"


def test_scopes_are_kept_once_each_in_their_order() -> None:
    assert checked_scopes(["admin", "read", "read"]) == "read admin"
    for wrong in ([], ["write"], ["read admin"]):
        with pytest.raises(InvalidRequest):
            checked_scopes(wrong)


def test_a_token_is_usable_until_it_expires_or_is_revoked() -> None:
    def token(**more: float) -> TokenRow:
        return TokenRow("1", "ci", "h", "read", None, **more)

    assert standing(token(), 100) == "usable"
    assert standing(token(expires=101), 100) == "usable"
    assert standing(token(expires=100), 100) == "expired"
    assert standing(token(expires=101, revoked=50), 100) == "revoked"


@pytest.mark.parametrize(
    ("held", "may", "may_not"),
    [
        ("read", ["read"], ["operate", "review", "admin"]),
        ("operate", ["read", "operate"], ["review", "admin"]),
        ("review", ["read", "review"], ["operate", "admin"]),
        ("admin", ["read", "operate", "review", "admin"], []),
    ],
)
def test_what_a_scope_allows(held: str, may: list[str], may_not: list[str]) -> None:
    who = Principal("ci", frozenset({held}), None, "token")
    assert all(who.may(scope) for scope in may)  # type: ignore[arg-type]
    assert not any(who.may(scope) for scope in may_not)  # type: ignore[arg-type]


def test_an_address_may_fail_so_often_in_any_minute() -> None:
    clock = Hand()
    throttle = Throttle(3, clock)
    for clock.at in (0.0, 20.0, 40.0):
        assert throttle.attempt("192.0.2.1") is None
    clock.at = 50.5
    assert throttle.is_used_up("192.0.2.1")
    assert throttle.attempt("192.0.2.1") == 10
    assert throttle.attempt("192.0.2.2") is None, "another address is another matter"
    clock.at = 60.0
    assert throttle.attempt("192.0.2.1") is None, "the first try is a minute ago"
    assert throttle.attempt("192.0.2.1") == 20


def test_many_addresses_together_meet_a_ceiling() -> None:
    clock = Hand()
    throttle = Throttle(2, clock)
    for number in range(CEILING * 2):
        assert throttle.attempt(f"192.0.2.{number}") is None
    assert throttle.attempt("198.51.100.1") == 60
    clock.at = 60.0
    assert throttle.attempt("198.51.100.1") is None


def test_a_throttle_remembers_no_more_addresses_than_it_has_room_for() -> None:
    throttle = Throttle(10**6, Hand())
    for number in range(MOST_ADDRESSES + 500):
        throttle.attempt(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(throttle) == MOST_ADDRESSES


def test_all_addresses_of_one_ipv6_network_are_one() -> None:
    assert block_of("2001:db8:1:2:3::4") == block_of("2001:db8:1:2::9") == "2001:db8:1:2::/64"
    assert block_of("2001:db8:1:3::4") != block_of("2001:db8:1:2::9")
    assert block_of("::ffff:192.0.2.1") == block_of("192.0.2.1")
    assert block_of(None) == "unknown"


@pytest.mark.parametrize("path", ["/", "/ui/jobs", "/ui/jobs?status=failed&key=a%2Fb", "/ui/jobs/01k#x"])
def test_after_the_login_one_comes_back_to_a_page_of_ours(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        None, 5, "", "ui/jobs", "https://evil.example", "//evil.example", "///evil.example", "/\\evil.example",
        "\\\\evil.example", "/\t/evil.example", "\t//evil.example", " //evil.example", "/\n/evil.example",
        "/ui/jobs\r\nSet-Cookie: a=b", "javascript:alert(1)", "/x\x00", "/ui/login?next=/ui/login", "/ui/logout",
        "/ui/" + "a" * 3000,
    ],
)  # fmt: skip
def test_after_the_login_nobody_is_led_elsewhere(path: object) -> None:
    assert local_path(path) == "/"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_loopback_is_open(host: str) -> None:
    assert is_loopback(host)
    assert access_mode(host, False) is True
    assert access_mode(host, True) is True


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "penstock.example.com", "localhost.evil.example", ""]
)
def test_every_other_address_needs_a_token(host: str) -> None:
    assert access_mode(host, True) is False
    with pytest.raises(InvalidConfiguration, match=r"make one with `penstock tokens create NAME --scope admin`"):
        access_mode(host, False)


def test_behind_a_proxy_loopback_is_not_open() -> None:
    """Everybody whom the proxy lets through would look local."""
    assert access_mode("127.0.0.1", True, public_url="https://penstock.example.com") is False
    assert access_mode("127.0.0.1", True, proxied=True) is False
    with pytest.raises(InvalidConfiguration, match=r"public at https://penstock\.example\.com.*penstock tokens create"):
        access_mode("127.0.0.1", False, public_url="https://penstock.example.com")
    with pytest.raises(InvalidConfiguration, match="behind a proxy"):
        access_mode("127.0.0.1", False, proxied=True)


def test_an_empty_secret_matches_nothing() -> None:
    assert same("a", "a")
    assert not same("", "")
    assert not same("ä", "a")


def test_tokens_are_hidden_wherever_text_is_shown() -> None:
    secret = new_secret()
    assert without_password(f"GET /x?token={secret}&a=1") == "GET /x?token=penstock_***&a=1"
    assert without_password(f"cut off: {secret[:35]}") == "cut off: penstock_***"
    kept = "the cookie penstock_session, the metric penstock_remote_call_duration_seconds_bucket"
    assert without_password(kept) == kept


@pytest.mark.parametrize("lines", [PlainLines(), JsonLines()])
def test_tokens_are_hidden_in_logs(lines: logging.Formatter) -> None:
    secret = new_secret()
    try:
        raise RuntimeError(f"it was {secret}")
    except RuntimeError as error:
        failed = (RuntimeError, error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "came with %s", (secret,), failed)
    assert secret not in lines.format(record)
