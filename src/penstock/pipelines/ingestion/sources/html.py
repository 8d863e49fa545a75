"""Pages of the web as articles: Markdown text, and what the page says of itself. Pages are parsed in the processes of
the pool, with limits, since anybody may have written them; `html_child.py` is what runs there."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from penstock.engine.errors import Permanent
from penstock.paper.unreadable import Unreadable
from penstock.remote.pool import ChildDied, Deadly, PoolLimits, ProcessPool, TooLarge, TooLong

__all__ = ["LARGEST", "READING", "Article", "article"]

CHILD = "penstock.pipelines.ingestion.sources.html_child"

LARGEST = 16 * 2**20
"""Bytes of a page."""

READING = PoolLimits(seconds=30, memory_mb=1024, answer_mb=64)

_CRASHES = frozenset(
    -number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
)


@dataclass(slots=True, frozen=True, kw_only=True)
class Article:
    """`text` is Markdown, empty for a page without any. `links` are absolute addresses without fragments, in order;
    those that the page asks not to follow are left out. `published` is a day, as YYYY-MM-DD. `noindex` and `nofollow`
    are what the page asks of robots."""

    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    canonical: str | None = None
    language: str | None = None
    published: str | None = None
    author: str | None = None
    site: str | None = None
    noindex: bool = False
    nofollow: bool = False


_ARTICLE: TypeAdapter[Article] = TypeAdapter(Article)


async def article(
    pool: ProcessPool, body: bytes, *, url: str, charset: str | None = None, limits: PoolLimits = READING
) -> Article:
    """The page that was found at `url`; `charset` is what its server says. `Unreadable` (permanent, with words for a
    person) for what cannot be read; trouble of the machine is `Transient`."""
    if len(body) > LARGEST:
        raise Unreadable(f"{url} has {len(body) / 2**20:.0f} MB; pages of at most {LARGEST // 2**20} MB are read.")
    if not body:
        return Article()
    try:
        _, (told,) = await _once_more(pool, body, {"url": url, "charset": charset}, limits)
    except TooLong as error:
        raise Unreadable(f"{url} takes longer to read than it may ({limits.seconds:g} s).") from error
    except TooLarge as error:
        raise Unreadable(f"{url} needs more memory to read than it may ({limits.memory_mb} MB).") from error
    except Deadly as error:
        raise Unreadable(f"{url} crashes the program that reads it, or needs far too much memory.") from error
    except Permanent as error:
        said = str(error).removeprefix(f"{CHILD}:")
        raise Unreadable(said if url in said else f"{url} cannot be read: {said}") from error
    return await asyncio.to_thread(_checked, told, url)


async def _once_more(
    pool: ProcessPool, body: bytes, args: dict[str, Any], limits: PoolLimits
) -> tuple[Any, list[bytes]]:
    """A crash of the parser is tried once more, and then it is the page's doing. Other deaths are the machine's."""
    for last in (False, True):
        try:
            return await pool.run(f"{CHILD}:read_html", args, blobs=[body], limits=limits)
        except ChildDied as error:
            if error.code not in _CRASHES:
                raise
            if last:
                raise Deadly(str(error)) from error
    raise AssertionError("unreachable")


def _checked(told: bytes, url: str) -> Article:
    """What a child tells is checked: it may have read something hostile."""
    try:
        return _ARTICLE.validate_json(told)
    except ValidationError as error:
        raise Unreadable(f"{url} led its reader astray.") from error
