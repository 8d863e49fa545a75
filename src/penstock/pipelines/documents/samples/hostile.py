"""Files that are not what they claim to be, or that would do harm if they were trusted. They are made from a good
invoice, so that what is readable of them has a truth."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Literal, get_args

from reportlab.lib.pdfencrypt import StandardEncryption  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

from penstock.pipelines.documents.samples import facturx

Trouble = Literal[
    "truncated",
    "text",
    "web_page",
    "empty",
    "locked",
    "no_pages",
    "huge_picture",
    "cut_picture",
    "entities_in_xml",
    "broken_xml",
]
TROUBLES: tuple[Trouble, ...] = get_args(Trouble)

READABLE: frozenset[Trouble] = frozenset(("entities_in_xml", "broken_xml"))
"""Their page is a good one; only the e-invoice inside must not be believed."""


def spoiled(trouble: Trouble, pdf: bytes, xml: bytes, picture: Callable[[], bytes]) -> tuple[bytes, str]:
    """The bytes and the ending of the file's name. `pdf` is a good invoice, `xml` its e-invoice, `picture` its scan."""
    match trouble:
        case "truncated":
            return pdf[: len(pdf) // 3], "pdf"
        case "text":
            return b"Invoice 4711\nTotal: 100.00 EUR\n", "pdf"
        case "web_page":
            return b"<!DOCTYPE html>\n<title>Session expired</title><p>Please log in to see your invoice.</p>\n", "pdf"
        case "empty":
            return b"", "pdf"
        case "locked":
            return _locked(), "pdf"
        case "no_pages":
            return _without_pages(), "pdf"
        case "huge_picture":
            return _huge(60_000, 60_000), "png"
        case "cut_picture":
            whole = picture()
            return whole[: len(whole) // 2], "png"
        case "entities_in_xml":
            return facturx.carried(pdf, _laughing(xml), "BASIC"), "pdf"
        case "broken_xml":
            return facturx.carried(pdf, xml[: len(xml) // 2], "BASIC"), "pdf"


def _locked() -> bytes:
    """Opens with a password only."""
    out = io.BytesIO()
    canvas = Canvas(out, invariant=1, encrypt=StandardEncryption("secret", ownerPassword="owner", strength=40))
    canvas.drawString(72, 720, "Invoice")
    canvas.save()
    return out.getvalue()


def _without_pages() -> bytes:
    bodies = (b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>")
    out, table = bytearray(b"%PDF-1.4\n"), b"0000000000 65535 f \n"
    for number, body in enumerate(bodies):
        table += b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number + 1, body)
    at = len(out)
    out += b"xref\n0 3\n%strailer\n<< /Size 3 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (table, at)
    return bytes(out)


def _huge(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes that claims billions of pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(1_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _laughing(xml: bytes) -> bytes:
    """Entities that grow to a billion letters where they are expanded."""
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    declared = f'<!DOCTYPE x [<!ENTITY l0 "ha">{levels}]>\n'.encode()
    head, _, rest = xml.partition(b"?>\n")
    return head + b"?>\n" + declared + rest.replace(b"<ram:Name>", b"<ram:Name>&l9;", 1)
