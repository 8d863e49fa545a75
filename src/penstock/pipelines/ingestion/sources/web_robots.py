"""What a site asks of robots: robots.txt as RFC 9309 reads it, and the `X-Robots-Tag` of an answer. Only reading and
judging; who fetches and remembers is `web_manners.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.pipelines.ingestion.sources.web_urls import QUERY, escaped, target_of

LARGEST = 500 * 1024
"""Bytes of a robots.txt that are read; what comes after them does not count."""

MOST_RULES = 2000
MOST_SITEMAPS = 50
LONGEST_DELAY = 60.0

_TOKEN = re.compile(r"[A-Za-z_-]+")
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_WITH_A_VALUE = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))


@dataclass(slots=True, frozen=True)
class Rule:
    """`parts` are what stands between the stars of the pattern, `anchored`: it ended with `$`."""

    allow: bool
    length: int
    parts: tuple[str, ...]
    anchored: bool

    def matches(self, target: str) -> bool:
        """From left to right, each part as early as it comes: no pattern takes longer than the others."""
        first, *others = self.parts
        if not target.startswith(first):
            return False
        if not others:
            return not self.anchored or target == first
        *middle, last = others
        place = len(first)
        for part in middle:
            found = target.find(part, place)
            if found < 0:
                return False
            place = found + len(part)
        if self.anchored:
            return len(target) - len(last) >= place and target.endswith(last)
        return target.find(last, place) >= 0


@dataclass(slots=True, frozen=True)
class Robots:
    """What a robots.txt says to one robot. `delay`: seconds between requests, if it asks for any."""

    rules: tuple[Rule, ...] = ()
    delay: float | None = None
    sitemaps: tuple[str, ...] = ()

    def allows(self, url: str) -> bool:
        """The longest rule that matches decides, and of equally long ones the one that allows."""
        target = target_of(url)
        matching = [rule for rule in self.rules if rule.matches(target)]
        return max(((rule.length, rule.allow) for rule in matching), default=(0, True))[1]


EVERYTHING = Robots()
"""Where there is no robots.txt."""


@dataclass(slots=True)
class _Group:
    agents: list[str] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    delay: float | None = None
    has_rules: bool = False


def token_of(user_agent: str) -> str:
    """The name by which a robots.txt knows us: `penstock` of `Penstock/1.0 (…)`."""
    found = _TOKEN.match(user_agent)
    return found[0].lower() if found else ""


def parsed(body: bytes, token: str) -> Robots:
    """The groups that name the robot, all taken as one; without any, those for everybody (`*`)."""
    groups, sitemaps = _groups(body[:LARGEST].decode("utf-8-sig", "replace"))
    named = [group for group in groups if token and token in group.agents]
    chosen = named or [group for group in groups if "*" in group.agents]
    delays = [group.delay for group in chosen if group.delay is not None]
    return Robots(
        rules=tuple([rule for group in chosen for rule in group.rules][:MOST_RULES]),
        delay=min(max(delays), LONGEST_DELAY) if delays else None,
        sitemaps=tuple(dict.fromkeys(sitemaps))[:MOST_SITEMAPS],
    )


def header_says(values: Iterable[str], token: str) -> tuple[bool, bool]:
    """`noindex` and `nofollow` of the `X-Robots-Tag` lines that are for everybody or for us."""
    told: set[str] = set()
    for value in values:
        ours = True
        for part in value.lower().split(","):
            name, colon, rest = (piece.strip() for piece in part.partition(":"))
            if colon and name not in _WITH_A_VALUE:
                ours, name = name in ("*", token), rest
            if ours:
                told.add(name)
    return bool(told & {"noindex", "none"}), bool(told & {"nofollow", "none"})


def _groups(text: str) -> tuple[list[_Group], list[str]]:
    groups: list[_Group] = []
    sitemaps: list[str] = []
    for line in _LINE_ENDS.split(text):
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            if not groups or groups[-1].has_rules:
                groups.append(_Group())
            groups[-1].agents.append("*" if value.startswith("*") else token_of(value))
        elif key == "sitemap" and value:
            sitemaps.append(value)
        elif key in ("allow", "disallow", "crawl-delay") and groups:
            _add(groups[-1], key, value)
    return groups, sitemaps


def _add(group: _Group, key: str, value: str) -> None:
    group.has_rules = True
    if key == "crawl-delay":
        group.delay = _seconds(value) if group.delay is None else group.delay
    elif value:
        group.rules.append(_rule(key == "allow", value))


def _rule(allow: bool, value: str) -> Rule:
    pattern = escaped(value, QUERY)
    anchored = pattern.endswith("$")
    parts = tuple(pattern.removesuffix("$").split("*"))
    return Rule(allow, len(pattern), parts, anchored)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
