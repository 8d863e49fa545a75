"""What a page says of itself besides its text: title, links, robots, canonical address, language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import urldefrag, urljoin, urlsplit

from lxml import etree, html  # type: ignore[import-untyped]

from penstock.pipelines.ingestion.sources.html_markdown import Element

MOST_LINKS = 5000
LONGEST_LINK = 2048
LONGEST_TITLE = 500
MOST_ATTRIBUTES = 300
"""Of one tag: the parser needs time in the square of their number."""

MOST_ELEMENTS = 50_000
DEEPEST = 300
"""Of what is looked at closely. Articles are much smaller."""

ROBOTS = frozenset(("robots", "penstock"))

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufdd0-\ufdef\ufffe\uffff]")
_TAG = re.compile(r"""<([a-zA-Z][^\s/>]*+)(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+>?""")
"""Nothing is tried twice, so that it takes no long time itself."""

_QUOTED = re.compile(r"""=\s*+(?:"[^"]*+"|'[^']*+')""")
_INLINE = re.compile(r"(?i)</?(?:a|abbr|b|big|center|cite|div|em|font|i|ins|s|small|span|strong|sub|sup|tt|u)\b[^<>]*>")
_ANCHOR = re.compile(r"(?i)<a\s[^<>]*>")
_TOO_DEEP = etree.XPath(f"boolean(//*[count(ancestor::*) > {DEEPEST}])")
_REFRESH = re.compile(r"(?i)\s*\d*(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?['\"]?\s*([^'\"]+)")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,4}")
_AFTER_TITLE = re.compile(r"\s*[|·•»«:—–/-]|\s*\(|\s*$")


def parsed(text: str) -> Element | None:
    """None: there is nothing in it."""
    clean = _TAG.sub(_unburdened, _CONTROLS.sub("", text))
    tree, whole = _tree(clean)
    if not whole:
        # Tags that nobody closes lie within each other. The parser stops where they are too deep: without them it may
        # come to the end.
        tree, _ = _tree(_INLINE.sub(_without, clean))
    if tree is not None:
        _tidy(tree)
    return tree


def _tidy(tree: Element) -> None:
    """Without signs that link to where they stand, and the numbers of lines that stand beside code."""
    for anchor in list(tree.iter("a")):
        if (anchor.get("href") or "").lstrip().startswith("#") and not any(
            map(str.isalnum, "".join(anchor.itertext()))
        ):
            anchor.drop_tree()
    for pre in list(tree.iter("pre")):
        cell = pre.getparent()
        if cell is not None and cell.tag == "td" and not "".join(cell.itertext()).strip("0123456789 \t\r\n"):
            cell.drop_tree()


def _tree(text: str) -> tuple[Element | None, bool]:
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False, huge_tree=True)
    if not text.strip():
        return None, True
    try:
        tree = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:
        return None, True
    last = parser.error_log.last_error
    return tree, last is None or last.type_name != "ERR_RESOURCE_LIMIT"


def _unburdened(found: re.Match[str]) -> str:
    tag = found[0]
    if len(tag) < 2 * MOST_ATTRIBUTES or len(_QUOTED.sub(" ", tag).replace("/", " ").split()) <= MOST_ATTRIBUTES:
        return tag
    return f"<{found[1][:MOST_ATTRIBUTES]}>"


def _without(found: re.Match[str]) -> str:
    return f"{found[0]}</a>" if _ANCHOR.match(found[0]) else " "


def is_unwieldy(tree: Element) -> bool:
    """Whether all that is more than walking through it would take too long."""
    return any(True for _ in islice(tree.iter(), MOST_ELEMENTS, None)) or bool(_TOO_DEEP(tree))


def base_of(tree: Element, url: str) -> str:
    """Against what the page's links are read."""
    for element in tree.iter("base"):
        if href := element.get("href"):
            return _joined(url, href) or url
    return url


