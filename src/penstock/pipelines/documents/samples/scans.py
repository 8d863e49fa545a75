"""From a PDF to what a scanner or a telephone makes of it: rendered by pdfium, laid on the glass a little askew,
blurred, grainy, with shadows and now and then a stamp. The same seed gives the same picture."""

from __future__ import annotations

import io
import random
from typing import Any, Literal

import numpy as np
import pypdfium2 as pdfium  # type: ignore[import-untyped]
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from reportlab.lib.utils import ImageReader  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

MOST_SKEW = 1.4
"""Degrees."""

DPI = 150
FAX_DPI = 200

Form = Literal["png", "jpg", "pdf"]


def scanned(pdf: bytes, form: Form, seed: str, *, stamp: str | None = None, dpi: int = DPI) -> bytes:
    """The document as one picture, or as a PDF that is nothing but pictures."""
    rng = random.Random(seed)
    pages = [
        _worn(page, rng, stamp if place == 0 else None) for place, page in enumerate(_rendered(pdf, dpi, grey=False))
    ]
    if form == "pdf":
        return _picture_pdf([_jpeg(page, rng, dpi) for page in pages], dpi)
    if form == "jpg":
        return _jpeg(pages[0], rng, dpi)
    out = io.BytesIO()
    pages[0].save(out, "PNG", compress_level=1, dpi=(dpi, dpi))
    return out.getvalue()


def faxed(pdf: bytes, seed: str) -> bytes:
    """Every page in black and white, in one TIFF."""
    rng = random.Random(seed)
    worn = [_worn(page, rng, None) for page in _rendered(pdf, FAX_DPI, grey=True)]
    first, *others = [page.point(lambda light: 255 if light > 150 else 0).convert("1") for page in worn]
    out = io.BytesIO()
    first.save(
        out, "TIFF", save_all=True, append_images=others, compression="group4", dpi=(FAX_DPI, FAX_DPI)
    )  # fmt: skip
    return out.getvalue()


def _rendered(pdf: bytes, dpi: int, *, grey: bool) -> list[Image.Image]:
    document = pdfium.PdfDocument(pdf)
    pages = []
    try:
        for page in document:
            bitmap = page.render(scale=dpi / 72, rev_byteorder=True, grayscale=grey)
            pages.append(bitmap.to_pil().convert("L" if grey else "RGB"))
            bitmap.close()
            page.close()
    finally:
        document.close()
    return pages


def _worn(page: Image.Image, rng: random.Random, stamp: str | None) -> Image.Image:
    if stamp:
        _stamp(page, rng, stamp)
    grey = rng.random() < 0.5 or page.mode == "L"
    page = page.convert("L") if grey else page
    page = page.rotate(
        rng.uniform(-MOST_SKEW, MOST_SKEW), Image.Resampling.BICUBIC, fillcolor=250 if grey else (250,) * 3
    )
    page = page.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.8)))
    high, wide = page.height, page.width
    light = _shade(rng, high, wide)
    noise = np.random.default_rng(rng.randrange(2**32)).standard_normal((high, wide), dtype=np.float32)
    noise *= np.float32(rng.uniform(1.5, 5.0))
    pixels: Any = np.asarray(page, np.float32)
    if not grey:
        light, noise = light[..., None], noise[..., None]
    return Image.fromarray(np.clip(pixels * light + noise, 0, 255).astype(np.uint8))


def _shade(rng: random.Random, high: int, wide: int) -> Any:
    """Uneven light, and the shadow of the lid or of a hand along one edge."""
    coarse = np.array([[rng.uniform(0.9, 1.0) for _ in range(4)] for _ in range(5)], np.float32)
    light: Any = np.asarray(Image.fromarray(coarse).resize((wide, high), Image.Resampling.BICUBIC), np.float32)
    if rng.random() < 0.6:
        away = np.linspace(0, 1, wide, dtype=np.float32)
        away = away if rng.random() < 0.5 else away[::-1]
        light = light * (1 - np.float32(rng.uniform(0.1, 0.3)) * np.exp(-away * np.float32(rng.uniform(8, 20))))
    return light


def _stamp(page: Image.Image, rng: random.Random, text: str) -> None:
    """A rubber stamp below the print of a short invoice, somewhat turned."""
    font = ImageFont.load_default(size=page.width / 32)
    left, top, right, bottom = font.getbbox(text)
    ink = Image.new("L", (int(right - left) + 40, int(bottom - top) + 36))
    pen = ImageDraw.Draw(ink)
    pen.rectangle((3, 3, ink.width - 4, ink.height - 4), outline=150, width=4)
    pen.text((20 - left, 18 - top), text, fill=160, font=font)
    ink = ink.rotate(rng.uniform(-14, 14), Image.Resampling.BICUBIC, expand=True)
    colour = rng.choice(((170, 30, 40), (30, 50, 150)))
    place = (int(page.width * rng.uniform(0.36, 0.5)), int(page.height * rng.uniform(0.72, 0.8)))
    page.paste(colour, (*place, place[0] + ink.width, place[1] + ink.height), ink)


def _jpeg(page: Image.Image, rng: random.Random, dpi: int) -> bytes:
    out = io.BytesIO()
    page.save(out, "JPEG", quality=rng.randint(55, 85), dpi=(dpi, dpi))
    return out.getvalue()


def _picture_pdf(pictures: list[bytes], dpi: int) -> bytes:
    out = io.BytesIO()
    canvas = Canvas(out, invariant=1)
    for picture in pictures:
        with Image.open(io.BytesIO(picture)) as opened:
            size = (opened.width * 72 / dpi, opened.height * 72 / dpi)
        canvas.setPageSize(size)
        canvas.drawImage(ImageReader(io.BytesIO(picture)), 0, 0, *size)
        canvas.showPage()
    canvas.save()
    return out.getvalue()
