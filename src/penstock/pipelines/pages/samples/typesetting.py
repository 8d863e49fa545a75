"""Pages of type: pieces of text are broken into lines, filled into pages and written as a small PDF, and what was
printed on each page is kept as its truth. The fonts are the standard ones of PDF, whose widths pdfium knows."""

from __future__ import annotations

import atexit
import ctypes
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import pypdfium2 as pdfium  # type: ignore[import-untyped]
import pypdfium2.raw as raw  # type: ignore[import-untyped]

from penstock.pipelines.pages.prompts.catalogue import BlockKind, CataloguePage, Course, PageKind, TextBlock

WIDTH, HEIGHT = 432, 648
"""Six inches by nine, in points."""

MARGIN, TOP, BOTTOM = 52, 66, 50
TEXT_WIDTH = WIDTH - 2 * MARGIN

SECTION = 11
"""A heading of this size begins something new; a smaller one goes on with what it stands in."""

FONTS = {"roman": "Times-Roman", "bold": "Times-Bold", "italic": "Times-Italic"}

Font = Literal["roman", "bold", "italic"]
Align = Literal["centre", "justify", "left"]

_BREAKABLE = re.compile(r"(?<=[a-z]{4})(?=(?:tions?|ments?|tures?|ical|ness|ations?)\b)")


@dataclass(frozen=True)
class Span:
    text: str
    font: Font = "roman"


@dataclass(frozen=True)
class Piece:
    """A paragraph, heading or entry. `indent` is that of the first line, `hang` that of the others. `aside` stands at
    the right edge, behind dots. `course` is what the piece names; where it is `numbered`, all that is known of it is
    said in the piece itself."""

    kind: BlockKind
    spans: tuple[Span, ...]
    align: Align = "justify"
    size: float = 10.5
    before: float = 0.0
    indent: float = 0.0
    hang: float = 0.0
    aside: str = ""
    course: Course | None = None
    numbered: bool = False

    @property
    def leading(self) -> float:
        return self.size * 1.24


@dataclass(frozen=True)
class _Placed:
    x: float
    y: float
    size: float
    font: Font
    text: str


@dataclass(frozen=True)
class _Word:
    """`glued`: no space before it, since only the font changes there."""

    text: str
    font: Font
    glued: bool = False


@dataclass(frozen=True)
class _Line:
    words: tuple[_Word, ...]
    broken: bool
    """Whether its last word goes on in the next line."""

    @property
    def text(self) -> str:
        return "".join(word.text if word.glued else f" {word.text}" for word in self.words).strip()


@dataclass
class Sheet:
    """One page: what is printed where, and what may be read on it."""

    kind: PageKind
    number: str | None = None
    head: str | None = None
    continues: bool = False
    placed: list[_Placed] = field(default_factory=list)
    blocks: list[TextBlock] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    down: float = TOP

    @property
    def truth(self) -> CataloguePage:
        top = [TextBlock(kind="page_number", text=self.number)] if self.number else []
        top += [TextBlock(kind="running_head", text=self.head)] if self.head else []
        return CataloguePage(
            page_kind=self.kind,
            printed_page=self.number,
            headings=[block.text for block in self.blocks if block.kind == "heading"],
            text_blocks=[*top, *self.blocks],
            courses=self.courses,
            continues=self.continues,
        )


