"""What a site asks of robots: the rules of RFC 9309, and the header of an answer."""

from __future__ import annotations

import pytest

from penstock.pipelines.ingestion.sources.web_robots import (
    EVERYTHING,
    LARGEST,
    LONGEST_DELAY,
    header_says,
    parsed,
    token_of,
)


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /", "/", False),
        ("Disallow:", "/a", True),
        ("Disallow: /a", "/a", False),
        ("Disallow: /a", "/abc", False),
        ("Disallow: /a/", "/a", True),
        ("Disallow: /a", "/b/a", True),
        ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("Allow: /a/b\nDisallow: /a", "/a/c", False),
        ("Disallow: /page\nAllow: /page", "/page", True),
        ("Allow: /\nDisallow: /x", "/x", False),
        ("Disallow: /*.php", "/a/index.php?x=1", False),
        ("Disallow: /*.php$", "/index.php?x=1", True),
        ("Disallow: /*.php$", "/index.php", False),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /*a*b*c", "/xaxbxc/y", False),
        ("Disallow: /*a*b*c", "/xaxcxb", True),
        ("Disallow: /a*a$", "/a", True),
        ("Disallow: *", "/x", False),
        ("Disallow: /search?q=", "/search?q=1", False),
        ("Disallow: /search?q=", "/search", True),
        ("Disallow: /ü", "/%C3%BC", False),
        ("Disallow: /%c3%bc", "/%C3%BC", False),
        ("Disallow: /%7Ejoe", "/~joe", False),
        ("Disallow: /a # not all of it", "/a", False),
        ("disallow : /a", "/a", False),
        ("Disallow /a", "/a", True),
    ],
)
def test_the_longest_rule_decides(rules: str, path: str, allowed: bool) -> None:
    robots = parsed(f"User-agent: *\n{rules}\n".encode(), "penstock")
    assert robots.allows(f"http://example.com{path}") is allowed


GROUPS = b"""\
\xef\xbb\xbfUser-agent: other
User-agent: Penstock/9.9
Disallow: /for-both
Crawl-delay: 7

User-agent: *
Disallow: /for-everybody

Sitemap: https://example.com/map.xml
user-agent: PENSTOCK
Disallow: /once-more
Sitemap: /relative.xml
"""


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_all_groups_that_name_us_count_and_then_not_the_one_for_everybody(ends: bytes) -> None:
    body = GROUPS.replace(b"\n", ends)
    ours = parsed(body, token_of("Penstock/0.1 (x)"))
    assert [ours.allows(f"http://example.com/{each}") for each in ("for-both", "once-more", "for-everybody")] == [
        False,
        False,
        True,
    ]
    assert (ours.delay, ours.sitemaps) == (7, ("https://example.com/map.xml", "/relative.xml"))
    others = parsed(body, "somebody")
    assert not others.allows("http://example.com/for-everybody")
    assert others.delay is None


def test_without_a_group_for_us_or_everybody_all_is_allowed() -> None:
    assert parsed(b"User-agent: other\nDisallow: /\n", "penstock").allows("http://example.com/")
    assert parsed(b"Disallow: /\n", "penstock").allows("http://example.com/")
    assert parsed(b"<html>not found</html>", "penstock") == EVERYTHING


@pytest.mark.parametrize(
    ("said", "delay"), [("2.5", 2.5), ("1000", LONGEST_DELAY), ("nan", None), ("inf", None), ("-1", None), ("x", None)]
)
def test_a_delay_is_a_number_of_seconds_within_reason(said: str, delay: float | None) -> None:
    assert parsed(f"User-agent: *\nCrawl-delay: {said}".encode(), "penstock").delay == delay


def test_what_comes_after_the_first_500_kb_does_not_count() -> None:
    body = b"User-agent: *\n" + b"#" * LARGEST + b"\nDisallow: /\n"
    assert parsed(body, "penstock").allows("http://example.com/")


def test_a_pattern_made_to_take_long_does_not() -> None:
    robots = parsed(b"User-agent: *\nDisallow: /" + b"*a" * 5000 + b"$\n", "penstock")
    assert robots.allows("http://example.com/" + "a" * 1900 + "b")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], (False, False)),
        (["noindex"], (True, False)),
        (["NoIndex, NoFollow"], (True, True)),
        (["none"], (True, True)),
        (["nofollow", "noarchive"], (False, True)),
        (["otherbot: noindex, nofollow"], (False, False)),
        (["penstock: noindex"], (True, False)),
        (["otherbot: nofollow, penstock: noindex"], (True, False)),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"], (True, False)),
        (["max-snippet: 5"], (False, False)),
    ],
)
def test_the_header_speaks_to_everybody_or_to_the_one_it_names(values: list[str], says: tuple[bool, bool]) -> None:
    assert header_says(values, "penstock") == says
