"""PDFs through pdfium: a page's own text where it has one that is worth reading, else its picture. Runs in a child
process."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import pypdfium2 as pdfium  # type: ignore[import-untyped]
import pypdfium2.raw as raw  # type: ignore[import-untyped]
from PIL import Image

from penstock.paper.images import ENOUGH_PIXELS
from penstock.paper.page import Box, Line, Page, Word
from penstock.paper.unreadable import Unreadable

DPI = 200
"""A4 gives 1654×2339 pixels, which OCR reads as well as 300 dpi in half the time."""

MOST_CHARACTERS = 300_000
"""On one page; a page of a telephone book has ten thousand."""

STAMP = 100
"""Fewer letters than this on a page that is one picture are a stamp or a page number, not its text."""

_HYPHENS = (0x02, 0xFFFE)


@contextmanager
def opened(data: bytes) -> Iterator[pdfium.PdfDocument]:
    """The document; what is written into its form fields is drawn too."""
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            raise Unreadable("the PDF is locked with a password; send it unlocked") from None
        raise Unreadable(f"the PDF is damaged and cannot be opened ({error})") from None
    try:
        document.init_forms()
        yield document
    finally:
        document.close()


def page_text(page: pdfium.PdfPage) -> Page | None:
    """The page's own text, or None where it is better read from its picture."""
    text = page.get_textpage()
    try:
        count = text.count_chars()
        if count > MOST_CHARACTERS:
            raise Unreadable(f"a page of the PDF holds {count} characters; at most {MOST_CHARACTERS} are read")
        codes = [raw.FPDFText_GetUnicode(text.raw, index) for index in range(count)]
        if not _worth_reading(codes, page):
            return None
        size = pixels(page)
        return Page(*size, tuple(_lines(_words(page, text, codes, size))), "text")
    finally:
        text.close()


def is_blank(page: pdfium.PdfPage) -> bool:
    """Whether there is nothing on the page at all, so that there is no picture to look at."""
    return next(iter(page.get_objects(max_depth=1)), None) is None and raw.FPDFPage_GetAnnotCount(page.raw) == 0


def picture(page: pdfium.PdfPage) -> Image.Image:
    """The page in grey, at 200 dpi or as many as the bound on pixels allows."""
    width, height = page.get_size()
    scale = min(DPI / 72, math.sqrt(ENOUGH_PIXELS / max(width * height, 1e-6)))
    try:
        bitmap = page.render(scale=scale, grayscale=True)
    except (pdfium.PdfiumError, ValueError) as error:
        raise Unreadable(f"a page of the PDF cannot be drawn ({error})") from error
    image: Image.Image = bitmap.to_pil().convert("L")
    bitmap.close()
    return image


def pixels(page: pdfium.PdfPage) -> tuple[int, int]:
    """The size of a page at 200 dpi, in which the boxes of its own text are given."""
    width, height = page.get_size()
    return max(1, round(width * DPI / 72)), max(1, round(height * DPI / 72))


def _worth_reading(codes: list[int], page: pdfium.PdfPage) -> bool:
    """Not where a font gives no letters (its codes mean nothing outside it), nor where the text is a stamp on a
    scan."""
    letters = [code for code in codes if code > 32]
    nonsense = sum(code == 0xFFFD or 0xE000 <= code <= 0xF8FF or 127 <= code < 160 for code in letters)
    nonsense += sum(code < 32 and code not in (2, 9, 10, 13) for code in codes)
    if not letters or nonsense > len(letters) / 5:
        return False
    return len(letters) >= STAMP or not _is_scan(page)


def _is_scan(page: pdfium.PdfPage) -> bool:
    width, height = page.get_size()
    for thing in islice(page.get_objects(filter=(raw.FPDF_PAGEOBJ_IMAGE,), max_depth=3), 200):
        left, bottom, right, top = thing.get_bounds()
        if (right - left) * (top - bottom) > width * height / 2:
            return True
    return False


def _words(
    page: pdfium.PdfPage, text: pdfium.PdfTextPage, codes: list[int], size: tuple[int, int]
) -> Iterator[Word | None]:
    """Words in pdfium's order, None at the end of each line."""
    start: int | None = None
    for index, code in enumerate([*codes, 10]):
        if (code > 32 and code != 0xA0) or code in _HYPHENS:
            start = index if start is None else start
            continue
        if start is not None:
            yield Word(_spelled(codes[start:index]), _box(page, text, range(start, index), size))
            start = None
        if code in (10, 13):
            yield None


def _spelled(codes: list[int]) -> str:
    units = b"".join(_unit(0x2D if code in _HYPHENS else code) for code in codes)
    return units.decode("utf-16-le", errors="replace")


def _unit(code: int) -> bytes:
    return chr(code).encode("utf-16-le", errors="surrogatepass")


def _box(page: pdfium.PdfPage, text: pdfium.PdfTextPage, characters: range, size: tuple[int, int]) -> Box:
    boxes = [text.get_charbox(index) for index in characters]
    corners = (
        _to_pixels(page, min(box[0] for box in boxes), min(box[1] for box in boxes), size),
        _to_pixels(page, max(box[2] for box in boxes), max(box[3] for box in boxes), size),
    )
    (x, y), (other_x, other_y) = corners
    return min(x, other_x), min(y, other_y), max(x, other_x), max(y, other_y)


def _to_pixels(page: pdfium.PdfPage, x: float, y: float, size: tuple[int, int]) -> tuple[int, int]:
    """pdfium's own conversion, which knows about turned and cut pages."""
    across, down = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page.raw, 0, 0, *size, 0, x, y, across, down)
    return across.value, down.value


def _lines(words: Iterator[Word | None]) -> Iterator[Line]:
    """Lines with a new paragraph after a gap, and a new block where the text goes on further up: a column."""
    block = paragraph = 1
    last: Line | None = None
    row: list[Word] = []
    for word in words:
        if word is not None:
            row.append(word)
            continue
        if not row:
            continue
        line = Line(tuple(row), block, paragraph)
        if last is not None:
            height = max(1, last.box[3] - last.box[1])
            if line.box[3] < last.box[1]:
                block, paragraph = block + 1, 1
            elif line.box[1] - last.box[3] > height:
                paragraph += 1
            line = Line(line.words, block, paragraph)
        yield line
        last, row = line, []
