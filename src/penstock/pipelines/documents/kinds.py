"""What a file is, told by its first bytes and never by its name: people rename files, and attackers more so."""

from __future__ import annotations

from typing import Literal

Kind = Literal["pdf", "png", "jpeg", "webp", "gif", "tiff", "bmp"]

HEAD = 1024
"""Bytes that tell what a file is. A PDF's mark may stand anywhere in them: mail programs put lines before it."""

LARGEST_FILE = 50_000_000
"""Bytes of one document; Gemini itself takes no larger PDF."""

SUPPORTED = "PDF, PNG, JPEG, WebP, GIF, TIFF or BMP"

_MIME: dict[Kind, str] = {
    "pdf": "application/pdf",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "tiff": "image/tiff",
    "bmp": "image/bmp",
}
_FIRST: tuple[tuple[bytes, Kind], ...] = (
    (b"%PDF-", "pdf"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
)
_GUESSES: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive, or an Office document, which is one"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"<?xml", "XML"),
    (b"<!DOCTYPE html", "a web page"),
    (b"<html", "a web page"),
    (b"{\\rtf", "a text document (RTF)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"MZ", "a Windows program"),
    (b"\x7fELF", "a program"),
)


def kind_of(head: bytes) -> Kind | None:
    """What the first `HEAD` bytes say; None for everything that is not read here. A file that begins as a picture is a
    picture, whatever else is in it."""
    for mark, kind in _FIRST:
        if head.startswith(mark):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[:2] == b"BM" and _is_bitmap(head):
        return "bmp"
    return "pdf" if b"%PDF-" in head[:HEAD] else None


def mime(kind: Kind) -> str:
    return _MIME[kind]


def refusal(head: bytes) -> str:
    """Why a file of no kind that is read here is refused, in words for its owner."""
    if not head:
        return "The file is empty."
    guess = next((f"this looks like {what}" for mark, what in _GUESSES if head.lstrip().startswith(mark)), None)
    return f"The file is not a document that is read here{f' ({guess})' if guess else ''}: send a {SUPPORTED} file."


def too_large(size: int, most: int = LARGEST_FILE) -> str:
    """Why a file of `size` bytes is refused."""
    return f"The file has {size / 1e6:.1f} MB; at most {most / 1e6:g} MB are taken: send it smaller, or in parts."


def _is_bitmap(head: bytes) -> bool:
    """Two letters are no proof: the size of the second header must be one of those there are."""
    return int.from_bytes(head[14:18], "little") in (12, 16, 40, 52, 56, 64, 108, 124)
