"""Writes the sample catalogues into a folder: labels, images, the truth, and a configuration that is ready to run.

The same arguments give the same files. Every file appears whole, and a folder that was left half-written is completed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.engine.errors import InvalidRequest
from penstock.outputs.files import quick_write
from penstock.pipelines.pages.model import PageIdentifier
from penstock.pipelines.pages.prompts.catalogue import CataloguePage, TextBlock
from penstock.pipelines.pages.samples import books as library
from penstock.pipelines.pages.samples import paper
from penstock.pipelines.pages.samples.typesetting import written

Style = Literal["printed", "tiny"]

MARK = ".samples.json"
"""Says how a folder was made, so that two kinds of samples are never mixed."""

MOST_BOOKS, MOST_PAGES = 10_000, 5_000


@dataclass(frozen=True)
class Samples:
    """Where everything is. `pages` are in the order of the books."""

    folder: Path
    pages: tuple[PageIdentifier, ...]

    @property
    def labels(self) -> Path:
        return self.folder / "labels"

    @property
    def images(self) -> Path:
        return self.folder / "images"

    @property
    def output(self) -> Path:
        """Where the configuration sends what is read; not made here."""
        return self.folder / "output"

    @property
    def configuration(self) -> Path:
        return self.folder / "pages.yaml"

    def label_of(self, page: PageIdentifier) -> Path:
        return self.labels / page.folder / f"{page.spelling}.json"

    def image_of(self, page: PageIdentifier) -> Path:
        return self.images / page.folder / f"{page.spelling}.jpg"

    def truth_of(self, page: PageIdentifier) -> CataloguePage:
        """What is printed on the page."""
        return CataloguePage.model_validate_json(self._truth_file(page).read_bytes())

    def _truth_file(self, page: PageIdentifier) -> Path:
        return self.folder / "truth" / page.folder / f"{page.spelling}.json"

    def _files_of(self, page: PageIdentifier) -> tuple[Path, Path, Path]:
        """The label comes last: a page exists once it has one."""
        return self.image_of(page), self._truth_file(page), self.label_of(page)


def make_samples(folder: Path, *, books: int = 2, pages: int = 6, seed: int = 1, style: Style = "printed") -> Samples:
    """`books` invented catalogues of `pages` pages each. `printed` pages look like scans of old print; `tiny` ones
    hold a line each and are made by the hundred in a second, for trying out many pages. Not for two threads at once:
    the renderer is not made for it."""
    for name, value, most in (("books", books, MOST_BOOKS), ("pages", pages, MOST_PAGES)):
        if not 1 <= value <= most:
            raise InvalidRequest(f"{name} must be from 1 to {most:,}, not {value}")
    if style not in ("printed", "tiny"):
        raise InvalidRequest(f"style must be 'printed' or 'tiny', not {style!r}")
    shelf = [library.book(place) for place in range(books)]
    samples = Samples(folder, tuple(book.page(index) for book in shelf for index in range(pages)))
    _mark(folder, {"books": books, "pages": pages, "seed": seed, "style": style})
    for book in shelf:
        mine = [book.page(index) for index in range(pages)]
        missing = [index for index, page in enumerate(mine) if not all(map(_there, samples._files_of(page)))]
        for index, image, truth in _made(book, missing, pages, seed, style):
            contents = (image, _json(truth.model_dump()), _json({"curricular": bool(truth.courses)}))
            for path, content in zip(samples._files_of(mine[index]), contents, strict=True):
                if not _there(path):
                    quick_write(path, content)
    if not _there(samples.configuration):
        quick_write(samples.configuration, _configuration(samples).encode())
    return samples


def _made(
    book: library.Book, missing: list[int], pages: int, seed: int, style: Style
) -> Iterator[tuple[int, bytes, CataloguePage]]:
    if not missing:
        return
    if style == "tiny":
        for index in missing:
            text = f"Page {book.page(index).page} of book {book.place + 1}, {book.year}."
            yield index, paper.tiny(text), _one_line(text)
        return
    sheets = library.sheets(book, pages=pages, seed=seed)
    pdf = written(sheets)
    for index in missing:
        yield index, paper.photographed(pdf, index, (seed, book.place, index)), sheets[index].truth


def _one_line(text: str) -> CataloguePage:
    return CataloguePage(
        page_kind="other",
        printed_page=None,
        headings=[],
        text_blocks=[TextBlock(kind="paragraph", text=text)],
        courses=[],
        continues=None,
    )


def _configuration(samples: Samples) -> str:
    return f"""\
# Two invented college catalogues, ready to be read: penstock pages run -c {samples.configuration.name}
paths:
  label_source_dir: {samples.labels.name}
  image_source_dir: {samples.images.name}
  output_dir: {samples.output.name}
prompt:
  name: course_catalogue
execution:
  batch_size_limit: 4
batch:
  poll_interval_seconds: 1
"""


def _mark(folder: Path, made: dict[str, object]) -> None:
    mark = folder / MARK
    if _there(mark):
        try:
            before = json.loads(mark.read_bytes())
        except ValueError:
            before = None
        if before != made:
            raise InvalidRequest(
                f"{folder} holds other samples ({mark.name} says {before}): choose another folder, or remove it first"
            )
    else:
        quick_write(mark, _json(made))


def _there(path: Path) -> bool:
    """An empty file is what a crash of the machine may leave."""
    return path.is_file() and path.stat().st_size > 0


def _json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
