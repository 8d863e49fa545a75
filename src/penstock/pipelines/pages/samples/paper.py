"""From type to an old page: rendered by pdfium, laid on the glass a little askew, on yellowed paper with specks, and
kept as a JPEG. The same seed gives the same picture."""

from __future__ import annotations

import io

import numpy as np
import pypdfium2 as pdfium  # type: ignore[import-untyped]
from PIL import Image, ImageDraw, ImageFilter, ImageFont

DPI = 200
MOST_SKEW = 1.0
"""Degrees."""

_FRAME = (400, 200)


def photographed(pdf: bytes, sheet: int, seed: tuple[int, ...]) -> bytes:
    """One page of a PDF as the JPEG of a scan."""
    document = pdfium.PdfDocument(pdf)
    try:
        page = document[sheet]
        grey: Image.Image = page.render(scale=DPI / 72, grayscale=True).to_pil()
        page.close()
    finally:
        document.close()
    return _jpeg(aged(grey, seed))


def aged(grey: Image.Image, seed: tuple[int, ...]) -> Image.Image:
    """Skew, uneven ink, the grain and tint of paper, the shadow of the fold, specks."""
    rng = np.random.default_rng(seed)
    skew = float(rng.uniform(-MOST_SKEW, MOST_SKEW))
    grey = grey.rotate(skew, Image.Resampling.BICUBIC, fillcolor=255)
    grey = grey.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.4, 0.8))))
    high, wide = grey.height, grey.width
    light = np.asarray(grey, np.float32) * np.float32(1 / 255)
    ink = np.float32(rng.uniform(0.12, 0.25))
    light = ink + light * (1 - ink)
    light *= _cloud(rng, high, wide, 0.94, 1.0)
    across = np.linspace(0, 1, wide, dtype=np.float32)
    fold = across if rng.random() < 0.5 else 1 - across
    light *= 1 - np.float32(0.25) * np.exp(-fold * 25)
    light += rng.standard_normal((high, wide), dtype=np.float32) * np.float32(0.02)
    tint = np.array([rng.uniform(236, 248), rng.uniform(224, 236), rng.uniform(196, 212)], np.float32)
    picture = Image.fromarray(np.clip(light[..., None] * tint, 0, 255).astype(np.uint8), "RGB")
    _speckle(picture, rng)
    return picture


def tiny(text: str) -> bytes:
    """One line of type and nothing else, made in a millisecond."""
    picture = Image.new("L", _FRAME, 250)
    ImageDraw.Draw(picture).text((24, 84), text, fill=20, font=ImageFont.load_default(size=24))
    return _jpeg(picture)


def _cloud(rng: np.random.Generator, high: int, wide: int, low: float, top: float) -> np.ndarray:
    """Slow changes of light over the page."""
    coarse = Image.fromarray(rng.integers(0, 255, (6, 4), dtype=np.uint8), "L").resize(
        (wide, high), Image.Resampling.BICUBIC
    )
    return np.float32(low) + np.asarray(coarse, np.float32) * np.float32((top - low) / 255)


def _speckle(picture: Image.Image, rng: np.random.Generator) -> None:
    pen = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(40, 120))):
        x, y, size = int(rng.integers(picture.width)), int(rng.integers(picture.height)), int(rng.integers(0, 3))
        shade = int(rng.integers(60, 170))
        pen.ellipse((x, y, x + size, y + size), fill=(shade, shade - 10, shade - 25))


def _jpeg(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=82, dpi=(DPI, DPI))
    return out.getvalue()
