"""PDFs through pdfium: a page's own text where it has one that is worth reading, else its picture. Runs in a child
process."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

import pypdfium2 as pdfium  # type: ignore[import-untyped]
import pypdfium2.raw as raw  # type: ignore[import-untyped]
from PIL import Image

from penstock.paper.images import ENOUGH_PIXELS, LONGEST_SIDE
from penstock.paper.page import Box, Line, Page, Word
from penstock.paper.unreadable import Unreadable

DPI = 200
"""A4 gives 1654×2339 pixels, which OCR reads as well as 300 dpi in half the time."""

MOST_CHARACTERS = 300_000
"""On one page; a page of a telephone book has ten thousand."""

STAMP = 100
"""Fewer letters than this on a page that is one picture are a stamp or a page number, not its text."""

_HYPHENS = {0x02: "-", 0xFFFE: "-"}
"""What pdfium gives for a hyphen at the end of a line."""

_LETTERS = re.compile("[^\x00-\x20]+")
_NONSENSE = re.compile("[\x00\x01\x03-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]+")
_UNSURE = re.compile("[\x00\ud800-\udfff\U00010000-\U0010ffff]")
_WORD_OR_END = re.compile(r"[^\x00\x01\x03-\x20\xa0]+|[\r\n]")

Extent = tuple[float, float, float, float]
Converter = Callable[[float, float, float, float], Box]


@contextmanager
def opened(data: bytes, *, forms: bool = True) -> Iterator[pdfium.PdfDocument]:
    """The document; with `forms` what is written into its form fields is drawn too."""
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if _opens(data):
            raise Unreadable("the PDF has no pages: send it anew") from None
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            raise Unreadable("the PDF is locked with a password: send it unlocked") from None
        raise Unreadable("the PDF is damaged and cannot be opened: send it anew, or printed to a new PDF") from error
    try:
        if forms:
            document.init_forms()
        yield document
    finally:
        document.close()


def _opens(data: bytes) -> bool:
    """Whether pdfium takes the file: then it was refused for want of pages, and the code of the error is that of some
    file before it."""
    document = raw.FPDF_LoadMemDocument64(data, len(data), None)
    if document:
        raw.FPDF_CloseDocument(document)
    return bool(document)


def page_text(page: pdfium.PdfPage) -> Page | None:
    """The page's own text, or None where it is better read from its picture."""
    text = page.get_textpage()
    try:
        count = text.count_chars()
        if count > MOST_CHARACTERS:
            raise Unreadable(f"a page of the PDF holds {count} characters; at most {MOST_CHARACTERS} are read")
        characters = _characters(text, count)
        if not _worth_reading(characters, page):
            return None
        size = pixels(page)
        return Page(*size, tuple(_lines(_words(text, characters, _converter(page, size)))), "text")
    finally:
        text.close()


def is_blank(page: pdfium.PdfPage) -> bool:
    """Whether there is nothing on the page at all, so that there is no picture to look at."""
    return next(iter(page.get_objects(max_depth=1)), None) is None and raw.FPDFPage_GetAnnotCount(page.raw) == 0


def picture(page: pdfium.PdfPage) -> Image.Image:
    """The page in grey, at 200 dpi or as many as the bounds on pixels allow."""
    return _rendered(page, DPI / 72, grayscale=True).convert("L")


def drawn(page: pdfium.PdfPage, width: int, *, on_its_side: bool = False) -> Image.Image:
    """The page in colour, so many pixels across, or up and down for one that will be turned; fewer where the bounds on
    pixels say so."""
    across = page.get_size()[1 if on_its_side else 0]
    return _rendered(page, width / max(across, 1e-6), grayscale=False).convert("RGB")


def _rendered(page: pdfium.PdfPage, scale: float, *, grayscale: bool) -> Image.Image:
    width, height = page.get_size()
    bounds = (math.sqrt(ENOUGH_PIXELS / max(width * height, 1e-6)), LONGEST_SIDE / max(width, height, 1e-6))
    try:
        bitmap = page.render(scale=min(scale, *bounds), grayscale=grayscale, rev_byteorder=not grayscale)
    except (pdfium.PdfiumError, ValueError) as error:
        raise Unreadable(f"a page of the PDF cannot be drawn ({error})") from error
    image: Image.Image = bitmap.to_pil().copy()
    bitmap.close()
    return image


def pixels(page: pdfium.PdfPage) -> tuple[int, int]:
    """The size of a page at 200 dpi, in which the boxes of its own text are given."""
    width, height = page.get_size()
    return max(1, round(width * DPI / 72)), max(1, round(height * DPI / 72))


def _worth_reading(characters: str, page: pdfium.PdfPage) -> bool:
    """Not where a font gives no letters (its codes mean nothing outside it), nor where the text is a stamp on a
    scan."""
    letters = sum(map(len, _LETTERS.findall(characters)))
    nonsense = sum(map(len, _NONSENSE.findall(characters)))
    if not letters or nonsense > letters / 5:
        return False
    return letters >= STAMP or not _is_scan(page)