def fill(kind: PageKind, pieces: Iterable[Piece], *, most: int) -> list[Sheet]:
    """Sheets filled with the pieces one after the other, at most so many; what is left over is not printed."""
    sheets = [Sheet(kind)]
    floor = HEIGHT - BOTTOM
    for piece in pieces:
        sheet = sheets[-1]
        lines = _broken(piece)
        # A heading stays with what it is the heading of, and an entry stays whole.
        wanted = {"heading": 4, "list": len(lines), "table": 1}.get(piece.kind, min(2, len(lines)))
        if sheet.down > TOP and sheet.down + piece.before + wanted * piece.leading > floor:
            sheets.append(Sheet(kind, continues=piece.kind != "heading" or piece.size < SECTION))
        first = True
        while lines:
            sheet = sheets[-1]
            sheet.down += piece.before if first and sheet.down > TOP else 0
            room = max(1, int((floor - sheet.down) / piece.leading))
            _print(sheet, piece, lines[:room], first=first)
            lines, first = lines[room:], False
            if lines:
                sheets.append(Sheet(kind, continues=True))
        if len(sheets) > most:
            break
    return sheets[:most]


def number(sheet: Sheet, page: int, head: str) -> None:
    """Print number and running head: on left pages the number stands left, on right pages right."""
    sheet.number, sheet.head = str(page), head
    y, size = 44.0, 9.0
    at = MARGIN if page % 2 == 0 else WIDTH - MARGIN - width(str(page), "roman", size)
    middle = (WIDTH - width(head, "roman", size)) / 2
    sheet.placed += [_Placed(at, y, size, "roman", str(page)), _Placed(middle, y, size, "roman", head)]


def written(sheets: list[Sheet]) -> bytes:
    """The sheets as a PDF."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /%s /Encoding /WinAnsiEncoding >>"
    things = [b"", b"", *(font % name.encode() for name in FONTS.values())]
    fonts = b" ".join(b"/%s %d 0 R" % (name.encode(), 3 + place) for place, name in enumerate(FONTS))
    kids: list[int] = []
    for sheet in sheets:
        text = b"BT\n" + b"".join(map(_operators, sheet.placed)) + b"ET"
        things.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(text), text))
        things.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R /Resources << /Font << %s >> >> >>"
            % (WIDTH, HEIGHT, len(things), fonts)
        )
        kids.append(len(things))
    things[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    things[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    out, places = b"%PDF-1.4\n", []
    for place, thing in enumerate(things, 1):
        places.append(len(out))
        out += b"%d 0 obj %s endobj\n" % (place, thing)
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(things) + 1)
    table += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + table + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(things) + 1, len(out))


def width(text: str, font: Font, size: float) -> float:
    return sum(_widths(font)[letter] for letter in text) * size


class _Widths(dict[str, float]):
    """Widths of one font's letters at size 1, asked for once each."""

    def __init__(self, font: Font) -> None:
        self._document = pdfium.PdfDocument.new()
        # Kept as long as widths are asked for; pdfium complains of what is open when the program ends.
        atexit.register(self._document.close)
        self._font: Any = raw.FPDFText_LoadStandardFont(self._document.raw, FONTS[font].encode())

    def __missing__(self, letter: str) -> float:
        found = ctypes.c_float()
        if not raw.FPDFFont_GetGlyphWidth(self._font, ord(letter), 1000.0, found):
            raise ValueError(f"the font has no {letter!r}")
        self[letter] = found.value / 1000
        return self[letter]


@cache
def _widths(font: Font) -> _Widths:
    return _Widths(font)


def _words(spans: tuple[Span, ...]) -> list[_Word]:
    words: list[_Word] = []
    open_end = False
    for span in spans:
        for place, text in enumerate(span.text.split()):
            words.append(_Word(text, span.font, glued=open_end and place == 0 and not span.text[0].isspace()))
        open_end = not span.text[-1].isspace()
    return words


def _broken(piece: Piece) -> list[_Line]:
    """The piece in lines, words broken at their endings where that fills a line better."""
    lines: list[_Line] = []
    row: list[_Word] = []
    aside = width(piece.aside, "roman", piece.size) + 24 if piece.aside else 0.0
    used = piece.indent
    words = _words(piece.spans)
    while words:
        word = words.pop(0)
        space = width(" ", word.font, piece.size) if row and not word.glued else 0.0
        room = TEXT_WIDTH - aside - used - space
        wide = width(word.text, word.font, piece.size)
        if wide <= room or not row:
            row.append(word)
            used += space + wide
            continue
        halves = _halves(word, piece.size, room) if piece.align == "justify" else None
        if halves:
            row.append(replace(word, text=halves[0] + "-"))
        lines.append(_Line(tuple(row), broken=bool(halves)))
        words.insert(0, replace(word, text=halves[1] if halves else word.text, glued=False))
        row, used = [], piece.hang
    return [*lines, _Line(tuple(row), broken=False)]


