"""Sample PDFs of several pages, with questions whose answers stand on one page each. A page of one of them is a scan:
a picture without any text. The same arguments give the same files."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass
from pathlib import Path

import pypdfium2 as pdfium  # type: ignore[import-untyped]
from PIL import Image, ImageFilter
from reportlab.lib.utils import ImageReader, simpleSplit  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.ingestion.samples.papers import PAPERS, Paper, Sheet
from penstock.pipelines.ingestion.samples.sites import written

SIZE = (420.0, 595.0)
"""A5, in points."""

MARGIN = 48.0
SCAN_DPI = 170


@dataclass(frozen=True, slots=True)
class PdfQuestion:
    """`answer` stands word for word on page `page`, counted from 1."""

    text: str
    answer: str
    page: int


@dataclass(frozen=True, slots=True)
class SamplePdf:
    """`scanned` are the pages that are pictures."""

    path: Path
    title: str
    pages: int
    questions: tuple[PdfQuestion, ...]
    scanned: tuple[int, ...] = ()


def make_pdfs(folder: Path, *, count: int = 3, seed: int = 7) -> list[SamplePdf]:
    """So many documents; the third (or the last) ends with a scanned page."""
    rng = random.Random(f"pdfs:{seed}")
    most = sum(len(paper.names) for paper in PAPERS)
    if not 1 <= count <= most:
        raise InvalidRequest(f"count must be from 1 to {most}, not {count}")
    names = [rng.sample(paper.names, len(paper.names)) for paper in PAPERS]
    made: list[SamplePdf] = []
    turn = 0
    while len(made) < count:
        kind = turn % len(PAPERS)
        turn += 1
        if names[kind]:
            made.append(_made(folder, PAPERS[kind], names[kind].pop(), rng, scan=len(made) == min(2, count - 1)))
    return made


def _made(folder: Path, paper: Paper, name: str, rng: random.Random, *, scan: bool) -> SamplePdf:
    facts = {fact: rng.choice(choices) for fact, choices in paper.facts.items()} | {"name": name}
    title = paper.title.format(**facts)
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=SIZE, invariant=1)
    canvas.setTitle(title)
    canvas.setAuthor("Penstock samples")
    last = len(paper.sheets)
    for number, sheet in enumerate(paper.sheets, 1):
        if scan and number == last:
            canvas.drawImage(ImageReader(_scanned(title, sheet, facts, number, last)), 0, 0, *SIZE)
        else:
            _drawn(canvas, title, sheet, facts, number, last)
        canvas.showPage()
    canvas.save()
    path = folder / f"{title.lower().replace(' & ', ' ').replace(' ', '-')}.pdf"
    written(path, out.getvalue())
    questions = tuple(
        PdfQuestion(sheet.asks[0].format(**facts), sheet.asks[1].format(**facts), number)
        for number, sheet in enumerate(paper.sheets, 1)
    )
    return SamplePdf(path, title, last, questions, (last,) if scan else ())


def _drawn(canvas: Canvas, title: str, sheet: Sheet, facts: dict[str, str], number: int, last: int) -> None:
    width, height = SIZE
    canvas.setFont("Helvetica", 8)
    canvas.drawString(MARGIN, height - 30, title)
    canvas.drawCentredString(width / 2, 26, f"Page {number} of {last}")
    canvas.line(MARGIN, height - 36, width - MARGIN, height - 36)
    canvas.setFont("Helvetica-Bold", 15)
    canvas.drawString(MARGIN, height - 76, sheet.heading)
    canvas.setFont("Times-Roman", 11)
    y = height - 104
    for paragraph in sheet.paragraphs:
        for line in simpleSplit(paragraph.format(**facts), "Times-Roman", 11, width - 2 * MARGIN):
            canvas.drawString(MARGIN, y, line)
            y -= 14
        y -= 9


def _scanned(title: str, sheet: Sheet, facts: dict[str, str], number: int, last: int) -> io.BytesIO:
    """What a scanner makes of the page: grey, a little soft, a hair askew."""
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=SIZE, invariant=1)
    _drawn(canvas, title, sheet, facts, number, last)
    canvas.save()
    document = pdfium.PdfDocument(out.getvalue())
    try:
        picture: Image.Image = document[0].render(scale=SCAN_DPI / 72, grayscale=True).to_pil().convert("L")
    finally:
        document.close()
    worn = picture.rotate(0.4, Image.Resampling.BICUBIC, fillcolor=250).filter(ImageFilter.GaussianBlur(0.5))
    scan = io.BytesIO()
    worn.save(scan, "JPEG", quality=70, dpi=(SCAN_DPI, SCAN_DPI))
    scan.seek(0)
    return scan
