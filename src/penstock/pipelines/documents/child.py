"""What the pool's processes do with documents: look at a file, read its pages, draw one of them. Only here are foreign
files opened."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from PIL import Image
from pydantic_core import from_json

from penstock.paper import attachments, images, pdf, reading
from penstock.paper.page import from_json as page_from_json
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents import checks, einvoice
from penstock.pipelines.documents.judging import JUDGEMENT
from penstock.pipelines.documents.kinds import HEAD, Kind, kind_of, refusal
from penstock.pipelines.documents.model import InvoiceData
from penstock.remote.pool.pages import page_done

WIDEST = 3000
"""Pixels across that a preview may have."""


def inspect_document(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The kind of the file in `blobs[0]`, its pages (at most `pages`), and the e-invoice in it: its name as `xml`, what
    it says as `invoice`, why that cannot be used as `trouble`, and its bytes as a blob."""
    (data,) = blobs
    kind = _kind(data)
    formats = _formats(kind)
    if formats is not None:
        return {"kind": kind, "pages": images.count(data, args["pages"], formats=formats)}, []
    with pdf.opened(data, forms=False) as document:
        count = reading.checked_pages(len(document), args["pages"])
        found = attachments.first(document, einvoice.is_named, einvoice.looks_like)
    told: dict[str, Any] = {"kind": kind, "pages": count}
    if found is None:
        return told, []
    told["xml"] = found.name
    if found.content is None:
        return {**told, "trouble": f"The e-invoice in the document, {found.name}, {found.trouble}."}, []
    try:
        told["invoice"] = einvoice.read_xml(found.content).model_dump_json()
    except einvoice.NotAnInvoice as error:
        told["trouble"] = f"The e-invoice in the document, {found.name}, cannot be read: {error}."
    return told, [found.content]


def read_pages(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The pages as `penstock.paper.reading` reads them, of a file that is what its first bytes say."""
    return reading.read_document({**args, "formats": _counted(blobs[0], args)}, blobs)


def judge_data(args: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, Any]:
    """What `data` are worth beside pages that `read_pages` gave: `checks.judge`, and by how much pages were turned."""
    pages = [page_from_json(page) for blob in blobs for page in from_json(blob)]
    data = InvoiceData.model_validate_json(args["data"])
    judged = checks.judge(data, pages, source=args["source"], refused=args["refused"])
    return {"judgement": JUDGEMENT.dump_json(judged).decode(), "turns": [page.turned for page in pages]}


def draw_pages(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Every page as a grey JPEG, for models that do not take files of this kind."""
    return reading.render_document({**args, "formats": _counted(blobs[0], args)}, blobs)


def draw_page(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[None, list[bytes]]:
    """Page `page` as a JPEG of at most `width` pixels across, turned as it was when it was read."""
    (data,) = blobs
    width = min(max(int(args["width"]), 1), WIDEST)
    page_done()
    image = _drawn(data, args["page"], args["pages"], width, args["turned"])
    if args["turned"]:
        image = image.rotate(args["turned"], expand=True)
    image.thumbnail((width, images.LONGEST_SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=80)
    return None, [out.getvalue()]


def _drawn(data: bytes, number: int, most: int, width: int, turned: int) -> Image.Image:
    formats = _formats(_kind(data))
    if formats is not None:
        return images.frame(data, _placed(number, most), formats=formats)
    with pdf.opened(data) as document:
        count = reading.checked_pages(len(document), most)
        with closing(reading.loaded(document, _placed(number, count))) as page:
            return pdf.drawn(page, width, on_its_side=turned % 180 != 0)


def _counted(data: bytes, args: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What `penstock.paper.reading` wants to know. Pages of a picture are counted before any of them is read."""
    formats = _formats(_kind(data))
    if formats is not None and not args.get("first"):
        images.count(data, args["pages"], formats=formats)
    return formats


def _placed(number: int, count: int) -> int:
    if not 1 <= number <= count:
        raise Unreadable(f"There is no page {number}: the document has {count}.")
    return number - 1


def _kind(data: bytes) -> Kind:
    kind = kind_of(data[:HEAD])
    if kind is None:
        raise Unreadable(refusal(data[:HEAD]))
    return kind


def _formats(kind: Kind) -> tuple[str, ...] | None:
    """Pillow's names: only the decoder of this kind is let at the file. None for a PDF."""
    return None if kind == "pdf" else (kind.upper(),)
