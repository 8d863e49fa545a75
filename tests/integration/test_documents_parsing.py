"""Foreign documents through the pool: what is good is read, what is hostile ends as one error with words for a person,
and the next document is read as if nothing had been."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy
import pytest
from bench import documents_robust as robust
from PIL import Image

from penstock.engine.errors import InvalidRequest, Transient
from penstock.paper import pdf
from penstock.paper.page import Page
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents.einvoice import EInvoice
from penstock.pipelines.documents.parsing import Inspected, Parser
from penstock.pipelines.documents.samples import sample
from penstock.remote.pool import PoolClosed, PoolLimits, ProcessPool
from penstock.remote.pool.tree import descendants, memory
from tests.support import hostile

SHARED = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))
WORDS = "Invoice 4711\nTotal 119.00 EUR"
FACTURX = (
    b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2" '
    b'xmlns:c="urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2"><c:ID>U-1</c:ID></Invoice>'
)
TIGHT = PoolLimits(seconds=20, memory_mb=96)


@dataclass(frozen=True)
class Outcome:
    inspected: Inspected | Exception
    pages: list[Page] | Exception

    @property
    def text(self) -> list[str]:
        assert isinstance(self.pages, list), self.pages
        return [page.text.replace("\n\n", "\n") for page in self.pages]

    @property
    def error(self) -> str:
        """The one error: of inspection, or of reading where inspection had nothing to object."""
        error = self.inspected if isinstance(self.inspected, Exception) else self.pages
        assert isinstance(error, Unreadable), error
        assert str(error).endswith(".") and "Error" not in str(error) and "penstock" not in str(error)
        return str(error)


def lettering() -> Image.Image:
    return hostile.lettering("Invoice 4711")


def wide_png() -> bytes:
    dots = numpy.asarray(lettering()).astype("uint16") * 257
    return hostile.saved(Image.fromarray(dots), "PNG")


def see_through() -> bytes:
    ink = Image.new("RGBA", lettering().size, (0, 0, 0, 0))
    ink.paste((0, 0, 0, 255), mask=lettering().point(lambda value: 255 - value))
    return hostile.saved(ink, "PNG")


GOOD: dict[str, Callable[[], bytes]] = {
    "text": lambda: hostile.text_pdf(WORDS, "Page two"),
    "junk before": lambda: b"Received: from scanner\r\n\r\n" + hostile.text_pdf(WORDS),
    "empty password": lambda: hostile.text_pdf(WORDS, password=""),
    "jpeg cmyk": lambda: hostile.saved(lettering().convert("CMYK"), "JPEG"),
    "png of 16 bits": wide_png,
    "png see-through": see_through,
    "tiff of two": lambda: hostile.saved(lettering(), "TIFF", [hostile.lettering("Page two")]),
    "gif animated": lambda: hostile.saved(lettering(), "GIF", [hostile.lettering("Another")]),
    "webp": lambda: hostile.saved(lettering(), "WEBP"),
    "bmp": lambda: hostile.saved(Image.new("L", (1, 1)), "BMP"),
    "xref loop": hostile.xref_loop,
    "a page that says it is many": lambda: hostile.page_count(2_000_000),
    "tiff loop": hostile.tiff_loop,
    "thin": lambda: hostile.raw_pdf(hostile.one_page(hostile.stream(b"0 0 m 9 9 l S"), box=b"0 0 1 14400")),
}
BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "locked": (lambda: hostile.text_pdf(WORDS, password="secret"), "locked with a password: send it unlocked"),
    "empty": (lambda: b"", "empty"),
    "office": (lambda: b"PK\x03\x04" + b"x" * 100, "ZIP archive"),
    "no pages": (lambda: sample(1, kind="hostile", trouble="no_pages")[0], "The PDF has no pages"),
    "torn pdf": (lambda: hostile.text_pdf(WORDS)[:400], "damaged"),
    "torn end": (lambda: hostile.text_pdf(WORDS)[:-200], "damaged"),
    "page loop": (hostile.page_loop, "Page 1 of the PDF is damaged"),
    "many pages": (lambda: hostile.text_pdf(*["x"] * 51), "51 pages or more; at most 50"),
    "many pictures": (lambda: hostile.saved(Image.new("L", (9, 9)), "TIFF", [Image.new("L", (9, 9))] * 50), "51 pages"),
    "content bomb": (lambda: hostile.content_bomb(200 * 2**20), "more memory than it may (96 MB)"),
    "attachment bomb": (lambda: hostile.attachment_bomb(200 * 2**20), "more memory than it may (96 MB)"),
    "form bomb": (lambda: hostile.form_bomb(12, 12), "more memory than it may (96 MB)"),
    "png that says it is huge": (lambda: hostile.png_header(60_000, 60_000), "too large: at most 80 million pixels"),
    "torn png": (lambda: hostile.png_header(200, 200), "damaged"),
    "torn jpeg": (lambda: hostile.saved(lettering(), "JPEG")[:900], "damaged"),
    "png in name only": (lambda: b"\x89PNG\r\n\x1a\n" + hostile.text_pdf(WORDS), "damaged"),
}


def test_a_pdf_without_pages_is_not_told_to_be_what_the_one_before_it_was() -> None:
    for trouble, told in (("locked", "locked with a password"), ("no_pages", "has no pages"), ("truncated", "damaged")):
        content, _ = sample(1, kind="hostile", trouble=trouble)  # type: ignore[arg-type]
        with pytest.raises(Unreadable, match=told), pdf.opened(content):
            pass


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All of them through one pool, the good ones between the bad ones."""
    folder = tmp_path_factory.mktemp("foreign")

    async def main() -> dict[str, Outcome]:
        async with ProcessPool(2) as pool:
            plain, tight = Parser(pool), Parser(pool, looking=TIGHT, reading=TIGHT)
            named = {**{name: (make, plain) for name, make in GOOD.items()}}
            named |= {name: (make, tight if "bomb" in name else plain) for name, (make, _) in BAD.items()}
            order = sorted(named)
            ended = await asyncio.gather(
                *(
                    outcome(parser, folder / f"{number}.pdf", make())
                    for number, (make, parser) in enumerate(named[name] for name in order)
                )
            )
            return dict(zip(order, ended, strict=True))

    return asyncio.run(main())


