"""HTML as Markdown, for chunkers and readers: headings, lists, quotes, tables and code keep their form; emphasis,
links and pictures leave their words only. The tree is walked without recursion, however deep it is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

Element = Any
"""lxml says nothing of its types."""

HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    (
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "dir",
        "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html",
        "legend", "li", "main", "menu", "nav", "ol", "optgroup", "option", "p", "pre", "section", "summary", "table",
        "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
    )
)  # fmt: skip
_UNSEEN = frozenset(
    (
        "annotation", "annotation-xml", "applet", "area", "audio", "base", "button", "canvas", "datalist", "embed",
        "head", "iframe", "img", "input", "link", "map", "meta", "noframes", "noscript", "object", "param", "picture",
        "progress", "rp", "script", "select", "source", "style", "svg", "template", "textarea", "title", "track",
        "video", "wbr",
    )
)  # fmt: skip
_BOXES = frozenset(("center", "div", "header", "hgroup", "section"))
"""They may stand within a heading."""

_CODE = frozenset(("code", "kbd", "samp", "tt"))
_LINES = frozenset(("div", "li", "p", "tr"))
"""What some highlighters make the lines of code of."""

_DEEPEST = 6
"""Lists and quotes within each other; what is deeper stands as deep."""

_BLANKS = re.compile(r"[ \t\n\r\f\xa0\u2000-\u200a\u202f\u205f\u3000]+")
_NOTHING = str.maketrans(dict.fromkeys("\u00ad\u200b\u2060\ufeff"))
_MEANING = re.compile(r"#{1,6}(?:\s|$)|`{3}|~{3}|(?:=+|-+)\s*$|<[a-zA-Z/!]")
"""With what a line of a paragraph would be a heading, code or HTML."""

_LANGUAGE = re.compile(r"\b(?:language|lang|highlight(?:-source)?|brush:)[- ]([A-Za-z][\w+#.]{0,20})")
_NO_LANGUAGE = frozenset(("default", "none", "notranslate", "plaintext", "source", "text"))
_GUTTER = re.compile(r"\b(?:linenos?|line-?numbers?(?:-rows)?|lnt|gutter|rouge-gutter)\b")
_TICKS = re.compile(r"`+")


def markdown(root: Element, without: Set[Element] = frozenset()) -> str:
    """What is below `root`, but for what is below one of `without`."""
    writer = _Writer()
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "start":
            if element in without or not writer.start(element):
                walk.skip_subtree()
        else:
            if element not in without:
                writer.end(element)
            if element is not root:
                writer.say(element.tail)
    return unicodedata.normalize("NFC", writer.text())


@dataclass(slots=True)
class _Around:
    """A list's item or a quote: what its first line begins with, and its other lines."""

    first: str
    other: str