def _halves(word: _Word, size: float, room: float) -> tuple[str, str] | None:
    for found in reversed(list(_BREAKABLE.finditer(word.text))):
        head, tail = word.text[: found.start()], word.text[found.start() :]
        if width(head + "-", word.font, size) <= room:
            return head, tail
    return None


def _print(sheet: Sheet, piece: Piece, lines: list[_Line], *, first: bool) -> None:
    """Put lines of a piece on the sheet, and write down what they say."""
    text = ""
    for place, line in enumerate(lines):
        sheet.down += piece.leading
        last = place == len(lines) - 1
        _set(sheet, piece, line, indent=piece.indent if first and place == 0 else piece.hang, last=last)
        text += line.text if last else line.text[:-1] if line.broken else f"{line.text} "
    if piece.aside:
        at = WIDTH - MARGIN - width(piece.aside, "roman", piece.size)
        sheet.placed.append(_Placed(at, sheet.down, piece.size, "roman", piece.aside))
        text = f"{text} | {piece.aside}"
    before = sheet.blocks[-1] if sheet.blocks else None
    if before is not None and before.kind == piece.kind and piece.kind in ("list", "table"):
        before.text = f"{before.text}\n{text}"
    else:
        sheet.blocks.append(TextBlock(kind=piece.kind, text=text))
    if first and piece.course is not None:
        sheet.courses.append(_as_printed(piece.course, text) if piece.numbered else piece.course)


def _set(sheet: Sheet, piece: Piece, line: _Line, *, indent: float, last: bool) -> None:
    widths = [width(word.text, word.font, piece.size) for word in line.words]
    gaps = sum(not word.glued for word in line.words[1:])
    gap = width(" ", "roman", piece.size)
    free = TEXT_WIDTH - indent - sum(widths) - gap * gaps
    x = MARGIN + indent
    if piece.align == "centre":
        x = MARGIN + (TEXT_WIDTH - sum(widths) - gap * gaps) / 2
    elif piece.align == "justify" and gaps and (not last or line.broken) and free < TEXT_WIDTH / 3:
        gap += free / gaps
    for place, (word, wide) in enumerate(zip(line.words, widths, strict=True)):
        x += gap if place and not word.glued else 0.0
        sheet.placed.append(_Placed(x, sheet.down, piece.size, word.font, word.text))
        x += wide
    if piece.aside and last:
        end = WIDTH - MARGIN - width(piece.aside, "roman", piece.size) - 8
        while (x := x + 9) < end:
            sheet.placed.append(_Placed(x, sheet.down, piece.size, "roman", "."))


def _as_printed(course: Course, text: str) -> Course:
    """What of a course stands on this page, where the rest of it is on the next one."""
    said = text.split("\u2014", 1)[1].strip() if "\u2014" in text else ""

    def seen(value: str | None) -> str | None:
        return value if value and value in said else None

    return course.model_copy(
        update={
            "level": seen(course.level),
            "term": seen(course.term),
            "hours": seen(course.hours),
            "textbooks": [book for book in course.textbooks if book in said],
            "description": said or None,
        }
    )


def _operators(placed: _Placed) -> bytes:
    text = placed.text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"/%s %.2f Tf 1 0 0 1 %.2f %.2f Tm (%s) Tj\n" % (
        placed.font.encode(), placed.size, placed.x, HEIGHT - placed.y, text,
    )  # fmt: skip
