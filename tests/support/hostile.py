"""Files that do harm, and ones that are merely odd, made from nothing: for tests of what reads documents."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence

import pypdfium2 as pdfium
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas


def text_pdf(*pages: str, password: str | None = None, rotate: int = 0) -> bytes:
    """Pages with these words; with a password, even an empty one, it is encrypted."""
    out = io.BytesIO()
    locked = None if password is None else StandardEncryption(password, ownerPassword="owner", strength=128)
    sheet = canvas.Canvas(out, pagesize=(400, 300), invariant=1, encrypt=locked)
    for text in pages:
        sheet.setPageRotation(rotate)
        for number, line in enumerate(text.splitlines()):
            sheet.drawString(40, 250 - 20 * number, line)
        sheet.showPage()
    sheet.save()
    return out.getvalue()


def with_attachments(pdf: bytes, files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    document = pdfium.PdfDocument(pdf)
    for name, content in files.items():
        document.new_attachment(name).set_data(content)
    document.save(out)
    document.close()
    return out.getvalue()


def raw_pdf(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Objects 1, 2, … as they are given, the first being the catalogue."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<</Size %d/Root 1 0 R%b>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(out)


def stream(content: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(content, 9)
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(packed), entries, packed)


def zeros(size: int, entries: bytes = b"") -> bytes:
    """A stream that unpacks to so many bytes, of spaces."""
    packer = zlib.compressobj(1)
    chunk = b" " * 2**20
    packed = b"".join(packer.compress(chunk) for _ in range(size // 2**20)) + packer.flush()
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(packed), entries, packed)


def one_page(content: bytes, *others: bytes, box: bytes = b"0 0 400 300", resources: bytes = b"") -> list[bytes]:
    """The objects of a page; `others` begin at number 5."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[%b]/Resources<<%b>>/Contents 4 0 R>>" % (box, resources)
    return [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page, content, *others]


def content_bomb(size: int) -> bytes:
    return raw_pdf(one_page(zeros(size)))


def attachment_bomb(size: int) -> bytes:
    names = b"<</Type/Catalog/Pages 2 0 R/Names<</EmbeddedFiles<</Names[(factur-x.xml) 6 0 R]>>>>>>"
    spec = b"<</Type/Filespec/F(factur-x.xml)/UF(factur-x.xml)/EF<</F 5 0 R>>>>"
    objects = one_page(stream(b""), zeros(size, b"/Type/EmbeddedFile"), spec)
    return raw_pdf([names, *objects[1:]])


def form_bomb(depth: int, wide: int) -> bytes:
    """Drawings that call drawings: `wide` to the power of `depth` lines in a kilobyte."""

    def form(number: int) -> bytes:
        if number == depth:
            return stream(b"0 0 m 400 300 l S " * 50, b"/Type/XObject/Subtype/Form/BBox[0 0 400 300]")
        inner = b"/Resources<</XObject<</F %d 0 R>>>>" % (5 + number + 1)
        return stream(b"/F Do " * wide, b"/Type/XObject/Subtype/Form/BBox[0 0 400 300]" + inner)

    forms = [form(number) for number in range(depth + 1)]
    return raw_pdf(one_page(stream(b"/F Do"), *forms, resources=b"/XObject<</F 5 0 R>>"))


def image_bomb(side: int) -> bytes:
    """A picture of `side` by `side` dots on a page, packed in a few kilobytes."""
    entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8" % (side, side)
    drawn = one_page(stream(b"400 0 0 300 0 0 cm /I Do"), zeros(2**20, entries), resources=b"/XObject<</I 5 0 R>>")
    return raw_pdf(drawn)


def page_loop() -> bytes:
    pages = b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>"
    return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", pages])


def page_count(count: int) -> bytes:
    """One page that says it is a million."""
    objects = one_page(stream(b""))
    return raw_pdf([objects[0], b"<</Type/Pages/Kids[3 0 R]/Count %d>>" % count, *objects[2:]])


def xref_loop() -> bytes:
    """Its table of contents says that the one before it is itself."""
    plain = raw_pdf(one_page(stream(b"")))
    start = plain.rindex(b"xref\n0")
    return raw_pdf(one_page(stream(b"")), b"/Prev %d" % start)


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and holds nothing."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\x00" * 1000))
        + chunk(b"IEND", b"")
    )


def lettering(text: str, size: tuple[int, int] = (560, 120)) -> Image.Image:
    image = Image.new("L", size, "white")
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(text.splitlines()):
        pen.text((30, 30 + 50 * number), line, fill="black", font=ImageFont.load_default(36))
    return image


def saved(image: Image.Image, kind: str, others: Sequence[Image.Image] = ()) -> bytes:
    out = io.BytesIO()
    if others:
        image.save(out, kind, save_all=True, append_images=list(others))
    else:
        image.save(out, kind)
    return out.getvalue()


def tiff_loop() -> bytes:
    """A page whose next page is itself."""
    tiff = bytearray(saved(Image.new("L", (20, 20), "white"), "TIFF"))
    at = int.from_bytes(tiff[4:8], "little")
    entries = int.from_bytes(tiff[at : at + 2], "little")
    tiff[at + 2 + 12 * entries : at + 6 + 12 * entries] = at.to_bytes(4, "little")
    return bytes(tiff)
