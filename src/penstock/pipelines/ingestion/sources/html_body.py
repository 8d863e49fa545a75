"""The text of a page as Markdown: trafilatura says what belongs to the article, and code, which it takes apart, is put
back as it was. Where it leaves out too much, as of documentation, the page's main part is taken whole."""

from __future__ import annotations

import logging
import re
from copy import deepcopy
from itertools import islice

from lxml import etree, html  # type: ignore[import-untyped]
from trafilatura import bare_extraction

from penstock.pipelines.ingestion.sources.html_markdown import HEADINGS, Element, code_of, is_code, markdown
from penstock.pipelines.ingestion.sources.html_page import is_unwieldy

log = logging.getLogger("penstock.ingestion")
for _name in ("trafilatura", "htmldate"):
    # They warn of every page in which they find little.
    logging.getLogger(_name).setLevel(logging.CRITICAL)

LITTLE = 250
"""Characters below which an article may have been missed."""

SHORT = 1000
"""Characters below which trafilatura asks other extractors too. A longer article is seldom wrong, and theirs, where it
is longer still, is seldom right."""

SOME_CODE = 5
"""Pieces of code from which on a page is documentation."""

ENOUGH = 0.75
"""How much of documentation must have been found: of a page without a main part, the rest may be menus."""

_BEGIN, _NAMED, _END = "\ufdd0", "\ufdd1", "\ufdd2"
"""Around what stands for code while trafilatura decides. They are no characters, and no page has them: see `parsed`."""

_PUT = re.compile(f"{_BEGIN}(\\d+){_NAMED}[^{_END}]*{_END}?")

_TAGS = {
    "list": "ul", "item": "li", "quote": "blockquote", "lb": "br", "row": "tr", "cell": "td", "ref": "span",
    "hi": "span", "del": "span", "graphic": "img",
}  # fmt: skip
"""What trafilatura calls things, as HTML."""

_ASIDE = etree.XPath(
    "//nav|//dialog|//footer[not(ancestor::blockquote)]"
    "|//aside[not(ancestor::main or ancestor::article or ancestor::*[@role='main'])]"
    "|//header[not(.//h1 or ancestor::main or ancestor::article or ancestor::section)]"
    "|//*[@role='navigation' or @role='complementary' or @role='contentinfo' or @role='search' or @role='dialog'"
    " or @role='alertdialog' or @role='menu' or @role='menubar' or @role='toolbar']"
    "|//*[(@hidden[. != 'until-found'] or @aria-hidden='true' or contains(translate(@style,' ',''),'display:none'))"
    " and not(@role='tabpanel')]"
)
"""What stands around a page's text, and what is not seen."""

_CLASSED = etree.XPath(
    "descendant::*[self::div or self::section or self::aside or self::ul or self::ol or self::form][@class]"
)
_NOT_TEXT = re.compile(
    r"(?:^|\s)(?:[a-z]+[-_]{1,2})?(?:breadcrumbs?|pagination|pager|sidebar|sidenav|toc|table-of-contents|comments?|respond"
    r"|related(?:-?posts|-?articles)?|share|sharing|social|newsletter|cookies?(?:-?banner)?|skip-?links?)"
    r"(?:[-_](?:area|bar|box|buttons?|container|items?|links?|list|nav|section|wrapper))?(?:$|\s)",
    re.IGNORECASE,
)
_MAIN = etree.XPath("//main|//*[@role='main']")
_TEXTS = etree.XPath("descendant::text()[not(parent::script or parent::style)]")
_ARTICLE = etree.XPath("descendant-or-self::article[not(ancestor::article)]")


def body_of(tree: Element, url: str) -> str:
    body = tree.find("body")
    if body is None:
        return ""
    main = _main(tree, body)
    if is_unwieldy(tree):
        return _whole(tree, main)
    if _has_code(main):
        whole = _whole(tree, main)
        if main is not body and whole:
            return whole
        chosen = _chosen(tree, url)
        return chosen if len(chosen) > ENOUGH * len(whole) else whole
    chosen = _chosen(tree, url)
    return chosen if len(chosen) > LITTLE else _whole(tree, main)


def _main(tree: Element, body: Element) -> Element:
    """The part that the page marks as its text, or all of it."""
    mains = _MAIN(tree)
    outer = mains[0] if len(mains) == 1 else body
    articles = _ARTICLE(outer)
    if len(articles) == 1 and 2 * _length(articles[0]) > _length(outer):
        return articles[0]
    return outer


def _length(element: Element) -> int:
    return sum(map(len, _TEXTS(element)))


