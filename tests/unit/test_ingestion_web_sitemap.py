"""Sitemaps, as sites write them and as nobody should."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from penstock.pipelines.ingestion.sources import web_sitemap
from penstock.pipelines.ingestion.sources.web_sitemap import BadSitemap, Sitemap, parsed, walk
from penstock.pipelines.ingestion.sources.web_text import decoded, is_text, title_of

PAGES = b"""<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
  <url><loc> http://example.com/a?x=1&amp;y=2 </loc><lastmod>2024-01-01</lastmod>
    <image:image><image:loc>http://example.com/picture</image:loc></image:image></url>
  <url><loc>http://example.com/b</loc></url>
  <url><loc></loc></url>
</urlset>"""

INDEX = b"""<sitemapindex><sitemap><loc>http://example.com/one.xml</loc></sitemap>
<sitemap><loc>http://example.com/two.xml.gz</loc></sitemap></sitemapindex>"""


@pytest.mark.parametrize(
    "body",
    [PAGES, gzip.compress(PAGES, mtime=0), PAGES.decode().replace("UTF-8", "UTF-16").encode("utf-16")],
    ids=["plain", "gzip", "utf-16"],
)
def test_pages_are_read_and_pictures_are_not(body: bytes) -> None:
    assert parsed(body) == Sitemap(pages=("http://example.com/a?x=1&y=2", "http://example.com/b"))


def test_an_index_names_other_sitemaps_and_a_plain_list_will_do() -> None:
    assert parsed(INDEX).sitemaps == ("http://example.com/one.xml", "http://example.com/two.xml.gz")
    assert parsed(b"\xef\xbb\xbfhttp://example.com/a\r\n\r\nnonsense\nhttps://example.com/b").pages == (
        "http://example.com/a",
        "https://example.com/b",
    )
    assert parsed(b"") == Sitemap()


LAUGHS = b"""<!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<urlset><url><loc>&b;</loc></url></urlset>"""

OUTSIDE = b"""<!DOCTYPE urlset SYSTEM "http://127.0.0.1/x.dtd"><urlset/>"""


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (LAUGHS, "document type"),
        (OUTSIDE, "document type"),
        (b"<urlset><url><loc>&unknown;</loc></url></urlset>", "well-formed"),
        (b"<urlset><url>", "well-formed"),
        (b"<html><body>Not found</body></html>", "'html'"),
        (b"<?xml version='1.0' encoding='nonsense'?><urlset/>", "well-formed|encoding"),
        (b"<urlset>" + b"<a>" * 100, "nested"),
        (gzip.compress(PAGES, mtime=0)[:40] + b"nonsense nonsense", "damaged|well-formed"),
        (gzip.compress(b"<" + b" " * (web_sitemap.LARGEST + 10), mtime=0), "larger"),
    ],
    ids=["laughs", "outside", "entity", "cut off", "a page", "encoding", "nested", "damaged", "large"],
)
def test_what_is_no_sitemap_is_refused_with_the_reason(body: bytes, word: str) -> None:
    with pytest.raises(BadSitemap, match=word):
        parsed(body)


def walked(files: dict[str, Sitemap], *, most: int = 100) -> tuple[list[str], list[str]]:
    asked: list[str] = []

    async def read(url: str) -> Sitemap | None:
        asked.append(url)
        return files.get(url)

    return asyncio.run(walk(["root"], read, most=most)), asked


def test_sitemaps_that_name_each_other_are_read_once() -> None:
    files = {
        "root": Sitemap(sitemaps=("one", "root", "missing", "one")),
        "one": Sitemap(pages=("a", "b"), sitemaps=("root", "two")),
        "two": Sitemap(pages=("b", "c")),
    }
    assert walked(files) == (["a", "b", "c"], ["root", "one", "missing", "two"])


def test_there_is_an_end_to_pages_and_to_files() -> None:
    files = {f"{n}": Sitemap(pages=(f"p{n}", f"q{n}"), sitemaps=(f"{n + 1}",)) for n in range(200)}
    files["root"] = Sitemap(sitemaps=("0",))
    assert walked(files, most=3)[0] == ["p0", "q0", "p1"]
    assert len(walked(files, most=1000)[1]) == web_sitemap.MOST_FILES


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("grün".encode(), None, "grün"),
        ("grün".encode("latin-1"), None, "grün"),
        ("grün".encode("latin-1"), "utf-8", "grün"),
        ("grün".encode(), "no-such-charset", "grün"),
        ("grün".encode(), "punycode", "grün"),
        ("grün".encode(), "zlib", "grün"),
        ("grün".encode("utf-16"), "utf-8", "grün"),
        (b"\xef\xbb\xbfgr\xc3\xbcn", "latin-1", "grün"),
        ("зелёный".encode("koi8-r"), "koi8-r", "зелёный"),
    ],
)
def test_text_is_read_whatever_the_server_calls_it(body: bytes, charset: str | None, text: str) -> None:
    assert decoded(body, charset) == text


def test_titles_of_plain_pages() -> None:
    assert title_of("http://example.com/docs/a%20b.md", "intro\n# The title #\n# Another") == "The title"
    assert title_of("http://example.com/docs/a%20b.md", "#no heading") == "a b.md"
    assert title_of("http://example.com/") == "example.com"
    assert not is_text("a\x00b") and is_text("ab")
