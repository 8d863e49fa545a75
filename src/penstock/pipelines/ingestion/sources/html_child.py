"""What a process of the pool does with a page: bytes of foreign HTML in, the article as JSON out. The libraries that
read HTML are imported here and nowhere else, so that the process that asks never loads them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from trafilatura.metadata import extract_metadata

from penstock.paper.unreadable import Unreadable
from penstock.pipelines.ingestion.sources import html_page
from penstock.pipelines.ingestion.sources.html_body import LITTLE, body_of
from penstock.pipelines.ingestion.sources.html_encoding import decoded
from penstock.pipelines.ingestion.sources.html_markdown import Element

log = logging.getLogger("penstock.ingestion")

HEAD = 4096
LONGEST = 300
"""Characters of a name."""


def read_html(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The page in `blobs[0]`, which was found at `url` and has the `charset` that its server says, as a blob of JSON
    with the fields of an `Article`."""
    (data,) = blobs
    url = args["url"]
    text = decoded(data, args.get("charset"))
    if not is_text(text):
        raise Unreadable(f"{url} is no HTML: what came is not text at all.")
    tree = html_page.parsed(text)
    told = {} if tree is None else _told(tree, url)
    return {}, [json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")]


def is_text(text: str) -> bool:
    """A picture or an archive that was sent as HTML is mostly what no page has."""
    head = text[:HEAD]
    odd = sum(character == "\ufffd" or (character < " " and character not in "\t\n\f\r\0") for character in head)
    return odd < 10 or odd * 10 <= len(head)


def _told(tree: Element, url: str) -> dict[str, Any]:
    noindex, nofollow = html_page.robots_of(tree)
    text = body_of(tree, url)
    if len(text) < LITTLE and html_page.leads_elsewhere(tree):
        text = ""
    return {
        "title": html_page.title_of(tree),
        "links": html_page.links_of(tree, url),
        "canonical": html_page.canonical_of(tree, url),
        "language": html_page.language_of(tree),
        "noindex": noindex,
        "nofollow": nofollow,
        **_by_whom(tree, url),
        "text": text,
    }


def _by_whom(tree: Element, url: str) -> dict[str, str | None]:
    if html_page.is_unwieldy(tree):
        return {}
    try:
        found = extract_metadata(tree, url, {"original_date": True, "extensive_search": False}, extensive=False)
    except MemoryError:
        raise
    except Exception as error:
        log.warning("%s: author and date are not read: %s: %s", url, type(error).__name__, error)
        return {}
    told = {"published": found.date, "author": found.author, "site": found.sitename}
    return {name: " ".join(value.split())[:LONGEST] if value else None for name, value in told.items()}