def links_of(tree: Element, url: str) -> list[str]:
    """Where the page leads, in order. What it asks not to follow is left out."""
    base = base_of(tree, url)
    found: dict[str, None] = {}
    for href in _hrefs(tree):
        link = _joined(base, href)
        if link is not None:
            found.setdefault(link)
            if len(found) >= MOST_LINKS:
                break
    return list(found)


def leads_elsewhere(tree: Element) -> bool:
    """Whether the page is there only to send its reader to another."""
    return any(refresh is not None for refresh in map(_refresh, tree.iter("meta")))


def _hrefs(tree: Element) -> Iterator[str]:
    for element in tree.iter("a", "area", "frame", "iframe", "meta"):
        if element.tag == "meta":
            refresh = _refresh(element)
            if refresh is not None:
                yield refresh
            continue
        href = element.get("src" if element.tag in ("frame", "iframe") else "href")
        if href and not href.lstrip().startswith("#") and "nofollow" not in _attribute(element, "rel").split():
            yield href


def _refresh(meta: Element) -> str | None:
    if _attribute(meta, "http-equiv") != "refresh" or _inside(meta, "noscript"):
        return None
    found = _REFRESH.match(meta.get("content") or "")
    return found[1] if found else None


def canonical_of(tree: Element, url: str) -> str | None:
    base = base_of(tree, url)
    for element in tree.iter("link"):
        if "canonical" in _attribute(element, "rel").split() and (href := element.get("href")):
            return _joined(base, href)
    return None


def robots_of(tree: Element) -> tuple[bool, bool]:
    """Whether the page is not to be indexed, and its links not to be followed."""
    said: set[str] = set()
    for element in tree.iter("meta"):
        if _attribute(element, "name") in ROBOTS:
            said.update(word.strip() for word in _attribute(element, "content").split(","))
    return bool(said & {"noindex", "none"}), bool(said & {"nofollow", "none"})


def language_of(tree: Element) -> str | None:
    """As the page declares it: `en`, `pt-BR`."""
    body = tree.find("body")
    said = [tree.get("lang"), tree.get("xml:lang"), body.get("lang") if body is not None else None]
    said += [
        element.get("content")
        for element in tree.iter("meta")
        if _attribute(element, "http-equiv") == "content-language" or element.get("property") == "og:locale"
    ]
    for each in said:
        name = (each or "").split(",")[0].strip().replace("_", "-")
        if _LANGUAGE.fullmatch(name):
            return name
    return None


def title_of(tree: Element) -> str:
    """The page's title, without the site's name where a heading or the page's card tells what is the title of it."""
    whole = next((text for each in tree.iter("title") if not _inside(each, "svg") and (text := _words(each))), "")
    cards = [
        text
        for each in tree.iter("meta")
        if (each.get("property") or each.get("name")) == "og:title" and (text := _clean(each.get("content") or ""))
    ]
    headings = [text for each in islice(tree.iter("h1"), 10) if (text := _words(each))]
    if not whole:
        return next(iter((*cards, *headings)), "")[:LONGEST_TITLE]
    for name in (*cards, *headings):
        if len(name) > 2 and whole.lower().startswith(name.lower()) and _AFTER_TITLE.match(whole[len(name) :]):
            return name[:LONGEST_TITLE]
    return whole[:LONGEST_TITLE]


def _joined(base: str, href: str) -> str | None:
    """An absolute address of the web without its fragment."""
    bare = href.strip().replace("\n", "").replace("\r", "").replace("\t", "")
    if not bare or len(bare) > LONGEST_LINK:
        return None
    try:
        link = urldefrag(urljoin(base, bare)).url
        parts = urlsplit(link)
        return link if parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:
        return None


def _attribute(element: Element, name: str) -> str:
    return (element.get(name) or "").strip().lower()


def _inside(element: Element, tag: str) -> bool:
    return next(element.iterancestors(tag), None) is not None


def _words(element: Element) -> str:
    return _clean("".join(islice(element.itertext(), 1000)))


def _clean(text: str) -> str:
    return " ".join(text[: 4 * LONGEST_TITLE].split())
