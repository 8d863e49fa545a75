"""The local Gemini's reader of invoices, on files: through the backend, on scans that are hard to read, and on real
invoices where those are at hand."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path

import pytest
from bench.documents_accuracy import (
    WANTED,
    Score,
    mixed_table,
    pages_of,
    plain_receipts,
    receipts_table,
    zugferd_pages_table,
)
from PIL import Image, ImageDraw, ImageFont

from penstock.gemini_local.backend import CannotAnswer, Part, Turn
from penstock.gemini_local.backend import Prompt as Asked
from penstock.gemini_local.backends.local import LocalBackend
from penstock.paper.ocr import bands_turned, read_image
from penstock.pipelines.documents.prompt import INSTRUCTION, AskedInvoice
from penstock.pipelines.documents.reader import invoice_on
from penstock.pipelines.documents.samples import make_samples

SHARED = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))

RECEIPTS = 2
"""Drawn of the 24, since they take seconds each; all are read by `python -m bench.documents_accuracy`."""


def shared(name: str) -> Path:
    if not (SHARED / name).is_dir():
        pytest.skip(f"{name} is not here: set PENSTOCK_DATA to the folder that holds it")
    return SHARED


def drawn(size: tuple[int, int], *texts: tuple[int, int, str, int], ground: int = 255) -> Image.Image:
    """A picture of texts at (left, top) in a shade of grey."""
    image = Image.new("L", size, ground)
    pen = ImageDraw.Draw(image)
    for left, top, text, shade in texts:
        pen.text((left, top), text, fill=shade, font=ImageFont.load_default(size=26))
    return image


def test_the_backend_answers_what_is_asked_about_an_invoice(tmp_path: Path) -> None:
    (sample,) = make_samples(tmp_path, count=1, seed=4, kinds=["pdf"])
    document = Part(data=sample.path.read_bytes(), mime="application/pdf")

    def asking(*parts: Part) -> Asked:
        return Asked("gemini-2.5-flash", (Turn("user", parts),), schema=AskedInvoice.model_json_schema())

    async def ask() -> str:
        backend = LocalBackend(workers=1)
        try:
            with pytest.raises(CannotAnswer, match="send a PDF, or an image of each page"):
                await backend.generate(asking(Part(text=INSTRUCTION)))
            return (await backend.generate(asking(Part(text=INSTRUCTION), document))).text
        finally:
            await backend.close()

    answer = AskedInvoice.model_validate(json.loads(asyncio.run(ask())))
    assert answer.invoice_number == sample.truth.invoice_number
    assert answer.date == str(sample.truth.date) and answer.currency == sample.truth.currency
    assert answer.total == f"{sample.truth.total:f}"


def test_invoices_of_our_own_making_are_read_right(tmp_path: Path) -> None:
    samples = make_samples(tmp_path, count=24, seed=3, kinds=["pdf"])
    wrong = []
    for sample in samples:
        answer = invoice_on(pages_of(sample.path))
        truth = sample.truth
        given = (answer.invoice_number, answer.date, answer.currency, answer.total)
        if given != (truth.invoice_number, str(truth.date), truth.currency, f"{truth.total:f}"):
            wrong.append((sample.path.name, given))
    assert len(wrong) <= 1, wrong


def test_light_print_on_a_dark_band_is_read() -> None:
    """The head of a table, which the engine passes over as it stands."""
    values = (60, 420, "34278587", 0), (420, 420, "18 June 2017", 0), (800, 420, "$56,651.49", 0)
    page = drawn((1200, 900), (60, 60, "Contour Supplies Ltd", 0), *values)
    head = (10, 20, "Invoice Number", 255), (370, 20, "Invoice Date", 255), (750, 20, "Total", 255)
    band = drawn((1080, 80), *head, ground=110)
    page.paste(band, (50, 300))
    found = invoice_on([read_image(page, timeout=60)])
    assert (found.invoice_number, found.date, found.total) == ("34278587", "2017-06-18", "56651.49")


def test_a_page_without_dark_bands_is_left_as_it_is() -> None:
    page = drawn((1200, 900), (60, 60, "Contour Supplies Ltd", 0))
    assert bands_turned(page) is page
    shadow = page.copy()
    shadow.paste(40, (0, 0, 60, 900))
    assert bands_turned(shadow) is shadow, "what reaches the edge is the shadow beside the page"


def test_faint_print_on_a_grey_slip_is_read() -> None:
    """Worn thermal paper: the ground is uneven and the print hardly darker."""
    texts = ["HOLLOW REED STATIONERY LTD", "12 Mill Lane", "Receipt no. 20931", "Date 25-03-2018", "Pens", "Paper",
             "Ink", "Subtotal 30.00", "VAT 20% 6.00", "Total 36.00", "Cash 40.00", "Change 4.00",
             "Thank you"]  # fmt: skip
    slip = Image.linear_gradient("L").resize((560, 1400)).point([205 + value // 6 for value in range(256)])
    pen = ImageDraw.Draw(slip)
    for at, text in enumerate(texts):
        shade = 150 + at * 5
        pen.text((40, 60 + 100 * at), text, fill=shade, font=ImageFont.load_default(size=26))
    page = read_image(slip, timeout=60)
    assert (page.width, page.height) == slip.size
    assert all(0 <= edge <= 1400 for line in page.lines for edge in line.box), "boxes are those of the picture"
    found = invoice_on([page])
    assert (found.total, found.date, found.invoice_number) == ("36.00", "2018-03-25", "20931")


def test_a_picture_of_nothing_gives_nulls() -> None:
    page = read_image(Image.new("L", (300, 600), 255), timeout=60)
    assert set(invoice_on([page]).model_dump(exclude={"line_items"}).values()) == {None}


def told(capsys: pytest.CaptureFixture[str], name: str, score: Score) -> None:
    with capsys.disabled():
        print(f"\n{name}\n{score.printed()}")


def test_most_of_many_vendors_invoices_is_read_right(capsys: pytest.CaptureFixture[str]) -> None:
    score = mixed_table(shared("invoices_mixed"))
    told(capsys, "invoices_mixed", score)
    assert sum(score.scored[name] for name in ("vendor", "invoice_number", "date", "total", "currency")) == 103
    assert score.share() >= WANTED, score.wrong
    traps = [row for row in score.wrong if row[1] == "total"]
    assert traps == [], "what is due was taken for the total"


def test_the_pages_of_e_invoices_are_read_right_without_what_is_inside(capsys: pytest.CaptureFixture[str]) -> None:
    score = zugferd_pages_table(shared("zugferd_invoices"))
    told(capsys, "zugferd_invoices, pages only", score)
    assert score.share() >= 0.95, score.wrong


def test_hard_receipts_are_read_no_worse_than_plain_tesseract_sees_them(capsys: pytest.CaptureFixture[str]) -> None:
    data = shared("receipts_sroie")
    names = sorted(path.stem for path in (data / "receipts_sroie" / "key").glob("*.json"))
    drawn_names = random.Random(1).sample(names, RECEIPTS)
    score, plain = receipts_table(data, only=drawn_names), plain_receipts(data, only=drawn_names)
    told(capsys, f"receipts_sroie, {drawn_names}", score)
    told(capsys, "what plain Tesseract's text of them holds", plain)
    fields = ("vendor", "date", "total")
    assert sum(score.right[name] for name in fields) >= sum(plain.right[name] for name in fields), score.wrong