def _is_scan(page: pdfium.PdfPage) -> bool:
    width, height = page.get_size()
    for thing in islice(page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=3), 200):
        left, bottom, right, top = thing.get_bounds()
        if (right - left) * (top - bottom) > width * height / 2:
            return True
    return False


def _characters(text: pdfium.PdfTextPage, count: int) -> str:
    """What stands at each place, in UTF-16 units. One call for all of them is ten times as quick as a call for each,
    but leaves out those that mean nothing outside their font; then the places would not fit."""
    units = (ctypes.c_ushort * (2 * count + 2))()
    got = raw.FPDFText_GetText(text.raw, 0, count, units)
    characters = bytes(units)[: 2 * count].decode("utf-16-le", errors="surrogatepass")
    if got == count + 1 and not _UNSURE.search(characters):
        return characters
    return "".join(chr(raw.FPDFText_GetUnicode(text.raw, index)) for index in range(count))


def _words(text: pdfium.PdfTextPage, characters: str, to_pixels: Converter) -> Iterator[Word | None]:
    """Words in pdfium's order, None at the end of each line."""
    extent = _measure(text.raw)
    for found in _WORD_OR_END.finditer(characters):
        spelled = found[0]
        if spelled in "\r\n":
            yield None
            continue
        if not spelled.isascii() or "\x02" in spelled:
            hyphened = spelled.translate(_HYPHENS)
            spelled = hyphened.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="replace")
        yield Word(spelled, to_pixels(*extent(*found.span())))
    yield None


def _measure(text: ctypes.c_void_p) -> Callable[[int, int], Extent]:
    """A function that tells what is around some characters, on the page: left, bottom, right, top. pdfium gives a box
    for each stretch of one font."""
    left, top, right, bottom = ctypes.c_double(), ctypes.c_double(), ctypes.c_double(), ctypes.c_double()
    places = [ctypes.byref(each) for each in (left, top, right, bottom)]
    count_boxes, get_box = raw.FPDFText_CountRects, raw.FPDFText_GetRect

    def box(number: int) -> Extent | None:
        found = get_box(text, number, *places) and right.value > left.value
        return (left.value, bottom.value, right.value, top.value) if found else None

    def extent(start: int, end: int) -> Extent:
        count = count_boxes(text, start, end - start)
        if count == 1 and (only := box(0)) is not None:
            return only
        boxes = [found for number in range(count) if (found := box(number)) is not None]
        boxes = boxes or [_char_box(text, index) for index in range(start, end)]
        lefts, bottoms, rights, tops = zip(*boxes, strict=True)
        return min(lefts), min(bottoms), max(rights), max(tops)

    return extent


def _char_box(text: ctypes.c_void_p, index: int) -> Extent:
    left, right, bottom, top = ctypes.c_double(), ctypes.c_double(), ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharBox(text, index, left, right, bottom, top)
    return left.value, bottom.value, right.value, top.value


def _converter(page: pdfium.PdfPage, size: tuple[int, int]) -> Converter:
    """From the page to pixels. pdfium knows about turned and cut pages; asked for three far corners it tells the whole
    conversion, which is one of turning, stretching and shifting."""
    far = 1e5
    (x0, y0), (x1, y1), (x2, y2) = (_to_pixels(page, x, y, size) for x, y in ((0.0, 0.0), (far, 0.0), (0.0, far)))
    across_x, down_x, across_y, down_y = (x1 - x0) / far, (y1 - y0) / far, (x2 - x0) / far, (y2 - y0) / far

    def to_pixels(left: float, bottom: float, right: float, top: float) -> Box:
        x, y = round(x0 + left * across_x + bottom * across_y), round(y0 + left * down_x + bottom * down_y)
        other_x, other_y = round(x0 + right * across_x + top * across_y), round(y0 + right * down_x + top * down_y)
        if x > other_x:
            x, other_x = other_x, x
        return (x, y, other_x, other_y) if y <= other_y else (x, other_y, other_x, y)

    return to_pixels


def _to_pixels(page: pdfium.PdfPage, x: float, y: float, size: tuple[int, int]) -> tuple[int, int]:
    across, down = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page.raw, 0, 0, *size, 0, x, y, across, down)
    return across.value, down.value


def _lines(words: Iterator[Word | None]) -> Iterator[Line]:
    """Lines with a new paragraph after a gap, and a new block where the text goes on further up: a column."""
    block = paragraph = 1
    last: tuple[int, int] | None = None
    row: list[Word] = []
    for word in words:
        if word is not None:
            row.append(word)
            continue
        if not row:
            continue
        top, bottom = min(each.box[1] for each in row), max(each.box[3] for each in row)
        if last is not None:
            if bottom < last[0]:
                block, paragraph = block + 1, 1
            elif top - last[1] > max(1, last[1] - last[0]):
                paragraph += 1
        yield Line(tuple(row), block, paragraph)
        last, row = (top, bottom), []
