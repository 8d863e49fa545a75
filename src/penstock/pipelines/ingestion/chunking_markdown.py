"""What a Markdown text is made of, as far as cutting goes: its headings, and the code and tables that stay whole.
Read line by line as CommonMark says, without a tree; what only looks right inside of a list or a quote is no heading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.pipelines.ingestion.chunking_cuts import Span

MOST_TITLE = 200
"""Characters of a heading that are kept. Every chunk below it carries them; a longer underlined one is a paragraph."""

_MEANING = frozenset("#`~|:-=<>*+0123456789")
"""What a line begins with that is more than a line of a paragraph."""

_SETEXT = re.compile(r"(?:=+|-+)[ \t]*$")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_DELIMITERS = re.compile(r"(?=[^|]*\|)(?=[^-]*-)[|:\- \t]+$")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RAW = re.compile(
    r"<(?:(pre|script|style|textarea)\b|(!--)|/?(?:address|article|aside|blockquote|center|details|dialog|dd|div|dl|dt|"
    r"fieldset|figcaption|figure|footer|form|h[1-6]|header|hr|iframe|li|link|main|menu|nav|ol|option|p|section|summary|"
    r"table|tbody|td|tfoot|th|thead|title|tr|ul)(?:[\s/>]|$))",
    re.IGNORECASE,
)
"""HTML in which nothing is Markdown: up to its closing tag, the end of the comment, or the next empty line."""

_FRONT = re.compile(r"---[ \t]*\n(?=[^\n:]*:)(?:.*\n){0,200}?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")


@dataclass(slots=True, frozen=True)
class Heading:
    start: int
    level: int
    title: str
    body: int
    """Where the heading's own lines end."""


