"""Foreign pictures made harmless: decoded once, by Pillow, within bounds, to grey pixels. Runs in a child process."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from PIL import Image, ImageOps, UnidentifiedImageError

from penstock.paper.unreadable import Unreadable

FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "PPM", "JPEG2000", "AVIF")

MOST_PIXELS = 80_000_000
"""What is decoded at all: A4 at 900 dpi. Grey and colour together need a third of a gigabyte."""

ENOUGH_PIXELS = 16_000_000
"""What is read: A4 at 400 dpi. Finer scans are made smaller, since OCR gets slower but not better."""

LONGEST_SIDE = 30_000
"""Pixels of one side of what is read or shown: OCR and JPEG take little more."""


def frames(data: bytes, *, formats: Sequence[str] = FORMATS) -> Iterator[Image.Image]:
    """The pictures in a file, upright and grey, one at a time: every page of a TIFF, else the first picture."""
    with _opened(data, formats) as image:
        several = image.format == "TIFF"
        _check(image)
        yield _grey(image)
        while several and _next(image):
            _check(image)
            yield _grey(image)


def count(data: bytes, most: int, *, formats: Sequence[str] = FORMATS) -> int:
    """How many pages there are, without decoding them; `Unreadable` if more than `most`, or if one is too large."""
    with _opened(data, formats) as image:
        pages = 1
        _check(image)
        while image.format == "TIFF" and _next(image):
            _check(image)
            pages += 1
            if pages > most:
                raise Unreadable(f"the image has {pages} pages or more; at most {most} are read: split it")
        return pages


def frame(data: bytes, number: int, *, formats: Sequence[str] = FORMATS) -> Image.Image:
    """Page `number` (from 0) upright and in colour, for people to look at."""
    with _opened(data, formats) as image:
        for _ in range(number):
            if image.format != "TIFF" or not _next(image):
                raise Unreadable(f"the image has no page {number + 1}")
        _check(image)
        return _upright(image).convert("RGB")


@contextmanager
def _opened(data: bytes, formats: Sequence[str]) -> Iterator[Image.Image]:
    """The image, not yet decoded; whatever goes wrong with it is `Unreadable`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(data), formats=list(formats)) as image:
                yield image
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise _too_large("") from error
        except UnidentifiedImageError:
            kinds = "neither an image that is read here nor a PDF" if formats is FORMATS else "a damaged image"
            raise Unreadable(f"this is {kinds}") from None
        except Unreadable:
            raise
        except (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, ArithmeticError) as error:
            raise Unreadable(f"the image is damaged: {error}") from error


def within(image: Image.Image, most: int = ENOUGH_PIXELS) -> Image.Image:
    """The picture, made smaller if it has more pixels than are of use."""
    scale = min(1.0, math.sqrt(most / (image.width * image.height)), LONGEST_SIDE / max(image.size))
    if scale == 1.0:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _grey(image: Image.Image) -> Image.Image:
    return within(_upright(image).convert("L"))


def _upright(image: Image.Image) -> Image.Image:
    """Decoded, as the camera was held, on white where it is transparent, with eight bits."""
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):
        upright = upright.point(lambda value: value / 256).convert("L")
    if upright.has_transparency_data:
        opaque = Image.new("RGBA", upright.size, "white")
        upright = Image.alpha_composite(opaque, upright.convert("RGBA"))
    return upright


def _next(image: Image.Image) -> bool:
    try:
        image.seek(image.tell() + 1)
    except EOFError:
        return False
    return True


def _check(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise _too_large(f" of {image.width}×{image.height} pixels")


def _too_large(size: str) -> Unreadable:
    return Unreadable(f"the image{size} is too large: at most {MOST_PIXELS // 1_000_000} million pixels are read")
