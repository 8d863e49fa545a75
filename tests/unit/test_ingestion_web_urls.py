"""Addresses of pages: one way to write each, what belongs to a site, and what is not followed."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.ingestion.sources.web_urls import (
    LONGEST,
    BadAddress,
    Scope,
    alike,
    is_file,
    joined,
    leads_nowhere,
    normalized,
    site_of,
    worth_visiting,
)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("https://example.com:8443/a", "https://example.com:8443/a"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://example.com/a/./b/../c", "http://example.com/a/c"),
        ("http://example.com/../../a/..", "http://example.com/"),
        ("http://example.com/a/%2e%2e/b", "http://example.com/b"),
        ("http://example.com/%7euser/%41%2f%3a", "http://example.com/~user/A%2F%3A"),
        ("http://example.com/a b|c%zz", "http://example.com/a%20b%7Cc%25zz"),
        ("http://example.com/a//b/", "http://example.com/a//b/"),
        ("http://example.com/a\\b", "http://example.com/a/b"),
        ("http://example.com/a#part", "http://example.com/a"),
        ("http://example.com/a?", "http://example.com/a"),
        ("http://example.com/a?b=2&a=1&utm_source=x&UTM_Medium=y&gclid=1&fbclid=2", "http://example.com/a?b=2&a=1"),
        ("http://example.com/?q=a+b&r=[1]&&s", "http://example.com/?q=a+b&r=%5B1%5D&s"),
        ("  http://exam\nple.com/\ta  ", "http://example.com/a"),
        ("http://[2001:DB8::0:1]:80/", "http://[2001:db8::1]/"),
        ("http://192.0.2.1/", "http://192.0.2.1/"),
    ],
)
def test_there_is_one_way_to_write_an_address(text: str, url: str) -> None:
    assert normalized(text) == url


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ftp://example.com/", "http"),
        ("example.com", "http"),
        ("file:///etc/passwd", "http"),
        ("javascript:alert(1)", "http"),
        ("http://user:secret@example.com/", "password"),
        ("http://example.com\\@other.example/", "password"),
        ("http://example.com:0/", "port"),
        ("http://example.com:99999/", "address"),
        ("http:///path", "host"),
        ("http://exa mple.com/", "host"),
        ("http://exa%6dple.com/", "host"),
        ("http://a..b/", "host"),
        (f"http://{'a' * 64}.example/", "host"),
        ("http://2130706433/", "host"),
        ("http://0x7f000001/", "host"),
        ("http://0x7f.1/", "host"),
        ("http://0177.0.0.1/", "host"),
        ("http://127.1/", "host"),
        ("http://[::1%25eth0]/", "host"),
        ("http://[::g]/", "address|host"),
        ("http://example.com/" + "a" * LONGEST, "longer"),
        ("http://example.com/" + "ü" * 400, "longer"),
    ],
)
def test_what_is_no_address_of_a_page_is_refused_with_the_reason(text: str, word: str) -> None:
    with pytest.raises(BadAddress, match=word):
        normalized(text)


@given(st.text(max_size=60), st.text(max_size=60))
def test_writing_an_address_again_changes_nothing_and_the_client_agrees_on_it(path: str, query: str) -> None:
    url = normalized("http://example.com/" + path.replace("#", "") + "?" + query)
    assert normalized(url) == url
    asked = httpx2.URL(url)
    assert asked.host == "example.com"
    assert asked.raw_path.decode().startswith("/")


@pytest.mark.parametrize(
    ("base", "link", "url"),
    [
        ("http://example.com/docs/a.html", "b.html", "http://example.com/docs/b.html"),
        ("http://example.com/docs/", "../x?y#z", "http://example.com/x?y"),
        ("https://example.com/", "//other.example/a", "https://other.example/a"),
        ("http://example.com/", "mailto:someone@example.com", None),
        ("http://example.com/", "http://[", None),
    ],
)
def test_links_are_taken_from_their_page(base: str, link: str, url: str | None) -> None:
    assert joined(base, link) == url


def test_www_and_https_make_no_other_site_but_a_port_does() -> None:
    assert site_of("http://www.example.com/") == site_of("https://example.com/a") == "example.com"
    assert site_of("http://example.com:8080/") != site_of("http://example.com/")
    assert site_of("http://docs.example.com/") != site_of("http://example.com/")


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://example.com/docs", True),
        ("https://www.example.com/docs/a/b", True),
        ("http://example.com/docs?x=1", True),
        ("http://example.com/docsearch", False),
        ("http://example.com/", False),
        ("http://other.example/docs/", False),
    ],
)
@pytest.mark.parametrize("prefix", ["/docs", "/docs/"])
def test_a_prefix_is_a_folder(url: str, inside: bool, prefix: str) -> None:
    assert Scope("example.com", prefix).holds(url) is inside


def test_the_same_page_but_for_https_www_and_a_slash() -> None:
    assert alike("http://www.example.com/a/", "https://example.com/a")
    assert not alike("http://example.com/a?page=2", "http://example.com/a")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/" + "/".join(f"d{n}" for n in range(25)),
        "http://example.com/a/b/a/b/a/b/a/b",
        "http://example.com/?" + "&".join(f"p{n}=1" for n in range(20)),
    ],
)
def test_addresses_that_programs_make_without_end_are_not_followed(url: str) -> None:
    assert leads_nowhere(url)
    assert not leads_nowhere("http://example.com/2024/01/01/a-day?page=2")


def test_pictures_and_archives_are_not_asked_for() -> None:
    assert is_file("http://example.com/a.JPG") and is_file("http://example.com/b.tar.gz?x=1")
    assert not is_file("http://example.com/v1.2") and not is_file("http://example.com/pdf")


def test_links_worth_visiting_come_once_in_their_order() -> None:
    links = [
        "/b",
        "/a",
        "http://example.com/b#part",
        "/b?utm_source=here",
        "http://other.example/",
        "/page",
        "/picture.png",
        "javascript:void(0)",
        "/c",
    ]
    found = worth_visiting("http://example.com/page", links, Scope("example.com"))
    assert list(found) == ["http://example.com/b", "http://example.com/a", "http://example.com/c"]