class Outline:
    """`headings` and `blocks` of a text, in order."""

    __slots__ = (
        "_fence",
        "_hopeless",
        "_inside",
        "_paragraph",
        "_quote",
        "_raw",
        "_table",
        "_text",
        "blocks",
        "headings",
    )

    def __init__(self, text: str) -> None:
        self.headings: list[Heading] = []
        self.blocks: list[Span] = []
        self._text = text
        self._paragraph = -1
        """Where the paragraph began that the last line belongs to, if it could become a heading."""
        self._inside = False
        """Whether what is indented, or goes on without an empty line, belongs to a list or a quote."""
        self._fence: tuple[int, str, int] | None = None
        """Of the code that is open: where it began, what closes it, and how far that may be indented."""
        self._raw: tuple[int, str] | None = None
        """Of the HTML that is open: where it began, and what ends it ("" for an empty line)."""
        self._table = -1
        self._quote = -1
        """Where the quote began that holds code."""
        self._hopeless: dict[str, tuple[int, int]] = {}
        """How many of a fence's characters nothing closes, up to where: it is not looked for again and again."""
        self._read()

    def _read(self) -> None:
        front = _FRONT.match(self._text)
        at = begin = front.end() if front else 0
        before, blank = -1, True
        for line in self._text[begin:].split("\n") if begin else self._text.split("\n"):
            content = line.lstrip()
            if self._fence is not None:
                self._in_code(at, line, content)
            elif self._raw is not None:
                self._in_html(at, line, content)
            elif not content:
                self._paragraph, blank = -1, True
                if self._table >= 0 or self._quote >= 0:
                    self._ended(at - 1)
            else:
                if content[0] in _MEANING:
                    self._meaning(at, line, content, before, blank)
                elif self._paragraph < 0:
                    self._begun(at, _columns(line, content), blank)
                blank = False
            before = at
            at += len(line) + 1
        end = len(self._text)
        self._ended(end)
        if self._fence is not None:
            self.blocks.append((self._fence[0], end))
        elif self._raw is not None and self._raw[1] == "</pre":
            self.blocks.append((self._raw[0], end))

    def _begun(self, at: int, indent: int, blank: bool) -> None:
        """A line that may be a paragraph's first."""
        if blank and indent < 2:
            self._inside = False
        if indent < 4 and not self._inside and self._quote < 0 and self._table < 0:
            self._paragraph = at

    def _meaning(self, at: int, line: str, content: str, before: int, blank: bool) -> None:
        """A line that begins like a heading, a fence, a table, a quote, HTML, a rule or an item, and may be none."""
        indent = _columns(line, content)
        start = at + len(line) - len(content)
        first = content[0]
        outside = indent < 4 and not (self._inside and indent >= 2)
        if first == "#" and outside and (level := _level(content)):
            self._other(at)
            self._inside = False
            self._heading(at, level, _title(content[level:]), at + len(line))
        elif first in "`~" and (fence := _FENCE.match(content)):
            self._opened(at, start, indent, fence[1] or fence[2])
        elif first in "=-" and indent < 4 and self._paragraph >= 0 and _SETEXT.match(content):
            above, self._paragraph = self._paragraph, -1
            if at - above <= MOST_TITLE:
                self._heading(above, 1 if first == "=" else 2, self._text[above:at], at + len(line))
        elif first in "|:-" and self._table < 0 and _DELIMITERS.match(content):
            header = self._text[before : at - 1] if before >= 0 else ""
            if "|" in header:
                self._table = before + len(header) - len(header.lstrip())
                self._paragraph = -1
        elif first == ">":
            self._paragraph, self._inside = -1, True
            if self._quote < 0 and content.lstrip("> \t").startswith(("```", "~~~")):
                self._other(at)
                self._quote = start
        elif first == "<" and indent < 4 and (html := _RAW.match(content)):
            self._other(at)
            self._raw = start, "-->" if html[2] else f"</{html[1].lower()}" if html[1] else ""
            self._in_html(at, line, content)
        elif outside and _RULE.match(content):
            self._other(at)
            self._inside = False
        elif item := _ITEM.match(content):
            self._other(at)
            self._inside = True
            held = content[item.end() :].lstrip()
            if fence := _FENCE.match(held):
                self._opened(at, at + len(line) - len(held), _columns(line, held), fence[1] or fence[2])
        elif self._paragraph < 0:
            self._begun(at, indent, blank)

    def _other(self, at: int) -> None:
        """Something begins here that ends what was open."""
        self._paragraph = -1
        if self._table >= 0 or self._quote >= 0:
            self._ended(at - 1)

    def _heading(self, start: int, level: int, title: str, end: int) -> None:
        title = " ".join(title[: 2 * MOST_TITLE].split())
        if len(title) > MOST_TITLE:
            title = title[: MOST_TITLE - 1] + "…"
        self.headings.append(Heading(start, level, title, end))

    def _ended(self, at: int) -> None:
        """A table, or a quote with code in it, goes to the end of the line before."""
        for start in (self._table, self._quote):
            if start >= 0:
                self.blocks.append((start, max(at, start)))
        self._table = self._quote = -1

    def _opened(self, at: int, start: int, indent: int, mark: str) -> None:
        """A fence. Where it is indented like code itself, it is one if something closes it before a line without
        indentation comes: else it is an example of a fence."""
        if indent >= 4:
            least, until = self._hopeless.get(mark[0], (0, -1))
            if start < until and len(mark) >= least:
                return
            closing = re.compile(rf"\n(?:[ \t]+({mark[0]}{{{len(mark)},}})[ \t]*(?=\n|\Z)|(?=\S))")
            found = closing.search(self._text, start)
            if found is None or found[1] is None:
                self._hopeless[mark[0]] = len(mark), found.start() if found else len(self._text)
                return
        self._other(at)
        self._fence = start, mark, len(self._text) if indent >= 4 else indent + 3 if self._inside else 3

    def _in_code(self, at: int, line: str, content: str) -> None:
        assert self._fence is not None
        start, mark, indent = self._fence
        if content.startswith(mark) and not content.rstrip().strip(mark[0]) and _columns(line, content) <= indent:
            self.blocks.append((start, at + len(line)))
            self._fence = None

    def _in_html(self, at: int, line: str, content: str) -> None:
        assert self._raw is not None
        start, closing = self._raw
        if closing in line.lower() if closing else not content:
            self._raw = None
            if closing == "</pre":
                self.blocks.append((start, at + len(line)))


def _columns(line: str, content: str) -> int:
    """How far the content is indented; a tab goes to the next fourth column."""
    indent = line[: len(line) - len(content)]
    return len(indent.expandtabs(4)) if "\t" in indent else len(indent)


def _level(content: str) -> int:
    """How many of `#` begin this line, if that makes it a heading."""
    level = len(content) - len(content.lstrip("#"))
    return level if level <= 6 and content[level : level + 1] in ("", " ", "\t") else 0


def _title(told: str) -> str:
    title = told.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title
