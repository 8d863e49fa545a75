"""Files that are embedded in a PDF, taken out through pdfium within bounds. Runs in a child process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import pypdfium2 as pdfium  # type: ignore[import-untyped]
import pypdfium2.raw as raw  # type: ignore[import-untyped]

MOST_FILES = 50
"""That are looked at."""

LARGEST = 8 * 2**20
"""Bytes of one that is taken out."""

LONGEST_NAME = 512


@dataclass(frozen=True, slots=True)
class Attachment:
    """`content` is None where the file is there and cannot be had; `trouble` says why."""

    name: str
    content: bytes | None = None
    trouble: str = ""


def first(
    document: pdfium.PdfDocument, named: Callable[[str], bool], like: Callable[[bytes], bool]
) -> Attachment | None:
    """The first file that is rightly named and looks right, else the first that looks right, else the first that is
    rightly named. Names are only a hint."""
    count = min(raw.FPDFDoc_GetAttachmentCount(document.raw), MOST_FILES)
    handles = [handle for index in range(count) if (handle := raw.FPDFDoc_GetAttachment(document.raw, index))]
    found = sorted(((_name(handle), handle) for handle in handles), key=lambda each: not named(each[0]))
    fallback: Attachment | None = None
    for name, handle in found:
        if not named(name) and not name.lower().endswith(".xml"):
            continue
        attachment = _taken(name, handle)
        if attachment.content is not None and like(attachment.content):
            return attachment
        if named(name):
            fallback = fallback or attachment
    return fallback


def _name(handle: ctypes.c_void_p) -> str:
    size = raw.FPDFAttachment_GetName(handle, None, 0)
    if size <= 2:
        return ""
    units = ctypes.create_string_buffer(size)
    raw.FPDFAttachment_GetName(handle, ctypes.cast(units, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return units.raw[: size - 2].decode("utf-16-le", errors="replace")[:LONGEST_NAME]


def _taken(name: str, handle: ctypes.c_void_p) -> Attachment:
    size = ctypes.c_ulong()
    if not raw.FPDFAttachment_GetFile(handle, None, 0, size) or size.value == 0:
        return Attachment(name, trouble="is empty or damaged")
    if size.value > LARGEST:
        return Attachment(name, trouble=f"is larger than the {LARGEST // 2**20} MB that are read")
    content = ctypes.create_string_buffer(size.value)
    if not raw.FPDFAttachment_GetFile(handle, content, size.value, size):
        return Attachment(name, trouble="is damaged")
    return Attachment(name, content.raw[: size.value])
