"""What child processes do for the local Gemini: bytes of a foreign file in, pages as JSON (or pictures) out."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pypdfium2 as pdfium  # type: ignore[import-untyped]
from PIL import Image

from penstock.paper import images, ocr, pdf
from penstock.paper.page import Page, to_json
from penstock.paper.unreadable import Unreadable
from penstock.remote.pool.pages import page_done

ONE_PAGE = 60.0
"""Seconds for the OCR of one page; an ordinary one takes one or two."""

MUCH = 8 * 2**20
"""Bytes of pages that are handed in before the next page is begun."""


def read_document(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The pages of the image or PDF in `blobs[0]` as a blob of JSON, from page `first` on, until `seconds` have passed
    or there is much to hand in: then `next` is the page to go on with. A document of more than `pages` pages is
    refused rather than cut. `formats` are Pillow's names for what an image may be, None for a PDF; without it the file
    is what it looks like."""
    (data,) = blobs
    until = time.monotonic() + args.get("seconds", 20.0)
    pages: list[bytes] = []
    at = args.get("first", 0)
    with closing(_pages(data, at, args["pages"], _formats(args, data))) as coming:
        for page in coming:
            pages.append(json.dumps(to_json(page), ensure_ascii=False, separators=(",", ":")).encode())
            at += 1
            if time.monotonic() >= until or sum(map(len, pages)) > MUCH:
                return {"next": at}, [b"[" + b",".join(pages) + b"]"]
    return {"next": None}, [b"[" + b",".join(pages) + b"]"]


def render_document(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The pages of an image or PDF as JPEGs, for models that take nothing else; `formats` as in `read_document`."""
    (data,) = blobs
    pictures: list[bytes] = []
    for image in _pictures(data, args["pages"], _formats(args, data)):
        out = io.BytesIO()
        images.within(image, 4_000_000).save(out, "JPEG", quality=85)
        pictures.append(out.getvalue())
    return {"mime": "image/jpeg"}, pictures


def is_pdf(data: bytes) -> bool:
    """By the mark that may stand anywhere in the first kilobyte."""
    return b"%PDF-" in data[:1024]


def _formats(args: Mapping[str, Any], data: bytes) -> Sequence[str] | None:
    formats: Sequence[str] | None = args.get("formats", None if is_pdf(data) else images.FORMATS)
    return formats


def _pages(data: bytes, first: int, most: int, formats: Sequence[str] | None) -> Generator[Page, None, None]:
    if formats is not None:
        for number, image in enumerate(images.frames(data, formats=formats)):
            checked_pages(number + 1, most)
            if number >= first:
                page_done()
                yield ocr.read_image(image, timeout=ONE_PAGE)
        return
    with pdf.opened(data) as document:
        checked_pages(len(document), most)
        for number in range(first, len(document)):
            page_done()
            with closing(loaded(document, number)) as page:
                yield _read_pdf_page(page)


def _pictures(data: bytes, most: int, formats: Sequence[str] | None) -> Iterator[Image.Image]:
    if formats is not None:
        for number, image in enumerate(images.frames(data, formats=formats)):
            checked_pages(number + 1, most)
            page_done()
            yield image
        return
    with pdf.opened(data) as document:
        checked_pages(len(document), most)
        for number in range(len(document)):
            page_done()
            with closing(loaded(document, number)) as page:
                yield pdf.picture(page)


def _read_pdf_page(page: pdfium.PdfPage) -> Page:
    own = pdf.page_text(page)
    if own is not None:
        return own
    if pdf.is_blank(page):
        return Page(*pdf.pixels(page), (), "text")
    return ocr.read_image(pdf.picture(page), timeout=ONE_PAGE, dpi=pdf.DPI)


def loaded(document: pdfium.PdfDocument, number: int) -> pdfium.PdfPage:
    try:
        return document[number]
    except pdfium.PdfiumError as error:
        raise Unreadable(f"page {number + 1} of the PDF is damaged: send it anew, or printed to a new PDF") from error


def checked_pages(pages: int, most: int) -> int:
    if pages > most:
        raise Unreadable(f"the document has {pages} pages or more; at most {most} are read: split it")
    if pages == 0:
        raise Unreadable("the PDF has no pages")
    return pages