def _has_code(element: Element) -> bool:
    return any(True for _ in islice(element.iter("pre", "code", "tt", "kbd", "samp"), SOME_CODE - 1, None))


def _whole(tree: Element, main: Element) -> str:
    without = set(_ASIDE(tree))
    half = _length(main) / 2
    boxes = {each for each in _CLASSED(main) if _NOT_TEXT.search(each.get("class")) and _length(each) < half}
    return markdown(main, without | boxes) or markdown(main, without) or markdown(main)


def _chosen(tree: Element, url: str) -> str:
    """What trafilatura takes for the article."""
    given = deepcopy(tree)
    codes = _put_aside(given)
    found = _extracted(given, url, fast=True)
    if found is None or _length(found) < SHORT:
        found = _extracted(given, url, fast=False)
    if found is None:
        return ""
    _as_html(found)
    _put_back(found, codes)
    return markdown(found)


def _extracted(tree: Element, url: str, *, fast: bool) -> Element | None:
    try:
        found = bare_extraction(tree, url=url, include_comments=False, fast=fast)
    except MemoryError:
        raise
    except Exception as error:
        # A page is better read without it than not at all.
        log.warning("%s: trafilatura does not read it: %s: %s", url, type(error).__name__, error)
        return None
    return getattr(found, "body", None)


def _put_aside(tree: Element) -> list[Element]:
    for figure in [each for each in tree.iter("figure") if each.find(".//pre") is not None]:
        figure.tag = "div"
        for caption in figure.iter("figcaption"):
            caption.tag = "p"
    for details in tree.iter("details"):
        details.tag = "div"
    for summary in tree.iter("summary"):
        summary.tag = "div" if any(True for _ in summary.iter(*HEADINGS)) else "p"
    for table in tree.iter("table"):
        if _is_hollow(table):
            for part in table.iter("table", "tbody", "thead", "tfoot", "tr", "td", "th"):
                part.tag = "div"
    codes: list[Element] = []
    outer = [pre for pre in tree.iter("pre") if next(pre.iterancestors("pre"), None) is None and is_code(pre)]
    for pre in outer:
        lines = code_of(pre)
        stand_in = html.Element("p")
        if lines:
            stand_in.text = f"{_BEGIN}{len(codes)}{_NAMED}{' '.join(lines)}{_END}"
        stand_in.tail = pre.tail
        pre.getparent().replace(pre, stand_in)
        pre.tail = None
        codes.append(pre)
    return codes


def _is_hollow(table: Element) -> bool:
    """Whether trafilatura, which fills the holes of a table, would make a multiple of it."""
    cells = rows = width = area = 0
    for row in table.iter("tr"):
        spans = [(_span(cell, "colspan"), _span(cell, "rowspan")) for cell in row.iterchildren("td", "th")]
        cells += len(spans)
        rows += 1
        width = max(width, sum(across for across, _ in spans))
        area += sum(across * down for across, down in spans)
    return max(rows * width, area) > 1000 + 4 * cells


def _span(cell: Element, name: str) -> int:
    said = cell.get(name) or "1"
    return min(int(said[:3]), 100) if said.isdecimal() else 1


def _as_html(body: Element) -> None:
    for element in body.iter("*"):
        tag = element.tag
        if tag == "head":
            element.tag = element.get("rend") if element.get("rend") in HEADINGS else "h2"
        elif tag == "list" and element.get("rend") in ("ol", "dl"):
            element.tag = element.get("rend")
        elif tag == "item" and (element.get("rend") or "")[:2] in ("dd", "dt"):
            element.tag = element.get("rend")[:2]
        elif tag == "cell" and element.get("role") == "head":
            element.tag = "th"
        elif tag in _TAGS:
            element.tag = _TAGS[tag]


def _put_back(body: Element, codes: list[Element]) -> None:
    for element in list(body.iter("*")):
        if element.text and _BEGIN in element.text:
            element.text, made = _made(element.text, codes)
            for place, pre in enumerate(made):
                element.insert(place, pre)
        if element.tail and _BEGIN in element.tail:
            element.tail, made = _made(element.tail, codes)
            for pre in reversed(made):
                element.addnext(pre)


def _made(text: str, codes: list[Element]) -> tuple[str, list[Element]]:
    """The text before the first code, and each code with the text after it."""
    before, *rest = _PUT.split(text)
    made = []
    for number, after in zip(rest[::2], rest[1::2], strict=True):
        pre = deepcopy(codes[int(number)])
        pre.tail = after
        made.append(pre)
    return before, made