class _Writer:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._words: list[str] = []
        self._around: list[_Around] = []
        self._numbers: list[int | None] = []
        """Of the next item, in each of the lists around."""
        self._codes: list[tuple[int, int]] = []
        """Where inline code began: how many lines and how many words there were."""
        self._heading = 0
        self._before: list[_Around] = []
        """What was around the last block."""

    def text(self) -> str:
        self._paragraph()
        return "\n".join(self._lines)

    def start(self, element: Element) -> bool:
        """False: what is inside is done with."""
        tag = element.tag
        if tag in _UNSEEN:
            return False
        if tag == "pre" and is_code(element):
            self._paragraph()
            self._heading = 0
            self._code(element)
            return False
        if tag == "table" and (rows := table(element)):
            self._paragraph()
            self._heading = 0
            self._block(rows)
            return False
        if tag in HEADINGS:
            self._paragraph()
            self._heading = HEADINGS[tag]
            if not self._quoted():
                # What has headings of its own is a list of sections.
                for each in self._around:
                    each.first = each.other = ""
        elif tag in _BLOCKS:
            self._begin_block(tag)
            self._open(tag, element)
        elif tag in _CODE:
            self._codes.append((len(self._lines), len(self._words)))
        elif tag == "br":
            self._words.append("\n")
        self.say(element.text)
        return True

    def end(self, element: Element) -> None:
        tag = element.tag
        if tag in HEADINGS:
            self._paragraph()
            self._heading = 0
        elif tag in _BLOCKS:
            if self._heading:
                self._words.append(" ")
            else:
                self._paragraph()
            self._close(tag)
        elif tag in _CODE:
            self._end_code()

    def say(self, words: str | None) -> None:
        if words:
            self._words.append(_BLANKS.sub(" ", words.translate(_NOTHING)))

    def _begin_block(self, tag: str) -> None:
        if self._heading and (tag in _BOXES or not "".join(self._words).strip()):
            self._words.append(" ")
        else:
            # A heading that nobody has closed ends where a paragraph begins.
            self._paragraph()
            self._heading = 0

    def _open(self, tag: str, element: Element) -> None:
        if tag in ("ul", "ol", "menu", "dir"):
            begin = element.get("start") or "1"
            first = int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 7 else 1
            self._numbers.append(first if tag == "ol" else None)
        elif tag == "li":
            mark = "- "
            number = self._numbers[-1] if self._numbers else None
            if number is not None:
                mark = f"{number}. "
                self._numbers[-1] = number + 1
            deep = len(self._around) >= _DEEPEST
            self._around.append(_Around("", "") if deep else _Around(mark, " " * len(mark)))
        elif tag == "blockquote":
            self._around.append(_Around("", "") if len(self._around) >= _DEEPEST else _Around("> ", "> "))

    def _close(self, tag: str) -> None:
        if tag in ("ul", "ol", "menu", "dir"):
            self._numbers.pop()
        elif tag in ("li", "blockquote"):
            self._around.pop()

    def _quoted(self) -> bool:
        return any(each.other == "> " for each in self._around)

    def _end_code(self) -> None:
        lines, words = self._codes.pop()
        if self._codes or lines != len(self._lines) or words > len(self._words):
            return
        said = "".join(self._words[words:])
        code = " ".join(said.split())
        if not code:
            return
        del self._words[words:]
        mark = "`" * (1 + max(map(len, _TICKS.findall(code)), default=0))
        room = " " if "`" in code else ""
        before, after = said[: 1 if said[0] == " " else 0], said[-1] if said[-1] == " " else ""
        self._words.append(f"{before}{mark}{room}{code}{room}{mark}{after}")

    def _paragraph(self) -> None:
        """What was said since the last block. An empty line is two breaks, with which old pages part paragraphs."""
        if not self._words:
            return
        said = "".join(self._words)
        self._words.clear()
        lines: list[str] = []
        for line in said.split("\n"):
            words = _BLANKS.sub(" ", line).strip()
            if words:
                lines.append(words)
            elif lines and not self._heading:
                self._block(_escaped(lines))
                lines = []
        if not lines:
            return
        if self._heading:
            self._block([f"{'#' * self._heading} {' '.join(lines)}"])
        else:
            self._block(_escaped(lines))

    def _code(self, element: Element) -> None:
        lines = code_of(element)
        if not lines:
            return
        mark = "`" * max(3, 1 + max((len(run) for line in lines for run in _TICKS.findall(line)), default=0))
        self._block([f"{mark}{_language(element)}", *lines, mark])

    def _block(self, lines: list[str]) -> None:
        if self._lines and not self._goes_on():
            # The empty line belongs to the items and quotes that both blocks are in.
            both = [one for one, other in zip(self._before, self._around, strict=False) if one is other]
            self._lines.append("".join(each.other for each in both).rstrip())
        first = "".join(each.first for each in self._around)
        other = "".join(each.other for each in self._around)
        for each in self._around:
            each.first = each.other
        self._before = list(self._around)
        self._lines.append((first + lines[0]).rstrip())
        self._lines.extend((other + line).rstrip() for line in lines[1:])

    def _goes_on(self) -> bool:
        """An item after an item."""
        begins = any(each.first != each.other for each in self._around)
        return begins and any(each.other.isspace() for each in self._before)


def is_code(pre: Element) -> bool:
    """Some pages have all of their text in it."""
    return not any(True for _ in pre.iterdescendants("p", *HEADINGS))


def table(element: Element) -> list[str]:
    """The lines of a table of short facts. None of one that holds the page's layout, has one row or column only, or is
    mostly holes: its cells are read one after another."""
    if any(True for _ in element.iterdescendants("table", "pre", *HEADINGS)):
        return []
    rows: list[list[str]] = []
    for row in element.iter("tr"):
        cells = list(row.iterchildren("td", "th"))
        if any(len(list(islice(cell.iterdescendants("p", "div", "li"), 4))) > 3 for cell in cells):
            return []
        said = [_cell(cell) for cell in cells]
        if any(said):
            rows.append(said)
    width = max(map(len, rows), default=0)
    if width < 2 or len(rows) < 2 or width * len(rows) > 1000 + 4 * sum(map(len, rows)):
        return []
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
    caption = element.find("caption")
    told = " ".join("".join(caption.itertext()).split()) if caption is not None else ""
    return [*([*_escaped([told]), ""] if told else []), lines[0], "|" + " --- |" * width, *lines[1:]]


def _cell(cell: Element) -> str:
    said = markdown(cell) if len(cell) else (cell.text or "").translate(_NOTHING)
    return " ".join(said.split()).replace("|", "\\|")


def code_of(element: Element) -> list[str]:
    """The lines of a `pre`, without the numbers and buttons beside them."""
    said: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        tag = each.tag
        if event == "start":
            if tag in _UNSEEN or (each is not element and _is_number(each)):
                walk.skip_subtree()
                continue
            said.append("\n" if tag == "br" else each.text or "")
        elif each is not element:
            if tag in _LINES and said and not "".join(said[-2:]).endswith("\n"):
                said.append("\n")
            if each.tail:
                said.append(each.tail)
    lines = [line.rstrip() for line in "".join(said).replace("\xa0", " ").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def _is_number(element: Element) -> bool:
    """Of a line, as highlighters write it beside the code."""
    return bool(_GUTTER.search(element.get("class") or "")) and not "".join(element.itertext()).strip("0123456789 \n")


def _language(element: Element) -> str:
    around = [element, *element.iterchildren("code"), *list(element.iterancestors())[:2]]
    found = _LANGUAGE.search(" ".join(f"{each.get('class') or ''} ;" for each in around).lower())
    return found[1] if found and found[1] not in _NO_LANGUAGE else ""


def _escaped(lines: list[str]) -> list[str]:
    return [f"\\{line}" if _MEANING.match(line) else line for line in lines]
