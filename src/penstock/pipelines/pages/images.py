"""A page's image: where it lies, whether Gemini can be given it, and a PNG of it where it is a TIFF, which Gemini does
not take. Foreign files are only looked at here; what parses them is another process, with limits."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import io
import math
import os
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.errors import Permanent
from penstock.outputs.files import atomic_write, fingerprint
from penstock.remote.gemini.limits import FILE_BYTES
from penstock.remote.pool import PoolLimits, ProcessPool

if TYPE_CHECKING:
    from PIL import Image

    from penstock.pipelines.pages.model import PageIdentifier

EXTENSIONS = ("jpg", "jpeg", "png", "webp", "tif", "tiff")
"""The first that is there is taken."""

LARGEST_TIFF = 300 * 2**20
MOST_PIXELS = 80_000_000
"""What is decoded at all: A4 at 900 dpi."""
ENOUGH_PIXELS = 16_000_000
"""What is sent: A4 at 400 dpi. Gemini makes pictures smaller than that before it looks at them."""
LIMITS = PoolLimits(seconds=120, memory_mb=1024, answer_mb=128)

_LOOKED_AT = 32
_HEIC = frozenset((b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"))


class UnreadableImage(ValueError):
    """No picture can be made of the file. The message is for its owner."""


def find_image(image_root: Path, page: PageIdentifier) -> Path | None:
    """The image of a page. Only the page's own spelling counts: `14.jpg` is not the image of `0014.json`."""
    if any(name in ("", ".", "..") or "/" in name or "\x00" in name for name in (page.state, page.school)):
        return None
    folder, name = image_root / page.folder, page.spelling
    for extension in EXTENSIONS:
        for spelled in (extension, extension.upper()):
            path = folder / f"{name}.{spelled}"
            if _is_file(path):
                return path
    return _in_any_case(folder, name)


def _in_any_case(folder: Path, name: str) -> Path | None:
    """`14.Jpg` is rare, so the folder is listed only when all else is missing."""
    wanted = {f"{name}.{extension}": rank for rank, extension in enumerate(EXTENSIONS)}
    found: list[tuple[int, str]] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        found = sorted(
            (wanted[entry.name.lower()], entry.name)
            for entry in entries
            if entry.name.lower() in wanted and entry.is_file()
        )
    return folder / found[0][1] if found else None


def _is_file(path: Path) -> bool:
    """What is there but cannot be reached counts: `image_problem` says why, where "missing" would mislead."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno in (errno.EACCES, errno.ELOOP):
            return True
        raise


def image_problem(path: Path) -> str | None:
    """Why this file cannot be sent, or None. It looks at the size and the first bytes, so it is cheap, and does not
    know whether the rest is whole."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            return f"the image {path.name} is no file"
        if about.st_size == 0:
            return f"the image {path.name} is empty"
        kind = image_mime(path)
    except OSError as error:
        return f"the image {path.name} cannot be read: {error.strerror or error}"
    if kind is None:
        return f"{path.name} is not a JPEG, PNG, WebP or TIFF image"
    most = LARGEST_TIFF if kind == "image/tiff" else FILE_BYTES
    if about.st_size > most:
        return f"the image {path.name} has {about.st_size / 1e6:.0f} MB, and at most {most / 1e6:.0f} MB can be sent"
    return None


def image_mime(path: Path) -> str | None:
    """What the file is by its first bytes, whatever its name says; None for what Gemini is not given."""
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT)
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "image/tiff"
    if head[4:8] == b"ftyp" and head[8:12] in _HEIC:
        return "image/heic"
    return None


async def readable(path: Path, workspace: Path, *, pool: ProcessPool | None = None) -> Path:
    """The path itself, or that of a PNG of a TIFF's first frame, which is kept in `workspace` by the TIFF's content
    and made once. `UnreadableImage` where none can be made. Without `pool` a process is started for this one call."""
    try:
        if await asyncio.to_thread(image_mime, path) != "image/tiff":
            return path
        digest, size = await asyncio.to_thread(fingerprint, path)
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise UnreadableImage(f"the image {path.name} cannot be read: {error.strerror}") from error
    target = workspace / f"{digest}.png"
    if await asyncio.to_thread(target.is_file):
        return target
    if size > LARGEST_TIFF:
        most = LARGEST_TIFF / 1e6
        raise UnreadableImage(f"the image {path.name} has {size / 1e6:.0f} MB; at most {most:.0f} MB are read")
    try:
        if pool is None:
            async with ProcessPool(workers=1) as own:
                read, picture = await _converted(path, own)
        else:
            read, picture = await _converted(path, pool)
    except Permanent as error:
        raise UnreadableImage(f"the image {path.name} cannot be read: {error}") from error
    # The file may have been replaced since it was looked at: the name is that of what was converted.
    target = workspace / f"{read}.png"
    await asyncio.to_thread(atomic_write, target, picture)
    return target


async def _converted(path: Path, pool: ProcessPool) -> tuple[str, bytes]:
    whole = await asyncio.to_thread(path.absolute)  # a child works in a folder of its own
    function = f"{__name__}:first_frame"
    digest, (picture,) = await pool.run(function, files=[whole], limits=LIMITS, resource="images")
    return str(digest), picture


def first_frame(_: Any, blobs: list[bytes]) -> tuple[str, list[bytes]]:
    """Run in the pool: the first frame of a TIFF as a PNG, upright, grey or in colour, and the TIFF's SHA-256."""
    from PIL import Image, UnidentifiedImageError

    (data,) = blobs
    digest = hashlib.sha256(data).hexdigest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(data), formats=("TIFF",)) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Image.DecompressionBombError
                picture = _plain(image)
            written = io.BytesIO()
            picture.save(written, format="PNG")
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise Permanent(f"it has more than {MOST_PIXELS // 1_000_000} million pixels") from error
        except UnidentifiedImageError as error:
            raise Permanent("it is damaged, or of a kind of TIFF that is not known") from error
        except (OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, ArithmeticError) as error:
            raise Permanent(f"it is damaged: {error}") from error
    return digest, [written.getvalue()]


def _plain(image: Image.Image) -> Image.Image:
    from PIL import Image, ImageOps

    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):
        # Sixteen bits; what has more is as rare as it is dark.
        upright = upright.convert("I").point(lambda value: value / 256).convert("L")
    elif upright.has_transparency_data:
        paper = Image.new("RGBA", upright.size, "white")
        upright = Image.alpha_composite(paper, upright.convert("RGBA")).convert("RGB")
    else:
        upright = upright.convert("L" if upright.mode in ("1", "L", "F") else "RGB")
    pixels = upright.width * upright.height
    if pixels <= ENOUGH_PIXELS:
        return upright
    scale = math.sqrt(ENOUGH_PIXELS / pixels)
    size = (max(1, round(upright.width * scale)), max(1, round(upright.height * scale)))
    return upright.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