async def outcome(parser: Parser, path: Path, content: bytes) -> Outcome:
    """The name always says PDF, and never matters."""
    path.write_bytes(content)
    inspected = await tried(parser.inspect(path))
    return Outcome(inspected, await tried(parser.pages(path)))


async def tried(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as error:
        return error


def with_parser(scenario: Callable[[Parser, ProcessPool], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with ProcessPool(1) as pool:
            await scenario(Parser(pool, **options), pool)

    asyncio.run(main())


@pytest.mark.parametrize("name", GOOD)
def test_what_can_be_read_is_read(name: str, outcomes: dict[str, Outcome]) -> None:
    ended = outcomes[name]
    assert isinstance(ended.inspected, Inspected) and ended.inspected.pages == len(ended.text)
    silent = name in ("bmp", "xref loop", "a page that says it is many", "tiff loop", "thin")
    first = "" if silent else WORDS if ended.inspected.kind == "pdf" else "Invoice 4711"
    assert ended.text[0] == first
    assert ended.text[1:] == (["Page two"] if name in ("text", "tiff of two") else [])


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_one_error_with_words_for_a_person(name: str, outcomes: dict[str, Outcome]) -> None:
    assert BAD[name][1] in outcomes[name].error


def test_a_call_that_takes_too_long_is_stopped_and_the_next_one_works(tmp_path: Path) -> None:
    slow, good = tmp_path / "slow", tmp_path / "good"
    slow.write_bytes(hostile.form_bomb(12, 12))
    good.write_bytes(hostile.text_pdf(WORDS))

    async def scenario(parser: Parser, pool: ProcessPool) -> None:
        assert (await parser.inspect(good)).pages == 1
        before = memory(os.getpid())
        with pytest.raises(Unreadable, match=r"takes longer to read than it may \(0.2 s\)"):
            await parser.preview(slow, 1)
        assert len(await parser.pages(good)) == 1
        assert memory(os.getpid()) - before < 100 * 2**20

    with_parser(scenario, drawing=PoolLimits(seconds=0.2))


def test_files_that_are_gone_too_large_or_no_files(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"%PDF-" + b" " * 2**20)

    async def scenario(parser: Parser, pool: ProcessPool) -> None:
        for path, why in ((tmp_path / "gone", "no file gone"), (tmp_path, "is no file"), (large, r"1.0 MB; at most")):
            with pytest.raises(Unreadable, match=why):
                await parser.inspect(path)
        assert pool.state.started == 0, "no process was asked"
        await pool.close()
        large.write_bytes(hostile.text_pdf(WORDS))
        with pytest.raises(PoolClosed):
            await parser.inspect(large)

    with_parser(scenario, largest_file=2**20)


def test_an_e_invoice_is_found_by_its_name_or_by_what_it_is(tmp_path: Path) -> None:
    plain = hostile.text_pdf(WORDS)
    order = b"<order-x>" + b" " * 100 + b"</order-x>"
    cases: dict[str, tuple[dict[str, bytes], str | None, str | None]] = {
        "named": ({"terms.pdf": plain, "ZUGFeRD-invoice.xml": FACTURX}, "ZUGFeRD-invoice.xml", None),
        "by content": ({"order-x.xml": order, "data.XML": FACTURX}, "data.XML", None),
        "name and content": ({"a.xml": FACTURX, "factur-x.xml": FACTURX}, "factur-x.xml", None),
        "only an order": ({"order-x.xml": order}, None, None),
        "not XML": (
            {"factur-x.xml": b"nothing"},
            "factur-x.xml",
            "factur-x.xml, cannot be read: it is not well-formed",
        ),
        "no invoice": ({"factur-x.xml": b"<html/>"}, "factur-x.xml", "it is not an invoice but 'html'"),
        "too large": ({"factur-x.xml": b"<x>" + b" " * (8 * 2**20)}, "factur-x.xml", "larger than the 8 MB"),
        "empty": ({"factur-x.xml": b" "}, "factur-x.xml", "no element found"),
    }

    async def scenario(parser: Parser, pool: ProcessPool) -> None:
        for case, (files, name, trouble) in cases.items():
            path = tmp_path / case
            path.write_bytes(hostile.with_attachments(plain, files))
            found = await parser.inspect(path)
            assert found.xml_name == name, case
            if name is None:
                assert (found.xml, found.invoice, found.trouble) == (None, None, None), case
            elif trouble is None:
                assert found.xml == FACTURX and found.trouble is None, case
                assert found.invoice is not None and found.invoice.data.invoice_number == "U-1", case
            else:
                assert found.invoice is None and trouble in str(found.trouble), case

    with_parser(scenario)


@pytest.mark.parametrize("turned", [0, 180])
@pytest.mark.parametrize("kind", ["pdf", "turned pdf", "png"])
def test_the_preview_stands_as_the_page_was_read(kind: str, turned: int, tmp_path: Path) -> None:
    """Within the boxes of the words is ink, and hardly any outside them."""
    path = tmp_path / "page"
    if kind == "png":
        picture = hostile.lettering("Invoice 4711\nTotal 119.00 EUR\nThank you very much", (700, 260))
        path.write_bytes(hostile.saved(picture.rotate(turned), "PNG"))
    else:
        path.write_bytes(hostile.text_pdf(WORDS, rotate=(90 if kind == "turned pdf" else 0) + turned))

    async def scenario(parser: Parser, pool: ProcessPool) -> None:
        (page,) = await parser.pages(path)
        assert page.turned == (turned if kind == "png" else 0)
        shown = Image.open(io.BytesIO(await parser.preview(path, 1, width=500, turned=page.turned))).convert("L")
        assert shown.width == 500 and abs(shown.height / shown.width - page.height / page.width) < 0.01
        dots = numpy.asarray(shown) < 128
        inked = dots.sum()
        words = [word for line in page.lines for word in line.words]
        assert "4711" in [word.text for word in words]
        for word in words:
            left, top, right, bottom = (round(edge * 500 / page.width) for edge in word.box)
            assert dots[top:bottom, left:right].any(), word
            dots[max(0, top - 4) : bottom + 4, max(0, left - 4) : right + 4] = False
        assert dots.sum() <= inked / 50

    with_parser(scenario)


def test_previews_of_other_pages_and_pages_that_are_not_there(tmp_path: Path) -> None:
    pdf, tiff = tmp_path / "pdf", tmp_path / "tiff"
    pdf.write_bytes(hostile.text_pdf("one", "two"))
    tiff.write_bytes(hostile.saved(Image.new("RGB", (50, 80), "red"), "TIFF", [Image.new("RGB", (50, 80), "blue")]))

    async def scenario(parser: Parser, pool: ProcessPool) -> None:
        for path in (pdf, tiff):
            assert len({await parser.preview(path, page) for page in (1, 2)}) == 2
            for page in (0, 3):
                with pytest.raises(Unreadable, match="no page"):
                    await parser.preview(path, page)
        blue = Image.open(io.BytesIO(await parser.preview(tiff, 2, turned=90)))
        colour = blue.convert("RGB").getpixel((10, 10))
        assert blue.size == (80, 50) and isinstance(colour, tuple) and colour[2] > 200 > 50 > colour[0]
        assert len(await parser.pictures(tiff)) == 2
        with pytest.raises(InvalidRequest):
            await parser.preview(pdf, 1, turned=45)

    with_parser(scenario)


async def hit(name: str, number: signal.Signals, until: asyncio.Future[Any]) -> None:
    """Send a signal to every process below us with this in its command line, as soon as it is there."""
    while not until.done():
        for pid in descendants(os.getpid()):
            try:
                if name in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, number)
            except OSError:
                continue
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("name", "number", "kind", "why"),
    [
        ("penstock.remote.pool.child", signal.SIGSEGV, Unreadable, "crashes the program that reads it"),
        ("penstock.remote.pool.child", signal.SIGKILL, Transient, "ended by SIGKILL"),
        ("tesseract", signal.SIGSEGV, Unreadable, "OCR engine gave up"),
    ],
)
def test_a_crash_of_the_reader_is_the_files_fault_and_a_kill_is_the_machines(
    name: str, number: signal.Signals, kind: type[Exception], why: str, tmp_path: Path
) -> None:
    scan = tmp_path / "scan"
    scan.write_bytes(hostile.saved(lettering(), "PNG"))

    async def scenario(parser: Parser, pool: ProcessPool) -> None:
        reading = asyncio.ensure_future(parser.pages(scan))
        await hit(name, number, reading)
        with pytest.raises(kind, match=why):
            await reading
        assert [page.text for page in await parser.pages(scan)] == ["Invoice 4711"]

    with_parser(scenario)


def shared(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not here: set PENSTOCK_DATA to the folder that holds it")
    return folder


def test_every_odd_locked_or_broken_pdf_ends_as_its_category_says(capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared("pdf_robust")
    before = memory(os.getpid())
    ended, peak = asyncio.run(robust.run(robust.listed(folder), folder, previews=False))
    with capsys.disabled():
        print(f"\n{robust.report(ended)}")
    assert len(ended) == 122 and not [f"{row.file}: {row.wrong}" for row in ended if row.wrong]
    assert peak < before / 2**20 + 2 * robust.LIMITS.memory_mb
    assert memory(os.getpid()) - before < 64 * 2**20, "this process has kept what it was sent"


def test_every_well_formed_e_invoice_is_read_whole(capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared("zugferd_invoices")
    rows = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    found: dict[str, Inspected | Exception] = {}

    async def scenario(parser: Parser, pool: ProcessPool) -> None:
        for row in rows:
            found[row["file"]] = await tried(parser.inspect(folder / row["file"]))

    with_parser(scenario)
    right: dict[str, list[int]] = {}
    wrong: list[str] = []
    for row in rows:
        ended = found[row["file"]]
        if "truth" not in row:
            wrong += [] if failed_cleanly(row, ended) else [f"{row['file']}: {ended}"]
            continue
        assert isinstance(ended, Inspected) and ended.invoice is not None, f"{row['file']}: {ended}"
        assert ended.xml == (folder / row["xml"]).read_bytes() and ended.invoice.refused == {}
        for field, (ours, truth) in compared(ended.invoice, row["truth"]).items():
            count = right.setdefault(field, [0, 0])
            count[0] += ours == truth
            count[1] += 1
            wrong += [] if ours == truth else [f"{row['file']}: {field}: {ours} and not {truth}"]
    with capsys.disabled():
        print("\n" + "\n".join(f"{field:15} {good:3} of {of:3}" for field, (good, of) in right.items()))
    assert not wrong and all(of == 30 for _, of in right.values())


def failed_cleanly(row: dict[str, Any], ended: Inspected | Exception) -> bool:
    """No XML, XML that is damaged, or a file that is: none of them gives data, and the last two say so."""
    if isinstance(ended, Exception):
        return isinstance(ended, Unreadable) and "page_truth" not in row
    return ended.invoice is None and ("xml" not in row or ended.trouble is not None)


def compared(invoice: EInvoice, truth: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Ours and the truth, by field. Notes among the lines are no items, and names are on one line."""
    data, totals = invoice.data, truth["totals"]
    rates = {tax["rate"] for tax in truth["taxes"]}
    lines = [line for line in truth["lines"] if line["line_total"] is not None]
    return {
        "vendor": (data.vendor, " ".join(truth["vendor"]["name"].split())),
        "invoice_number": (data.invoice_number, truth["invoice_number"]),
        "date": (data.date and data.date.isoformat(), truth["issue_date"]),
        "due_date": (data.due_date and data.due_date.isoformat(), truth["due_date"]),
        "subtotal": (data.subtotal, exact(totals["net"])),
        "tax_rate": (data.tax_rate, exact(rates.pop()) if len(rates) == 1 else None),
        "tax_amount": (data.tax_amount, exact(totals["tax"])),
        "total": (data.total, exact(totals["gross"])),
        "currency": (data.currency, truth["currency"]),
        "line_items": (
            [(line.item, line.quantity, line.unit_price, line.total) for line in data.line_items],
            [
                (
                    " ".join(line["name"].split()),
                    *map(exact, (line["quantity"], line["unit_price_net"], line["line_total"])),
                )
                for line in lines
            ],
        ),
        "type_code": (invoice.type_code, truth["type_code"]),
        "profile": (invoice.profile, truth["profile"]),
        "buyer": (invoice.buyer, " ".join(truth["buyer"]["name"].split())),
        "payable": (invoice.payable, exact(totals["due"])),
    }


def exact(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(str(value))
